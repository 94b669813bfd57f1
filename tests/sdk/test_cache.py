"""The client's cache: what it keeps, for how long, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_store_sdk.cache import KnowledgeCache
from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.models import Citation, KnowledgeDocument, Passage, Query
from knowledge_store_sdk.testing import FakeKnowledgeClient
from tests.sdk.roles import Service, answers

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> float:
        return self.at.timestamp()

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def passage(id: str = "x", content: str = "text", **fields: Any) -> Passage:
    citation = Citation(source="s", uri="u", revision="r", updated_at=NOW, content_hash="h")
    return Passage(id=id, content=content, citation=citation, score=0.5, **fields)


def found(*passages: Passage, degraded: bool = False) -> dict[str, Any]:
    missing = [{"leg": "vector", "reason": "down"}] if degraded else []
    return {"documents": [one.model_dump(mode="json") for one in passages], "took_ms": 1, "degraded": missing}


def test_an_answer_comes_back_equal_and_as_a_copy() -> None:
    cache = KnowledgeCache()
    kept = [passage(metadata={"list": [1], "none": None}, tags=("a",), updated_at=NOW)]
    cache.put("key", kept, cache.generation)
    first = cache.get("key")
    assert first == kept
    first[0].metadata["list"].append(2)
    assert cache.get("key") == kept


def test_an_answer_is_kept_for_its_time_only() -> None:
    clock = Clock()
    cache = KnowledgeCache(ttl_s=60, now=clock)
    cache.put("key", [passage()], cache.generation)
    clock.advance(59.9)
    assert cache.get("key") is not None
    clock.advance(0.1)
    assert cache.get("key") is None


def test_an_expired_document_never_leaves() -> None:
    clock = Clock()
    cache = KnowledgeCache(ttl_s=60, now=clock)
    cache.put("key", [passage("a"), passage("b", expires_at=NOW + timedelta(seconds=5))], cache.generation)
    clock.advance(4.9)
    assert cache.get("key") is not None
    clock.advance(0.1)
    assert cache.get("key") is None


def test_a_clock_that_is_set_back_keeps_nothing_longer() -> None:
    clock = Clock()
    cache = KnowledgeCache(now=clock)
    cache.put("key", [passage()], cache.generation)
    clock.advance(-3600)
    assert cache.get("key") is None


def test_the_least_recently_used_goes_first() -> None:
    cache = KnowledgeCache(max_bytes=4 * 2500)
    for key in "abc":
        cache.put(key, [passage(content="x" * 2000)], cache.generation)
    assert cache.get("a") is not None
    cache.put("d", [passage(content="x" * 2000)], cache.generation)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]


def test_an_answer_larger_than_the_cache_is_not_kept_and_drives_nothing_out() -> None:
    cache = KnowledgeCache(max_bytes=4000)
    cache.put("small", [passage()], cache.generation)
    cache.put("large", [passage(content="x" * 5000)], cache.generation)
    assert cache.get("large") is None
    assert cache.get("small") is not None


def test_an_answer_asked_for_before_a_write_is_not_kept() -> None:
    cache = KnowledgeCache()
    generation = cache.generation
    cache.clear()
    cache.put("key", [passage()], generation)
    assert cache.get("key") is None


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"ttl_s": 0}])
def test_a_cache_that_could_keep_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        KnowledgeCache(**options)


async def test_the_same_question_is_sent_once() -> None:
    async with Service([answers(200, found(passage()))]) as service:
        async with KnowledgeClient(service.url, cache=KnowledgeCache()) as client:
            first = await client.fetch("a", "question")
            assert await client.fetch("a", "question") == first
            assert (await client.fetch_many([{"tags": "a", "text": "question"}]))[0] == first
        assert len(service.seen) == 1


@pytest.mark.parametrize(
    "other",
    [{"tags": "b"}, {"text": "x"}, {"top_k": 4}, {"min_score": 0.1}, {"strategy": "diverse"}, {"mode": "keyword"},
     {"project_id": "p"}, {"include_global": False}, {"sources": ["s"]}],
)  # fmt: skip
async def test_another_question_is_asked(other: dict[str, Any]) -> None:
    async with Service([answers(200, found(passage()))]) as service:
        async with KnowledgeClient(service.url, cache=KnowledgeCache()) as client:
            asked: dict[str, Any] = {"tags": "a", "text": "question"}
            await client.fetch(**asked)
            await client.fetch(**(asked | other))
        assert len(service.seen) == 2


async def test_only_what_is_not_kept_is_asked_for() -> None:
    async with Service([answers(200, found(passage("a"))), answers(200, found(passage("b")))]) as service:
        async with KnowledgeClient(service.url, cache=KnowledgeCache()) as client:
            await client.fetch("a", "x")
            both = await client.fetch_many([{"tags": "b", "text": "x"}, {"tags": "a", "text": "x"}])
        assert [[one.id for one in answer] for answer in both] == [["b"], ["a"]]
        assert [one.json["tags"] for one in service.seen] == ["a", "b"]


async def test_another_key_or_service_is_not_answered_from_it() -> None:
    cache = KnowledgeCache()
    async with Service([answers(200, found(passage()))]) as service:
        for key in ("one", "two", None):
            async with KnowledgeClient(service.url, key, cache=cache) as client:
                await client.fetch("a", "x")
        assert len(service.seen) == 3
    for _ in range(2):
        fake = FakeKnowledgeClient(cache=cache)
        assert await fake.fetch("a", "x") == []


async def test_a_degraded_answer_is_not_kept() -> None:
    async with Service([answers(200, found(passage(), degraded=True))]) as service:
        async with KnowledgeClient(service.url, cache=KnowledgeCache()) as client:
            await client.fetch("a", "x")
            await client.fetch("a", "x")
        assert len(service.seen) == 2


async def test_a_write_through_the_client_empties_it() -> None:
    client = FakeKnowledgeClient(cache=KnowledgeCache())
    assert await client.fetch("a", "text") == []
    await client.upsert(KnowledgeDocument(id="x", content="text", tags=("a",)))
    assert len(await client.fetch("a", "text")) == 1
    await client.delete("x")
    assert await client.fetch("a", "text") == []


async def test_a_query_is_never_answered_from_it() -> None:
    async with Service([answers(200, found(passage()))]) as service:
        async with KnowledgeClient(service.url, cache=KnowledgeCache()) as client:
            await client.fetch(text="x")
            await client.query(Query(text="x"))
        assert len(service.seen) == 2
