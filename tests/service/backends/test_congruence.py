"""The embedded backend and Elasticsearch give the same answers, whatever was written, replaced, deleted and asked.

Elasticsearch counts deleted documents in the statistics that BM25 reads, until it merges them away. Both stores
therefore hold some thousand other documents of the same words, in a project that no question sees, beside which the
deleted ones weigh little; and both are made anew after a few sequences.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from knowledge_store.backends import elasticsearch, embedded
from knowledge_store.query.fusion import Scoring, fuse
from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.protocols import (
    Candidates,
    Fetched,
    FetchRequest,
    Filter,
    KnowledgeIndex,
    Question,
    Scope,
    Write,
)
from knowledge_store_sdk.tags import parse_tags
from knowledge_store_sdk.testing.index_cases import ALL, DIMS, IDENTITY, NOW, parent_write, write
from knowledge_store_sdk.vectors import Vector, pack
from tests.servers.elasticsearch import remove_prefix
from tests.servers.rest import call

SEQUENCES: Final = 200
BACKGROUND: Final = 3_000
SEQUENCES_A_STORE: Final = 5
HOUR: Final = timedelta(hours=1)
SCORING: Final = Scoring(mu=0.1)
WORDS: Final = [
    "kafka", "brokers", "broker's", "shrinking", "shrink", "lag", "partition", "partitions", "ISR", "the", "and", "is",
    "node.js", "kube_pod_x", "3.14", "café", "naïve", "Ünïcode", "日本語", "can't", "e-mail", "C++", "10.0.0.1",
    "re-electing", "happily", "generalization", "oscillators", "👍", "x" * 300,
]  # fmt: skip
_RANDOM: Final = random.Random(8)
VECTORS: Final[list[Vector]] = [pack([_RANDOM.gauss(0, 1) for _ in range(DIMS)]) for _ in range(12)]

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(lambda words: " ".join([*words, "mill"]))
vectors = st.one_of(st.none(), st.sampled_from(VECTORS))
tags = st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple)
hours = st.integers(-2, 3).map(lambda number: NOW + number * HOUR)
fields = st.fixed_dictionaries(
    {"tags": tags, "updated_at": hours},
    optional={
        "title": texts,
        "context": texts,
        "expires_at": hours,
        "project_id": st.sampled_from(["apollo", "gemini"]),
    },
)
filters = st.builds(
    Filter,
    tags=st.sampled_from([None, "a", "a+b", "a|b+c", "c|a"]).map(parse_tags),
    sources=st.sampled_from([None, frozenset({"suite"}), frozenset({"suite", "wiki"}), frozenset({"none"})]),
    parent_id=st.sampled_from([None, None, None, "page", "other"]),
    scope=st.sampled_from([Scope(), Scope("apollo"), Scope("gemini"), Scope("apollo", include_global=False)]),
    live_at=st.one_of(st.none(), hours),
    expired_at=st.one_of(st.none(), st.none(), hours),
    seen_before=st.one_of(st.none(), st.none(), hours),
    pending=st.sampled_from([None, None, True, False]),
)


class Pair:
    """Both stores. `ask` does the same in each and insists that the answers are the same."""

    def __init__(self, folder: Path, url: str, prefix: str) -> None:
        self._folder, self._url, self._prefix = folder, url, prefix
        self._begun = 0
        self.stores: tuple[KnowledgeIndex, ...] = ()

    async def ask(self, what: Callable[[KnowledgeIndex], Awaitable[Any]]) -> Any:
        here, there = [await what(store) for store in self.stores]
        assert here == there
        return here

    async def begin(self) -> None:
        """Before a sequence: what an earlier one left goes, one that failed included."""
        if self._begun % SEQUENCES_A_STORE == 0:
            await self._make_anew()
        self._begun += 1
        for store in self.stores:
            for parent in ("page", "other"):
                await store.replace(parent_write(parent), [])
            members = [f"{parent}#{n}" for parent in ("page", "other") for n in range(5)]
            await store.delete([*members, "s0", "s1", "S1", "s/2 #é"])
        await self.settle()
        assert await self.ask(lambda store: store.count(ALL)) == BACKGROUND

    async def settle(self) -> None:
        """Makes writes visible."""
        assert (await asyncio.to_thread(call, "POST", self._url, f"/{self._prefix}-*/_refresh")).ok

    async def _make_anew(self) -> None:
        await self.close()
        if self._begun:
            await asyncio.to_thread(remove_prefix, self._url, self._prefix)
        settings = {"url": self._url, "index_prefix": f"{self._prefix}-{self._begun}"}
        path = self._folder / f"{self._begun}.db"
        self.stores = (embedded.open_backend({"path": path}), elasticsearch.open_backend(settings))
        for store in self.stores:
            await store.open()
            await store.bind(IDENTITY)
            for start in range(0, BACKGROUND, 1000):
                outcomes = await store.upsert([background(n) for n in range(start, start + 1000)])
                assert {one.state for one in outcomes} == {"stored"}

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


@dataclass(frozen=True)
class Upsert:
    id: str
    content: str
    vector: Vector | None
    source: str
    parent_id: str | None
    blind: bool
    seen_at: Any
    fields: dict[str, Any]

    async def run(self, pair: Pair) -> None:
        metadata = {"parent_id": self.parent_id} if self.parent_id else {"n": 1}
        one = made(self.id, self.content, self.vector, self.seen_at, self.fields, source=self.source, metadata=metadata)

        async def upsert(store: KnowledgeIndex) -> Any:
            there = (await store.lookup([self.id])).get(self.id)
            expect = None if there is None or self.blind else there.version
            [outcome] = await store.upsert([replace(one, expect=expect)])
            return outcome.state

        await pair.ask(upsert)


@dataclass(frozen=True)
class Replace:
    parent_id: str
    members: dict[int, tuple[str, Vector | None, dict[str, Any]]]
    seen_at: Any
    seen_before: Any

    async def run(self, pair: Pair) -> None:
        writes = [
            made(f"{self.parent_id}#{n}", text, vector, self.seen_at, fields)
            for n, (text, vector, fields) in self.members.items()
        ]
        parent = parent_write(self.parent_id, seen_at=self.seen_at)
        await pair.ask(lambda store: store.replace(parent, writes, seen_before=self.seen_before))


@dataclass(frozen=True)
class Delete:
    ids: list[str]

    async def run(self, pair: Pair) -> None:
        await pair.ask(lambda store: store.delete(self.ids))


@dataclass(frozen=True)
class Embed:
    """What waits gets its vector."""

    vector: Vector

    async def run(self, pair: Pair) -> None:
        await pair.settle()

        async def embed(store: KnowledgeIndex) -> int:
            page = await store.scan(Filter(pending=True, scope=Scope("apollo")), limit=100)
            return await store.set_vectors({one.document.id: (one.version, self.vector) for one in page.documents})

        await pair.ask(embed)


@dataclass(frozen=True)
class Ask:
    """One question in every mode, and the lists and counts under its filter."""

    text: str
    vector: Vector
    filter: Filter

    async def run(self, pair: Pair) -> None:
        await pair.settle()
        here, there = [await answered(store, self) for store in pair.stores]
        assert here.documents == there.documents
        for mode in here.scores:
            assert set(here.scores[mode]) == set(there.scores[mode]), f"{mode}: other ids"
            assert here.scores[mode] == pytest.approx(there.scores[mode], abs=0.01), f"{mode}: other scores"
        await pair.ask(lambda store: store.count(self.filter))
        await pair.ask(lambda store: store.stats(self.filter))
        await pair.ask(lambda store: listed(store, self.filter))


@dataclass(frozen=True)
class Answers:
    """Per mode the score by id, and the documents by id."""

    scores: dict[str, dict[str, float]]
    documents: dict[str, tuple[KnowledgeDocument, bool, str | None]]


async def answered(store: KnowledgeIndex, asked: Ask) -> Answers:
    exclude: frozenset[str] = frozenset()
    for _ in range(5):
        [legs] = await store.candidates([Question(asked.text, asked.vector, asked.filter, 100, exclude)])
        keys = list(dict.fromkeys(hit.key for leg in (legs.keyword, legs.vector) for hit in leg or ()))
        [fetched] = await store.fetch([FetchRequest(keys, keys, asked.vector)])
        exclude |= fetched.superseded
        if not fetched.superseded:
            break
    return Answers(
        {
            "keyword": by_id(Candidates(legs.keyword, None), fetched),
            "vector": by_id(Candidates(None, legs.vector), fetched),
            "hybrid": by_id(legs, fetched),
            "exact": {fetched.found[key].document.id: cosine for key, cosine in fetched.cosines.items()},
        },
        {one.document.id: (one.document, one.pending, one.member_of) for one in fetched.found.values()},
    )


def by_id(legs: Candidates, fetched: Fetched) -> dict[str, float]:
    mode = (
        "hybrid"
        if legs.keyword is not None and legs.vector is not None
        else "keyword"
        if legs.vector is None
        else "vector"
    )
    hits = fuse(legs, mode, SCORING, "score")
    return {
        fetched.found[hit.key].document.id: hit.score if hit.settled else SCORING.keyword_value(hit.bm25)
        for hit in hits
        if hit.key in fetched.found
    }


async def listed(store: KnowledgeIndex, filter: Filter) -> list[Any]:
    """The ids of a list, in two pages."""
    first = await store.scan(filter, limit=3)
    rest = [] if first.cursor is None else (await store.scan(filter, limit=100, cursor=first.cursor)).documents
    return [(one.document.id, one.pending, one.text_hash, one.member_of) for one in [*first.documents, *rest]]


def made(id: str, content: str, vector: Vector | None, seen_at: Any, fields: dict[str, Any], **more: Any) -> Write:
    return write(id, content, vector=vector, seen_at=seen_at, **fields, **more)


upserts = st.builds(
    Upsert,
    id=st.sampled_from(["s0", "s1", "S1", "s/2 #é"]),
    content=texts,
    vector=vectors,
    source=st.sampled_from(["suite", "wiki"]),
    parent_id=st.sampled_from([None, None, "page", "other"]),
    blind=st.sampled_from([False, False, False, True]),
    seen_at=hours,
    fields=fields,
)
replaces = st.builds(
    Replace,
    parent_id=st.sampled_from(["page", "other"]),
    members=st.dictionaries(st.integers(0, 4), st.tuples(texts, vectors, fields), max_size=4),
    seen_at=hours,
    seen_before=st.one_of(st.none(), st.none(), hours),
)
deletes = st.builds(
    Delete,
    st.lists(st.sampled_from(["s0", "s1", "S1", "page#0", "page#1", "other#2", "none"]), min_size=1, unique=True),
)
asks = st.builds(Ask, text=texts, vector=st.sampled_from(VECTORS), filter=filters)
sequences = st.lists(
    st.one_of(upserts, upserts, replaces, replaces, deletes, st.builds(Embed, st.sampled_from(VECTORS))),
    min_size=1,
    max_size=8,
)


@cache
def background(number: int) -> Write:
    chosen = random.Random(number)
    words = [chosen.choice(WORDS) for _ in range(chosen.randint(1, 12))]
    return write(f"background/{number}", " ".join([*words, "mill"]), vector=None, project_id="background")


@pytest_asyncio.fixture
async def pair(tmp_path: Path, elasticsearch_url: str, index_prefix: str) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, elasticsearch_url, index_prefix)
    yield pair
    await pair.close()


# 200 sequences on a real server take a minute and more; their number is what the test is about.
@pytest.mark.slow
@pytest.mark.timeout(900)
@given(before=sequences, between=sequences, first=asks, last=asks)
@settings(
    max_examples=SEQUENCES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
async def test_both_backends_give_the_same_answers(
    pair: Pair, before: list[Any], between: list[Any], first: Ask, last: Ask
) -> None:
    await pair.begin()
    for step in [*before, first, *between, last, replace(last, filter=Filter(scope=Scope("apollo")))]:
        note(repr(step))
        await step.run(pair)
    await pair.ask(lambda store: store.parents("suite", limit=100))


def test_the_scores_compared_can_differ() -> None:
    """The tolerance is smaller than what one word makes."""
    assert SCORING.keyword_value(math.log(1 + 9.5 / 1.5) * 2.2 / 2) > 0.02
