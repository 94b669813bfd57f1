"""Finds a vector for each text that is to be stored, and embeds only what nobody has embedded before.

made lately? -> already in the store? -> embed -> None: it waits
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knowledge_store.embedding.cache import text_key
from knowledge_store_sdk.protocols import KnowledgeIndex
from knowledge_store_sdk.vectors import Vector


class Embedded(Protocol):
    @property
    def vector(self) -> Vector | None: ...

    @property
    def reason(self) -> str | None:
        """Why there is no vector."""
        ...

    @property
    def refused(self) -> bool:
        """The text is to blame, and the same text would be refused again."""
        ...


class PassageEmbedder(Protocol):
    """What the ingest path needs of the embedder."""

    def at_hand(self, text: str) -> Vector | None:
        """The vector where it was made lately."""
        ...

    def forget_refusals(self, texts: Sequence[str]) -> None:
        """Lets these texts be tried again, although they were refused before."""
        ...

    async def embed_passages(self, texts: Sequence[str], deadline_s: float | None = None) -> Sequence[Embedded]:
        """One result a text; its vector is None where there was none to be had within the deadline."""
        ...


async def vectors_for(
    texts: Sequence[str], index: KnowledgeIndex, embedder: PassageEmbedder, deadline_s: float | None
) -> list[Vector | None]:
    """One vector a text, in order; None where it has to wait."""
    vectors = {text: vector for text in dict.fromkeys(texts) if (vector := embedder.at_hand(text))}
    unknown = {text_key(text): text for text in texts if text not in vectors}
    if unknown:
        for key, vector in (await index.vectors(list(unknown))).items():
            vectors[unknown.pop(key)] = vector
    if unknown:
        fresh = list(unknown.values())
        made = await embedder.embed_passages(fresh, deadline_s)
        vectors |= {text: one.vector for text, one in zip(fresh, made, strict=True) if one.vector}
    return [vectors.get(text) for text in texts]
