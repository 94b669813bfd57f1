"""The backend `elasticsearch` is a KnowledgeIndex, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from knowledge_store.backends.elasticsearch import ElasticsearchIndex, open_backend
from knowledge_store_sdk.protocols import KnowledgeIndex
from knowledge_store_sdk.testing.index_suite import KnowledgeIndexSuite


class TestElasticsearch(KnowledgeIndexSuite):
    @pytest.fixture
    def settings(self, elasticsearch_url: str, index_prefix: str) -> dict[str, Any]:
        return {"url": elasticsearch_url, "index_prefix": index_prefix}

    @pytest_asyncio.fixture
    async def index(self, settings: dict[str, Any]) -> AsyncIterator[ElasticsearchIndex]:  # type: ignore[override]
        self._settings = settings
        index = open_backend(settings)
        await index.open()
        yield index
        await index.close()

    async def reopen(self, index: KnowledgeIndex) -> KnowledgeIndex:
        await index.close()
        again = open_backend(self._settings)
        await again.open()
        return again
