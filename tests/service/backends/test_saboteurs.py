"""The index conformance suite notices each mistake that it was written to notice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from knowledge_store.backends.embedded import open_backend
from knowledge_store_sdk.protocols import KnowledgeIndex
from knowledge_store_sdk.testing.index_cases import IDENTITY
from knowledge_store_sdk.testing.index_saboteurs import SABOTEURS, Untouched
from knowledge_store_sdk.testing.index_suite import KnowledgeIndexSuite

CAUGHT = [(saboteur, test) for saboteur in SABOTEURS for test in saboteur.caught_by]


@pytest_asyncio.fixture
async def index(tmp_path: Path) -> AsyncIterator[KnowledgeIndex]:
    index = open_backend({"path": tmp_path / "knowledge.db"})
    await index.open()
    await index.bind(IDENTITY)
    yield index
    await index.close()


@pytest.mark.parametrize(("saboteur", "test"), CAUGHT, ids=[f"{one.__name__}-{test}" for one, test in CAUGHT])
async def test_a_saboteur_fails_the_suite(index: KnowledgeIndex, saboteur: type[Untouched], test: str) -> None:
    run = getattr(KnowledgeIndexSuite(), test)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await run(saboteur(index))


@pytest.mark.parametrize("test", sorted({test for _, test in CAUGHT}))
async def test_the_same_wrapper_without_a_mistake_passes(index: KnowledgeIndex, test: str) -> None:
    await getattr(KnowledgeIndexSuite(), test)(Untouched(index))


def test_every_saboteur_is_caught_by_a_test() -> None:
    assert [one.__name__ for one in SABOTEURS if not one.caught_by] == []
    assert len(SABOTEURS) >= 10
