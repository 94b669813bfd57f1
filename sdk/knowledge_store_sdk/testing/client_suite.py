"""What every client of a Knowledge Store does, whatever answers it.

    class TestMyClient(KnowledgeClientSuite):
        @pytest.fixture
        async def client(self) -> AsyncIterator[KnowledgeClient]:
            async with KnowledgeClient(url, api_key=admin_key) as client:
                yield client

The store need not be empty: each test writes under tags, ids and a source of its own. The key must be an admin's.
Documents that a question is to find share words with it, so that a store with a test's embedder passes too.
"""

from __future__ import annotations

import pytest

from knowledge_store_sdk.testing.client_cases import Own
from knowledge_store_sdk.testing.client_suite_asking import AskingSuite
from knowledge_store_sdk.testing.client_suite_keeping import KeepingSuite


@pytest.mark.asyncio
class KnowledgeClientSuite(AskingSuite, KeepingSuite):
    """Subclass it and give it a fixture `client`: a KnowledgeClient, or what has its methods."""

    @pytest.fixture
    def own(self) -> Own:
        return Own()
