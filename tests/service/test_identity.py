"""Field case 1.4: another embedding model under an existing index is noticed before any vector is stored."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from knowledge_store_sdk import KnowledgeDocument
from knowledge_store_sdk.errors import IdentityMismatch
from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector, pack
from tests.service.serving import serving

DOCUMENTS = [KnowledgeDocument(id=f"d{n}", content=f"document number {n}") for n in range(10)]


class Model:
    """An embedder that is nothing but an identity: its vectors depend on the text and on `reverse`."""

    def __init__(self, model: str, dims: int, *, reverse: bool = False, digest: str | None = None) -> None:
        self.identity = EmbedderIdentity(model=model, dims=dims, pooling="mean", digest=digest)
        self.max_tokens = 256
        self.passages: list[str] = []
        self._reverse = reverse

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        if role == "passage":
            self.passages += texts
        return [self._vector(text) for text in texts]

    def windows(self, text: str, role: Role) -> list[str]:
        return [text]

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _vector(self, text: str) -> Vector:
        values = [0.0] * self.identity.dims
        for word in text.lower().split():
            checksum = zlib.crc32(word.encode())
            values[checksum % len(values)] += 1.0 if checksum & 256 else -1.0
        values = values if any(values) else [1.0] * len(values)
        return pack(values[::-1] if self._reverse else values)


async def built_with(store: dict[str, Any], model: Model) -> None:
    async with serving(store, embedder=model) as service:
        assert (await service.client.bulk_upsert(DOCUMENTS, refresh=True)).stored == 10


@pytest.mark.parametrize(
    "other",
    [Model("n", 16), Model("n", 8, reverse=True), Model("m", 8, digest="b" * 64)],
    ids=["other length", "same length", "same name, other weights"],
)
async def test_another_model_is_refused_at_start_by_both_names_and_the_way_out(
    store: dict[str, Any], other: Model
) -> None:
    first = Model("m", 8, digest="a" * 64 if other.identity.digest else None)
    await built_with(store, first)
    with pytest.raises(IdentityMismatch) as caught:
        async with serving(store, embedder=other):
            raise AssertionError("it started")
    assert str(first.identity) in caught.value.detail
    assert str(other.identity) in caught.value.detail
    assert "reindex" in caught.value.detail
    assert not set(other.passages) & {document.content for document in DOCUMENTS}
    async with serving(store, embedder=first) as service:  # the old set still serves
        assert len((await service.ask(text="document", mode="vector", top_k=100))["documents"]) == 10


async def test_another_spelling_of_the_same_model_embeds_nothing_again(store: dict[str, Any]) -> None:
    await built_with(store, Model("m", 8))
    spelled = Model("m:latest", 8)
    async with serving(store, embedder=spelled) as service:
        assert (await service.client.bulk_upsert(DOCUMENTS, refresh=True)).stored == 10
        assert len((await service.ask(text="document", mode="vector", top_k=100))["documents"]) == 10
    assert not set(spelled.passages) & {document.content for document in DOCUMENTS}
