"""Bulk writes: how they are cut into requests, and what is sent again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from knowledge_store_sdk import _batches
from knowledge_store_sdk._batches import MAX_BATCH_BYTES
from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import BackendUnavailable, InternalError
from knowledge_store_sdk.models import KnowledgeDocument
from tests.sdk.roles import Seen, Service, answers


def document(id: str, content: str = "text") -> KnowledgeDocument:
    return KnowledgeDocument(id=id, content=content)


class Ingest:
    """Stores documents, and refuses items as told: id -> how often with 429, or for good."""

    def __init__(self, busy: dict[str, int] | None = None, bad: frozenset[str] = frozenset()) -> None:
        self.busy, self.bad = dict(busy or {}), bad
        self.sent: list[list[str]] = []
        self.kept: dict[str, str] = {}

    async def __call__(self, seen: Seen) -> web.StreamResponse:
        documents = seen.json["documents"]
        self.sent.append([one["id"] for one in documents])
        results = [self._outcome(one) for one in documents]
        stored = sum(one["state"] == "stored" for one in results)
        body = {"stored": stored, "failed": len(results) - stored, "results": results}
        return await answers(200, body)(seen)

    def _outcome(self, one: dict[str, Any]) -> dict[str, Any]:
        id = one["id"]
        if id in self.bad:
            error = {"code": "invalid_field", "detail": "the mapping refuses it", "retryable": False}
            return {"id": id, "state": "failed", "error": error}
        if self.busy.get(id, 0) > 0:
            self.busy[id] -= 1
            error = {"code": "rate_limited", "detail": "the queue is full", "retryable": True}
            return {"id": id, "state": "failed", "error": error}
        self.kept[id] = one["content"]
        return {"id": id, "state": "stored", "vectors": "ready"}

    def times(self) -> Counter[str]:
        return Counter(id for request in self.sent for id in request)


FIVE = [document(str(at)) for at in range(1, 6)]


async def test_an_item_that_was_busy_is_sent_again_alone() -> None:
    ingest = Ingest(busy={"2": 1}, bad=frozenset({"3"}))
    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        result = await client.bulk_upsert(FIVE)
    assert set(ingest.kept) == {"1", "2", "4", "5"}
    assert ingest.times() == {"1": 1, "2": 2, "3": 1, "4": 1, "5": 1}
    assert (result.stored, result.failed) == (4, 1)
    assert [one.id for one in result.results] == ["1", "2", "3", "4", "5"]
    error = result.results[2].error
    assert error is not None
    assert (error.detail, error.retryable) == ("the mapping refuses it", False)


async def test_an_item_that_stays_busy_is_reported_as_failed_and_retryable() -> None:
    ingest = Ingest(busy={"2": 10**9})
    async with Service([ingest]) as service, KnowledgeClient(service.url, retries=2) as client:
        result = await client.bulk_upsert(FIVE)
    assert ingest.times() == {"1": 1, "2": 3, "3": 1, "4": 1, "5": 1}
    assert (result.stored, result.failed) == (4, 1)
    assert result.stored + result.failed == len(FIVE)
    error = result.results[1].error
    assert error is not None
    assert error.retryable


async def test_waits_between_the_attempts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batches, "pause", lambda attempt, _: 0.1 * 2**attempt)
    async with Service([Ingest(busy={"2": 10**9})]) as service, KnowledgeClient(service.url, retries=2) as client:
        await client.bulk_upsert(FIVE)
        first, second, third = (one.at for one in service.seen)
    assert second - first >= 0.1
    assert third - second >= 0.2


async def test_a_thousand_documents_at_most_are_in_one_request() -> None:
    ingest = Ingest()
    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        result = await client.bulk_upsert(document(str(at)) for at in range(2500))
    assert [len(one) for one in ingest.sent] == [1000, 1000, 500]
    assert [one.id for one in result.results] == [str(at) for at in range(2500)]
    assert result.stored == 2500


async def test_a_request_is_at_most_about_4_mib() -> None:
    ingest = Ingest()
    large = [document(str(at), "é" * 30_000) for at in range(200)]  # 60 KB each
    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        result = await client.bulk_upsert(large)
        sizes = [len(one.body) for one in service.seen]
    assert max(sizes) <= MAX_BATCH_BYTES + 1024
    assert len(sizes) == 3
    assert result.stored == 200


async def test_two_with_one_id_never_share_a_request() -> None:
    ingest = Ingest(busy={"x": 1})
    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        result = await client.bulk_upsert([document("x", "first"), document("y"), document("x", "second")])
    assert ingest.kept["x"] == "second"
    assert ingest.sent == [["x", "y"], ["x"], ["x"]]
    assert (result.stored, len(result.results)) == (3, 3)


async def test_an_async_iterable_is_read_only_as_it_is_written() -> None:
    ingest = Ingest()
    read_ahead: list[int] = []

    async def produce() -> AsyncIterator[KnowledgeDocument]:
        for at in range(2001):
            read_ahead.append(at - sum(len(one) for one in ingest.sent))
            yield document(str(at))

    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        assert (await client.bulk_upsert(produce())).stored == 2001
    assert max(read_ahead) == 1000


async def test_a_producer_that_fails_leaves_what_was_written_and_is_raised() -> None:
    ingest = Ingest()

    def produce() -> Iterator[KnowledgeDocument]:
        yield from (document(str(at)) for at in range(1001))
        raise LookupError("the directory is gone")

    async with Service([ingest]) as service, KnowledgeClient(service.url) as client:
        with pytest.raises(LookupError):
            await client.bulk_upsert(produce())
    assert len(ingest.kept) == 1000


async def test_a_request_that_fails_as_a_whole_is_repeated_and_then_raised() -> None:
    busy = answers(503, {"code": "backend_unavailable"}, headers={"Retry-After": "0"})
    ingest = Ingest()
    async with Service([busy, ingest]) as service, KnowledgeClient(service.url) as client:
        assert (await client.bulk_upsert(FIVE)).stored == 5
    async with Service([busy]) as service, KnowledgeClient(service.url, retries=1) as client:
        with pytest.raises(BackendUnavailable):
            await client.bulk_upsert(FIVE)
        assert len(service.seen) == 2


async def test_results_for_other_documents_are_noticed() -> None:
    body = {"stored": 1, "failed": 0, "results": [{"id": "9", "state": "stored"}]}
    async with Service([answers(200, body)]) as service, KnowledgeClient(service.url) as client:
        with pytest.raises(InternalError):
            await client.bulk_upsert([document("1")])
