"""Reads: nothing missing is ever passed off as nothing found, and nothing that is stored changes what is mapped."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import elastic_transport
import elasticsearch
import pytest
import pytest_asyncio
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig

from knowledge_store.backends.elasticsearch import ElasticsearchIndex, open_backend
from knowledge_store.backends.elasticsearch.errors import translated
from knowledge_store.backends.elasticsearch.filters import micros
from knowledge_store.backends.elasticsearch.finding import words_query
from knowledge_store.backends.elasticsearch.names import Verdict, Version, excluded, short
from knowledge_store_sdk.errors import BackendUnavailable, InternalError, InvalidRequest, KnowledgeStoreError
from knowledge_store_sdk.protocols import FetchRequest, Question
from knowledge_store_sdk.testing.index_cases import (
    ALL,
    IDENTITY,
    READER,
    at_cosine,
    axis,
    find,
    parent_write,
    stored,
    write,
)
from knowledge_store_sdk.testing.index_suite_keeping import METADATA
from tests.servers.rest import call
from tests.service.backends.elasticsearch_proxy import Proxy, proxied


@pytest_asyncio.fixture
async def proxy(elasticsearch_url: str) -> AsyncIterator[Proxy]:
    async with proxied(elasticsearch_url) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def store(proxy: Proxy, index_prefix: str) -> AsyncIterator[ElasticsearchIndex]:
    store = open_backend({"url": proxy.address, "index_prefix": index_prefix})
    await store.open()
    await store.bind(IDENTITY)
    yield store
    await store.close()


_SHARDS = {"total": 2, "successful": 1, "skipped": 0, "failed": 1}
_ALL_SHARDS = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
PARTIAL: dict[str, dict[str, Any]] = {
    "a shard failed": {"timed_out": False, "_shards": _SHARDS, "hits": {"hits": []}, "status": 200},
    "it timed out": {"timed_out": True, "_shards": _ALL_SHARDS, "hits": {"hits": []}, "status": 200},
    "no shard is there": {"error": {"type": "search_phase_execution_exception", "reason": "all"}, "status": 503},
    "it is too busy": {"error": {"type": "es_rejected_execution_exception", "reason": "full"}, "status": 429},
    "the index is gone": {"error": {"type": "index_not_found_exception", "reason": "none"}, "status": 404},
}


@pytest.mark.parametrize("answer", PARTIAL.values(), ids=PARTIAL)
async def test_a_partial_answer_is_an_outage_and_never_fewer_hits(
    store: ElasticsearchIndex, proxy: Proxy, answer: dict[str, Any]
) -> None:
    await stored(store, write("one", "kafka"))
    proxy.answers = lambda method, path: (200, {"responses": [answer] * 2}) if path.endswith("/_msearch") else None
    for asked in (
        store.candidates([Question("kafka", axis(0), READER, 10)]),
        store.scan(ALL, limit=10),
        store.count(ALL),
        store.stats(ALL),
        store.lookup(["one"]),
        store.get("one"),
        store.vectors(["0" * 64]),
        store.parents("suite", limit=10),
        store.purge(),
    ):
        with pytest.raises(BackendUnavailable):
            await asked


async def test_a_document_that_cannot_be_read_is_an_outage(store: ElasticsearchIndex, proxy: Proxy) -> None:
    await stored(store, write("one", "kafka"))
    error = {"type": "no_shard_available_action_exception", "reason": "none"}
    proxy.answers = lambda method, path: (
        (200, {"docs": [{"_index": "x", "_id": "x", "error": error}] * 4}) if path.endswith("/_mget") else None
    )
    for asked in (store.fetch([FetchRequest([short("one")])]), store.get("one"), store.state("x"), store.parent("x")):
        with pytest.raises(BackendUnavailable):
            await asked


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_server_in_trouble_raises_in_every_read(store: ElasticsearchIndex, proxy: Proxy, status: int) -> None:
    proxy.answers = lambda method, path: (status, {"error": {"type": "trouble", "reason": "none"}, "status": status})
    for asked in (
        store.ping(),
        store.candidates([Question("kafka", None, READER, 1)]),
        store.epoch(),
        store.count(ALL),
    ):
        with pytest.raises(InternalError if status == 500 else BackendUnavailable):
            await asked


async def test_an_index_that_was_removed_is_not_an_empty_one(
    store: ElasticsearchIndex, elasticsearch_url: str, index_prefix: str
) -> None:
    for kind in ("documents", "parents", "state"):
        call("DELETE", elasticsearch_url, f"/{index_prefix}-{kind}-000001")
    for asked in (store.get("one"), store.count(ALL), store.parent("x"), store.state("x"), store.ping()):
        with pytest.raises(BackendUnavailable, match="knowledge-store init"):
            await asked
    [outcome] = await store.upsert([write("one")])
    assert (outcome.state, outcome.retryable) == ("failed", True)
    assert call("GET", elasticsearch_url, f"/{index_prefix}-*/_settings").body == {}, "a write made an index by itself"


async def test_metadata_never_changes_the_mapping(
    store: ElasticsearchIndex, elasticsearch_url: str, index_prefix: str
) -> None:
    def mapping() -> Any:
        return call("GET", elasticsearch_url, f"/{index_prefix}-documents/_mapping").body

    before = mapping()
    await stored(store, *[write(name, "kafka", metadata=metadata) for name, metadata in METADATA.items()])
    await store.replace(parent_write("page"), [write("page#0", metadata={"title": {"x": 1}, "key": 3})], refresh=True)
    assert mapping() == before


async def test_a_question_costs_two_round_trips(store: ElasticsearchIndex, proxy: Proxy) -> None:
    members = [write(f"page#{n}", "kafka", vector=axis(n)) for n in range(3)]
    await store.replace(parent_write("page"), members, refresh=True)
    await stored(store, write("one", "kafka", metadata={"parent_id": "page2"}))
    proxy.requests.clear()
    question = Question("kafka", axis(0), READER, 100)
    [one, _] = await store.candidates([question, question])
    assert len(proxy.requests) == 1
    keys = [hit.key for hit in one.keyword or ()]
    fetched = await store.fetch([FetchRequest(keys, keys, axis(0), True), FetchRequest(keys, keys, axis(1))])
    assert len(proxy.requests) == 2
    assert [len(part.found) for part in fetched] == [4, 4]
    assert fetched[0].cosines != fetched[1].cosines


async def test_exact_cosines_of_few_and_of_many_are_the_same(store: ElasticsearchIndex, proxy: Proxy) -> None:
    """A few are computed here, many are asked of the server; both are those of the whole vectors."""
    cosines = {f"d{n}": n / 40 for n in range(40)}
    await stored(store, *[write(id, "kafka", vector=at_cosine(one)) for id, one in cosines.items()])
    keys = [short(id) for id in cosines]
    expected = dict(zip(keys, cosines.values(), strict=True))
    [many] = await store.fetch([FetchRequest(keys, keys, axis(0))])
    assert many.cosines == pytest.approx(expected, abs=1e-5)
    assert ("POST", f"/{store._names.documents}/_msearch") in proxy.requests
    proxy.requests.clear()
    [few] = await store.fetch([FetchRequest(keys[:16], keys[:16], axis(0))])
    assert few.cosines == pytest.approx({key: expected[key] for key in keys[:16]}, abs=1e-5)
    assert few.vectors == {}
    assert proxy.requests == [("POST", "/_mget")]


async def test_a_document_is_read_whole_before_the_index_is_refreshed(store: ElasticsearchIndex) -> None:
    await store.upsert([write("one", "kafka", vector=at_cosine(0.3))])
    [fetched] = await store.fetch([FetchRequest([short("one")], [short("one")], axis(0), with_vectors=True)])
    assert fetched.vectors == {short("one"): at_cosine(0.3)}
    assert fetched.cosines == pytest.approx({short("one"): 0.3}, abs=1e-5)


async def test_a_set_that_is_replaced_while_it_is_listed_or_looked_up_is_the_new_one(
    store: ElasticsearchIndex, proxy: Proxy, elasticsearch_url: str, index_prefix: str
) -> None:
    other = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
    await other.open()
    await store.replace(parent_write("page"), [write("page#0", "kafka v0")], refresh=True)
    versions = iter(range(1, 10))

    async def replaced_after_the_search(method: str, path: str) -> None:
        if path.endswith("/_msearch"):
            proxy.meanwhile = None
            chunk = write("page#0", f"kafka v{next(versions)}")
            await other.replace(parent_write("page"), [chunk], refresh=True)

    proxy.meanwhile = replaced_after_the_search
    assert [one.document.content for one in (await store.scan(ALL, limit=10)).documents] == ["kafka v1"]
    proxy.meanwhile = replaced_after_the_search
    kept = await store.get("page#0")
    assert kept is not None
    assert kept.document.content == "kafka v2"
    proxy.meanwhile = replaced_after_the_search
    assert set(await store.lookup(["page#0"])) == {"page#0"}
    await other.close()


async def test_members_that_went_between_two_reads_of_one_request_are_told_as_superseded(
    store: ElasticsearchIndex, proxy: Proxy, elasticsearch_url: str, index_prefix: str
) -> None:
    """The manifest was read before the replacement, the members after it."""
    await store.replace(parent_write("page"), [write("page#0", "kafka v1")], refresh=True)
    [legs] = await store.candidates([Question("kafka", axis(0), READER, 10)])
    [key] = [hit.key for hit in legs.keyword or ()]
    [manifest] = call("POST", elasticsearch_url, f"/{index_prefix}-parents/_mget", {"ids": [short("page")]}).body[
        "docs"
    ]
    await store.replace(parent_write("page"), [write("page#0", "kafka v2")], refresh=True)
    [member] = call("POST", elasticsearch_url, f"/{index_prefix}-documents/_mget", {"ids": [key]}).body["docs"]
    assert (manifest["found"], member["found"]) == (True, False)
    first = [(200, {"docs": [member, manifest]})]
    proxy.answers = lambda method, path: first.pop() if path == "/_mget" and first else None
    [fetched] = await store.fetch([FetchRequest([key])])
    assert fetched.found == {}
    assert fetched.superseded
    [again] = await store.candidates([Question("kafka", axis(0), READER, 10, fetched.superseded)])
    [fresh] = await store.fetch([FetchRequest([hit.key for hit in again.keyword or ()])])
    assert [one.document.content for one in fresh.found.values()] == ["kafka v2"]


async def test_strays_of_a_replaced_set_are_out_of_sight_before_they_are_removed(
    store: ElasticsearchIndex, proxy: Proxy
) -> None:
    """The manifest names the versions that left; a newer write of the same id is no such version."""
    stray = write("stray", "kafka", metadata={"parent_id": "page"})
    await stored(store, stray)
    [legs] = await store.candidates([Question("kafka", axis(0), READER, 10)])
    keys = [hit.key for hit in legs.keyword or ()]
    gone = {short("stray"): [429] * 99}
    proxy.refusals = gone
    await store.replace(parent_write("page"), [write("page#0", "kafka")], refresh=True)
    proxy.refusals = {}
    [fetched] = await store.fetch([FetchRequest(keys)])
    assert fetched.found == {}
    assert fetched.superseded
    assert (await find(store, "kafka", axis(0))).keyword_ids == {"page#0"}
    assert await store.get("stray") is None
    assert await store.lookup(["stray"]) == {}


@pytest.mark.parametrize("module", [elasticsearch, elastic_transport])
def test_every_error_of_the_client_is_translated(module: ModuleType) -> None:
    errors = [
        one
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, Exception) and one is not Warning
    ]
    assert len(errors) > 5
    meta = ApiResponseMeta(503, "1.1", HttpHeaders(), 0.1, NodeConfig("http", "localhost", 9200))
    for kind in errors:
        details = {"meta": meta, "body": {}} if issubclass(kind, elastic_transport.ApiError) else {}
        told = translated(kind("down", **details))
        assert isinstance(told, KnowledgeStoreError), kind
        assert not isinstance(told, InternalError), kind


def test_a_text_of_few_words_is_matched_and_one_of_many_is_thinned_out() -> None:
    few = " ".join(f"w{n}" for n in range(128))
    assert "match" in words_query(few)
    assert "match" in words_query(few + " " + few.upper())
    assert "more_like_this" in words_query(few + " more")
    assert "more_like_this" in words_query("kafka " * 3000)
    assert "more_like_this" in words_query("".join(chr(0x4E00 + n) for n in range(200)))
    assert "match" in words_query("x" * 40_000)


def test_times_are_exact_to_the_microsecond_in_any_year() -> None:
    for at in (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2026, 5, 1, 8, 0, 0, 123_457, UTC),
        datetime.max.replace(tzinfo=UTC),
    ):
        assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros(at)) == at


def test_of_two_verdicts_the_later_manifest_counts() -> None:
    named = [str(Verdict("a", 7, False)), str(Verdict("a", 9, True)), str(Verdict("b", 9, True))]
    assert excluded([*named, str(Verdict("b", 12, False)), "key"]) == (["b"], ["key"])
    assert excluded([str(Verdict("new", -1, False))]) == (["new"], [])


@pytest.mark.parametrize("text", ["", "a", "a:b:c", "a:1", "a:1:2:3"])
def test_a_version_of_another_store_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Version.parse(text)


def test_names_are_short_and_differ_where_ids_differ() -> None:
    ids = ["a", "A", "é", "e\u0301", "x" * 2048, "x" * 2047 + "y", "a/b", "👩" * 2048]
    names = {short(id) for id in ids}
    assert len(names) == len(ids)
    assert all(len(name) == 22 and not set(name) & set(".~:") for name in names)
