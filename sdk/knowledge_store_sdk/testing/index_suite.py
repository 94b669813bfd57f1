"""The conformance suite of the seam `KnowledgeIndex`: an implementation is one when it passes.

    class TestMyIndex(KnowledgeIndexSuite):
        @pytest_asyncio.fixture
        async def index(self, tmp_path):
            index = open_backend({"path": str(tmp_path / "store")})
            await index.open()
            yield index
            await index.close()

        async def reopen(self, index):
            await index.close()
            ...

It runs with pytest and pytest-asyncio, reads back by another road where there is one, and expects answers that are not
empty. `index_saboteurs` has the mistakes that it must notice.
"""

from __future__ import annotations

import pytest

from knowledge_store_sdk.testing.index_suite_filters import FilterRules
from knowledge_store_sdk.testing.index_suite_finding import FindingRules
from knowledge_store_sdk.testing.index_suite_keeping import KeepingRules
from knowledge_store_sdk.testing.index_suite_sets import SetRules
from knowledge_store_sdk.testing.index_suite_writing import WritingRules


@pytest.mark.asyncio
class KnowledgeIndexSuite(FilterRules, FindingRules, WritingRules, SetRules, KeepingRules):
    """Subclass it under a name that starts with `Test`; override the fixture `index` and the method `reopen`."""
