"""The embedder that the documents show passes the conformance suite, and their test modules can be imported."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from knowledge_store.backends import embedded
from knowledge_store_sdk.protocols import Embedder
from knowledge_store_sdk.testing.embedder_suite import EmbedderSuite
from tests.docs.documents import Block, blocks

SHOWN = [block for block in blocks("python") if block.file.name == "extending.md"]


def made_of(block: Block) -> dict[str, Any]:
    """The names that a block defines."""
    module: dict[str, Any] = {"__name__": "my_package.letters"}
    exec(compile(block.text, str(block), "exec"), module)
    return module


class TestTheEmbedderShown(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        embedder = made_of(SHOWN[0])["open_embedder"]({})
        yield embedder
        await embedder.close()


@pytest.mark.parametrize("block", SHOWN[1:], ids=str)
def test_the_test_module_shown_subclasses_a_suite(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    letters, store = ModuleType("my_package.letters"), ModuleType("my_package.store")
    vars(letters).update(made_of(SHOWN[0]))
    vars(store).update(open_backend=embedded.open_backend)
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.letters", letters)
    monkeypatch.setitem(sys.modules, "my_package.store", store)
    (suite,) = [one for name, one in made_of(block).items() if name.startswith("Test")]
    assert any(base.__module__.startswith("knowledge_store_sdk.testing.") for base in suite.__mro__)


def test_the_page_shows_an_embedder_and_a_test_for_each_seam() -> None:
    assert len(SHOWN) == 3
