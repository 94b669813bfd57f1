"""The SDK's client against the real service, on either backend, through the client's own conformance suite."""

from __future__ import annotations

import pytest

from knowledge_store_sdk import KnowledgeClient
from knowledge_store_sdk.testing.client_suite import KnowledgeClientSuite
from tests.service.serving import Service


class TestClientOverHttp(KnowledgeClientSuite):
    @pytest.fixture
    async def client(self, service: Service) -> KnowledgeClient:
        return service.client
