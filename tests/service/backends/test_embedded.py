"""The embedded backend passes the conformance suite of its seam."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from knowledge_store.backends.embedded import open_backend
from knowledge_store_sdk.protocols import KnowledgeIndex
from knowledge_store_sdk.testing.index_suite import KnowledgeIndexSuite


class TestEmbeddedIndex(KnowledgeIndexSuite):
    @pytest_asyncio.fixture
    async def index(self, tmp_path: Path) -> AsyncIterator[KnowledgeIndex]:
        index = open_backend({"path": tmp_path / "knowledge.db"})
        await index.open()
        self.path = tmp_path / "knowledge.db"
        yield index
        await index.close()

    async def reopen(self, index: KnowledgeIndex) -> KnowledgeIndex:
        await index.close()
        again = open_backend({"path": self.path})
        await again.open()
        return again
