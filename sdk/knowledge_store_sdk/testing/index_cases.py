"""What the index conformance suite is made of: small documents and vectors, one way to ask, the base of its rules."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.protocols import (
    EmbedderIdentity,
    FetchRequest,
    Filter,
    KnowledgeIndex,
    ParentWrite,
    Question,
    Scope,
    Stored,
    Write,
)
from knowledge_store_sdk.vectors import Vector, pack

DIMS = 8
IDENTITY = EmbedderIdentity(model="conformance", dims=DIMS, pooling="mean")
NOW = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)
ALL = Filter()
READER = Filter(scope=Scope(), live_at=NOW)
_VISIBLE_WITHIN_S = 3.0  # the contract says one second; the rest is for a busy machine
_MAX_ROUNDS = 10


def axis(number: int) -> Vector:
    """A unit vector of the suite's dims; two of different numbers are at right angles."""
    return pack([1.0 if place == number else 0.0 for place in range(DIMS)])


_ALONG_0 = axis(0)


def at_cosine(cosine: float) -> Vector:
    """A vector whose cosine with `axis(0)` is this."""
    return pack([cosine, math.sqrt(1 - cosine * cosine)] + [0.0] * (DIMS - 2))


def write(
    id: str,
    content: str = "some words",
    *,
    vector: Vector | None = _ALONG_0,
    expect: str | None = None,
    seen_at: datetime = NOW,
    **fields: Any,
) -> Write:
    """A complete write; `fields` are those of the document."""
    complete: dict[str, Any] = {
        "source": "suite",
        "uri": f"knowledge://suite/{id}",
        "revision": "1",
        "updated_at": NOW,
    } | fields
    document = KnowledgeDocument(id=id, content=content, **complete)
    text_hash = hashlib.sha256(document.search_text.encode()).hexdigest()
    return Write(document=document, vector=vector, text_hash=text_hash, seen_at=seen_at, expect=expect)


def parent_write(id: str, *, source: str = "suite", revision: str = "1", seen_at: datetime = NOW) -> ParentWrite:
    """The parent of a set that the suite writes."""
    return ParentWrite(
        id=id,
        source=source,
        uri=f"file:///{id}",
        title="A page",
        revision=revision,
        fingerprint="f1",
        seen_at=seen_at,
    )


async def stored(index: KnowledgeIndex, *writes: Write) -> None:
    """Writes and insists that each was stored."""
    outcomes = await index.upsert(writes, refresh=True)
    assert [(one.id, one.state) for one in outcomes] == [(one.document.id, "stored") for one in writes], outcomes


async def version_of(index: KnowledgeIndex, id: str) -> str:
    return (await index.lookup([id]))[id].version


@dataclass(frozen=True)
class Found:
    """Per leg the raw scores by document id, best first, None for a leg not asked; and the documents by id."""

    keyword: dict[str, float] | None
    vector: dict[str, float] | None
    documents: Mapping[str, Stored]

    @property
    def keyword_ids(self) -> set[str]:
        assert self.keyword is not None
        return set(self.keyword)

    @property
    def vector_ids(self) -> set[str]:
        assert self.vector is not None
        return set(self.vector)


async def find(
    index: KnowledgeIndex,
    text: str | None = None,
    vector: Vector | None = None,
    where: Filter = READER,
    window: int = 100,
) -> Found:
    """Candidates and their documents, asked again for as long as sets turn out to be superseded."""
    exclude: frozenset[str] = frozenset()
    for _ in range(_MAX_ROUNDS):
        [legs] = await index.candidates([Question(text, vector, where, window, exclude)])
        keys = list(dict.fromkeys(hit.key for leg in (legs.keyword, legs.vector) for hit in leg or ()))
        [fetched] = await index.fetch([FetchRequest(keys)])
        if not fetched.superseded:
            break
        exclude |= fetched.superseded
    else:
        pytest.fail(f"candidates are still superseded after {_MAX_ROUNDS} rounds")
    ids = {key: one.document.id for key, one in fetched.found.items()}
    assert len(set(ids.values())) == len(ids), f"one document stands under two keys: {ids}"

    def by_id(leg: Sequence[Any] | None) -> dict[str, float] | None:
        if leg is None:
            return None
        hits = [(ids[hit.key], hit.raw) for hit in leg if hit.key in ids]
        assert len(dict(hits)) == len(hits), f"a leg names one document twice: {hits}"
        assert [raw for _, raw in hits] == sorted((raw for _, raw in hits), reverse=True), f"not best first: {hits}"
        return dict(hits)

    documents = {one.document.id: one for one in fetched.found.values()}
    return Found(by_id(legs.keyword), by_id(legs.vector), documents)


async def scanned(index: KnowledgeIndex, where: Filter = ALL, *, limit: int = 100) -> list[Stored]:
    """Every document of a scan, page after page."""
    documents: list[Stored] = []
    cursor: str | None = None
    for _ in range(1_000):
        page = await index.scan(where, limit=limit, cursor=cursor)
        assert len(page.documents) <= limit
        documents += page.documents
        cursor = page.cursor
        if cursor is None:
            return documents
    pytest.fail("a scan does not end")


async def soon(check: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits until the check holds, as long as a write without `refresh` may take to be found."""
    deadline = time.monotonic() + _VISIBLE_WITHIN_S
    while not await check():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {_VISIBLE_WITHIN_S} s: {what}")
        await asyncio.sleep(0.05)


class IndexRules:
    """The base of each part of the suite.

    A subclass has the fixture `index`: an opened index that nothing was written to, closed afterwards, also where the
    test closed it already.
    """

    async def reopen(self, index: KnowledgeIndex) -> KnowledgeIndex:
        """A restart: closes this handle and opens another on the same store; the suite closes it."""
        raise NotImplementedError("override `reopen`, or the tests that use it where nothing outlives a handle")

    @pytest_asyncio.fixture
    async def store(self, index: KnowledgeIndex) -> KnowledgeIndex:
        """The index, bound to the suite's embedder."""
        await index.bind(IDENTITY)
        return index
