"""Writes that are refused, lost or cut short: each is told truly, stored once, and leaves nothing to repair."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

import pytest
import pytest_asyncio

from knowledge_store.backends.elasticsearch import ElasticsearchIndex, open_backend, purging
from knowledge_store.backends.elasticsearch.names import short
from knowledge_store_sdk.errors import BackendUnavailable, Conflict
from knowledge_store_sdk.protocols import Write
from knowledge_store_sdk.testing.index_cases import ALL, IDENTITY, axis, find, parent_write, scanned, version_of, write
from tests.service.backends.elasticsearch_proxy import Proxy, proxied

LATER = timedelta(hours=1)


@pytest_asyncio.fixture
async def proxy(elasticsearch_url: str) -> AsyncIterator[Proxy]:
    async with proxied(elasticsearch_url) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def store_through(proxy: Proxy, index_prefix: str) -> AsyncIterator[ElasticsearchIndex]:
    store = open_backend({"url": proxy.address, "index_prefix": index_prefix})
    await store.open()
    await store.bind(IDENTITY)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def store(proxy: Proxy, index_prefix: str) -> AsyncIterator[ElasticsearchIndex]:
    """The index, asked through the proxy."""
    async with store_through(proxy, index_prefix) as store:
        yield store


@pytest_asyncio.fixture
async def reader(
    elasticsearch_url: str, store: ElasticsearchIndex, index_prefix: str
) -> AsyncIterator[ElasticsearchIndex]:
    """Another handle on the same index, past the proxy."""
    reader = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
    await reader.open()
    yield reader
    await reader.close()


def sends(proxy: Proxy, id: str) -> int:
    return len(proxy.sends[short(id)])


async def test_of_five_items_the_busy_one_is_sent_again_and_the_bad_one_is_not(
    store: ElasticsearchIndex, proxy: Proxy
) -> None:
    proxy.refusals = {short("d2"): [429], short("d3"): [400] * 99}
    outcomes = await store.upsert([write(f"d{n}", "kafka") for n in (1, 2, 3, 4, 5)], refresh=True)
    assert [one.state for one in outcomes] == ["stored", "stored", "failed", "stored", "stored"]
    assert (outcomes[2].id, outcomes[2].retryable) == ("d3", False)
    assert "status 400" in (outcomes[2].reason or "")
    assert [sends(proxy, f"d{n}") for n in (1, 2, 3, 4, 5)] == [1, 2, 1, 1, 1]
    assert {one.document.id for one in await scanned(store)} == {"d1", "d2", "d4", "d5"}


async def test_an_item_that_stays_busy_is_given_up_after_growing_waits(store: ElasticsearchIndex, proxy: Proxy) -> None:
    proxy.refusals = {short("d2"): [429] * 99}
    outcomes = await store.upsert([write(f"d{n}", "kafka") for n in (1, 2)], refresh=True)
    assert [(one.state, one.retryable) for one in outcomes] == [("stored", False), ("failed", True)]
    times = proxy.sends[short("d2")]
    assert len(times) == 6
    # what a busy machine adds to a wait is less than what the last ones grow by
    waits = [after - before for before, after in pairwise(times)]
    assert waits[2] < waits[3] < waits[4] < 10, waits
    assert sends(proxy, "d1") == 1


async def test_a_set_with_a_busy_chunk_is_stored_whole_and_one_with_a_bad_chunk_not_at_all(
    store: ElasticsearchIndex, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_store.backends.elasticsearch.replacing.new_generation", lambda: "GENERATI")
    busy, bad = (f"{short('page')}.GENERATI.{short(id)}" for id in ("page#1", "page#2"))
    proxy.refusals = {busy: [429, 429]}
    assert (await store.replace(parent_write("page"), chunks("v1", 3), refresh=True)).stored == 3
    assert len(proxy.sends[busy]) == 3
    proxy.refusals = {bad: [400]}
    with pytest.raises(Conflict) as refused:
        await store.replace(parent_write("page"), chunks("v2", 5), refresh=True)
    assert refused.value.ids == ("page#2",)


async def test_a_write_whose_answer_is_lost_is_told_as_stored_and_is_there_once(
    store: ElasticsearchIndex, proxy: Proxy, reader: ElasticsearchIndex
) -> None:
    lost: list[str] = []

    def loses(method: str, path: str) -> bool:
        if path.endswith("/_bulk") and not lost:
            lost.append(path)
            return True
        return False

    proxy.loses = loses
    outcomes = await store.upsert([write("one", "kafka"), write("two", "kafka")], refresh=True)
    assert [one.state for one in outcomes] == ["stored", "stored"]
    assert lost
    assert await reader.count(ALL) == 2
    lost.clear()
    changed = write("one", "zebra", expect=await version_of(store, "one"))
    assert [one.state for one in await store.upsert([changed], refresh=True)] == ["stored"]
    assert lost
    assert [one.document.content for one in await scanned(reader)] == ["zebra", "kafka"]


async def test_a_conflict_stays_one_although_an_answer_was_lost(
    store: ElasticsearchIndex, proxy: Proxy, reader: ElasticsearchIndex
) -> None:
    await reader.upsert([write("one", "theirs")], refresh=True)
    lost: list[str] = []

    def loses(method: str, path: str) -> bool:
        if path.endswith("/_bulk") and not lost:
            lost.append(path)
            return True
        return False

    proxy.loses = loses
    [outcome] = await store.upsert([write("one", "ours")], refresh=True)
    assert lost
    assert outcome.state == "conflict"


async def test_a_commit_whose_answer_is_lost_is_not_made_twice(
    store: ElasticsearchIndex, proxy: Proxy, reader: ElasticsearchIndex
) -> None:
    await store.replace(parent_write("page"), chunks("v1", 3), refresh=True)
    proxy.loses = lambda method, path: method == "PUT" and "-parents/" in path
    assert (await store.replace(parent_write("page"), chunks("v2", 5), refresh=True)).stored == 5
    assert await contents(reader) == {f"page#{n}": "kafka v2" for n in range(5)}
    proxy.loses = lambda method, path: method == "DELETE" and "-parents/" in path
    assert (await store.replace(parent_write("page"), [], refresh=True)).removed == 5
    assert await contents(reader) == {}


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_replacement_cut_off_anywhere_leaves_the_old_set_or_the_new_one(
    proxy: Proxy, reader: ElasticsearchIndex, index_prefix: str, where: Literal["before", "after"]
) -> None:
    """Each request of the replacement in turn is its last one."""
    states = []
    for step in range(1, 20):
        await reader.replace(parent_write("page"), chunks("v1", 3), refresh=True)
        stray = write("stray", "kafka stray", metadata={"parent_id": "page"})
        assert (await reader.upsert([stray], refresh=True))[0].state == "stored"
        async with store_through(proxy, index_prefix) as store:
            whole = await cut_off(store, proxy, step, where)
        found = await contents(reader)
        states.append(found)
        old = {"stray": "kafka stray"} | {f"page#{n}": "kafka v1" for n in range(3)}
        new = {f"page#{n}": "kafka v2" for n in range(5)}
        assert found in (old, new), f"cut off at request {step}"
        assert {id for id in [*old, *new] if await reader.get(id)} == set(found)
        assert set(await reader.lookup([*old, *new])) == set(found)
        assert {one.document.id for one in await scanned(reader)} == set(found)
        await reader._refresh()
        await purging.purge(reader._connection, reader._names, datetime.now(UTC) + LATER)
        await reader._refresh()
        assert await reader.count(ALL) == len(found), "leftovers after a purge"
        assert await contents(reader) == found
        if whole:
            assert found == new
            break
        if "stray" in found:
            assert await reader.delete(["stray"], refresh=True) == 1
    assert any("stray" in one for one in states), "some cut came before the commit"
    assert step > 4


async def cut_off(store: ElasticsearchIndex, proxy: Proxy, step: int, where: Literal["before", "after"]) -> bool:
    """Stops a replacement at its request of this number; returns whether it came to its end instead."""
    sent = 0

    def holds(method: str, path: str) -> Literal["before", "after", "no"]:
        nonlocal sent
        sent += 1
        return where if sent == step else "no"

    proxy.held, proxy.holds = asyncio.Event(), holds
    replacing = asyncio.create_task(store.replace(parent_write("page"), chunks("v2", 5)))
    held = asyncio.create_task(proxy.held.wait())
    await asyncio.wait([replacing, held], return_when=asyncio.FIRST_COMPLETED)
    whole = replacing.done()
    for task in (replacing, held):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    proxy.holds = lambda method, path: "no"
    return whole


async def test_a_purge_leaves_young_leftovers_alone(store: ElasticsearchIndex, proxy: Proxy) -> None:
    assert await cut_off(store, proxy, 4, "before") is False
    await store._refresh()
    assert await store.count(ALL) == 5, "the cut left chunks that no manifest lists"
    assert await store.purge() == 0
    soon = datetime.now(UTC) + timedelta(minutes=9)
    assert await purging.purge(store._connection, store._names, soon) == 0
    late = datetime.now(UTC) + timedelta(minutes=11)
    assert await purging.purge(store._connection, store._names, late) == 5


async def test_a_write_to_a_server_that_is_away_is_failed_and_retryable(
    store: ElasticsearchIndex, proxy: Proxy
) -> None:
    proxy.loses = lambda method, path: True
    [outcome] = await store.upsert([write("one", "kafka")])
    assert (outcome.state, outcome.retryable) == ("failed", True)
    with pytest.raises(BackendUnavailable):
        await store.delete(["one"])


def chunks(revision: str, count: int) -> Sequence[Write]:
    return [
        write(f"page#{n}", f"kafka {revision}", vector=axis(0), metadata={"parent_id": "page"}) for n in range(count)
    ]


async def contents(store: ElasticsearchIndex) -> dict[str, str]:
    """What a question finds, by id."""
    found = await find(store, "kafka", axis(0))
    assert found.keyword_ids == found.vector_ids == set(found.documents)
    return {id: one.document.content for id, one in found.documents.items()}
