"""What the client does on the wire, and when the other side misbehaves."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions

from knowledge_store_sdk import errors
from knowledge_store_sdk._foreign import FOREIGN, own_error, translated
from knowledge_store_sdk._http import base_address, error_from_response, pause
from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import (
    BackendUnavailable,
    ConfigError,
    InternalError,
    InvalidField,
    KnowledgeStoreError,
    RateLimited,
    error_classes,
)
from knowledge_store_sdk.models import KnowledgeDocument, Query
from tests.sdk.roles import RawService, Role, Service, answers, slow

STATS = {"total": 1, "pending_vectors": 0, "tags": {"a": 1}, "sources": {"s": 1}}
FOUND = {"documents": [], "took_ms": 1.0}
BUSY = answers(503, {"code": "backend_unavailable", "detail": "busy"}, headers={"Retry-After": "0"})
DOCUMENT = KnowledgeDocument(id="x", content="text")


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """start(role, …, **client options) -> the service that plays them, and a client for it."""
    opened: list[Any] = []

    async def start_(*roles: Role, **options: Any) -> tuple[Service, KnowledgeClient]:
        service = await Service(list(roles)).__aenter__()
        client = KnowledgeClient(service.url, **options)
        opened.extend((service, client))
        return service, client

    yield start_
    for one in reversed(opened):
        await one.__aexit__(None, None, None)


# addresses, keys and requests


@pytest.mark.parametrize("tail", ["", "/", "/api/v1", "/api/v1/", "/api/v1/knowledge", "/api/v1/knowledge/"])
@pytest.mark.parametrize("base", ["http://h:8080", "https://h/some/where"])
def test_an_address_is_taken_with_or_without_the_routes(base: str, tail: str) -> None:
    assert base_address(base + tail) == f"{base}/api/v1/knowledge"


@pytest.mark.parametrize("url", ["", "h:8080", "ftp://h", "http://", "http://h?x=1", "http://h#x", "http://u:secret@h"])
def test_what_is_no_address_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KnowledgeClient(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\n", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KnowledgeClient("http://h", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("options", [{"query_timeout_s": 0}, {"connect_timeout_s": -1}, {"retries": -1}])
def test_timeouts_and_retries_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        KnowledgeClient("http://h", **options)


async def test_the_key_goes_in_its_header_and_is_never_printed(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, STATS), api_key="key-123")
    await client.stats()
    assert service.seen[0].headers["X-API-Key"] == "key-123"
    assert "key-123" not in repr(client) + str(client) + repr(client.with_payload({}))
    assert "key-123" not in repr(vars(client))


async def test_the_key_does_not_follow_a_redirect(start: Callable[..., Any]) -> None:
    elsewhere, _ = await start(answers(200, STATS))
    service, client = await start(answers(307, {}, headers={"Location": elsewhere.url}), api_key="key-123")
    with pytest.raises(ConfigError, match=elsewhere.url):
        await client.stats()
    assert (len(service.seen), len(elsewhere.seen)) == (1, 0)


@pytest.mark.parametrize("id", ["a/../b", "a+b c", "100%", "%2F", "?x=1&tags=y#z", "é\n👩‍👩‍👧", "a" * 2048])
async def test_an_id_arrives_as_it_was_given(start: Callable[..., Any], id: str) -> None:
    service, client = await start(answers(200, {"deleted": 1}))
    await client.delete(id)
    assert service.seen[0].path == "/api/v1/knowledge/documents"
    assert service.seen[0].query == {"id": id}


async def test_a_tag_expression_arrives_with_its_plus(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, STATS))
    await client.stats("a+b|c")
    assert service.seen[0].query == {"tags": "a+b|c"}


@pytest.mark.parametrize("tags", ["a b", "a|", " "])
async def test_a_malformed_expression_is_never_sent(start: Callable[..., Any], tags: str) -> None:
    service, client = await start(answers(200, {}))
    for attempt in (
        client.stats(tags),
        client.list(tags=tags).__anext__(),
        client.delete_by_tags(tags, 1),
        client.fetch(tags, "x"),
        client.query(Query(text="x", tags=tags)),
        client.fetch_many([Query(text="x", tags=tags)]),
    ):
        with pytest.raises(errors.InvalidTagExpression):
            await attempt
    assert service.seen == []


async def test_a_document_is_sent_without_what_it_does_not_say(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"id": "x", "state": "stored"}))
    document = DOCUMENT.model_copy(update={"metadata": {"kept": None}, "score": 0.5})
    await client.upsert(document, refresh=True)
    assert service.seen[0].json == {
        "id": "x", "content": "text", "tags": [], "metadata": {"kept": None}, "principals": []
    }  # fmt: skip
    assert service.seen[0].query == {"refresh": "wait_for"}
    assert service.seen[0].headers["Content-Type"] == "application/json"


async def test_a_replacement_is_one_put(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"id": "p", "stored": 1, "removed": 0, "vectors": "ready"}))
    await client.replace("p/1", [DOCUMENT], revision="r", title='"', source="s")
    [seen] = service.seen
    assert (seen.method, seen.path, seen.query) == ("PUT", "/api/v1/knowledge/parents", {"id": "p/1"})
    assert {name: seen.json[name] for name in ("revision", "title", "source")} == {
        "revision": "r", "title": '"', "source": "s"
    }  # fmt: skip
    assert [one["id"] for one in seen.json["documents"]] == ["x"]


async def test_a_sweep_says_since_when_with_its_zone(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"deleted": 0}))
    since = datetime(2026, 5, 1, 8, tzinfo=UTC)
    await client.sweep("wiki", since, 0)
    assert service.seen[0].path == "/api/v1/knowledge/sources/wiki/sweep"
    assert datetime.fromisoformat(service.seen[0].json["not_seen_since"]) == since
    assert service.seen[0].json["expect"] == 0


async def test_fields_of_a_newer_service_are_passed_over(start: Callable[..., Any]) -> None:
    document = {"id": "x", "content": "c", "mood": "good", "metadata": {"mood": 1}}
    _, client = await start(answers(200, {"documents": [document], "cursor": None, "more": 1}))
    [found] = [one async for one in client.list()]
    assert (found.content, found.metadata) == ("c", {"mood": 1})


async def test_twenty_questions_go_in_one_request(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"results": [FOUND] * 20}), answers(200, {"results": [FOUND] * 5}))
    assert len(await client.query_batch([Query(text=str(at)) for at in range(25)])) == 25
    assert [len(one.json["queries"]) for one in service.seen] == [20, 5]


# retries


@pytest.mark.parametrize("role", [
    BUSY,
    answers(429, {"code": "rate_limited"}, headers={"Retry-After": "0"}),
    answers(502, text="<h1>Bad gateway</h1>"),
    answers(504, text="<h1>Gateway timeout</h1>"),
])  # fmt: skip
async def test_a_busy_service_is_asked_again(start: Callable[..., Any], role: Role) -> None:
    service, client = await start(role, role, answers(200, STATS))
    assert (await client.stats()).total == 1
    assert len(service.seen) == 3


async def test_attempts_are_bounded_and_the_last_error_is_raised(start: Callable[..., Any]) -> None:
    service, client = await start(BUSY, retries=2)
    with pytest.raises(BackendUnavailable, match="busy"):
        await client.stats()
    assert len(service.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422, 418, 500])
async def test_a_final_answer_is_not_asked_for_again(start: Callable[..., Any], status: int) -> None:
    service, client = await start(answers(status, text="<h1>no</h1>"))
    with pytest.raises(KnowledgeStoreError):
        await client.stats()
    assert len(service.seen) == 1


async def test_a_write_is_repeated_too_since_it_is_idempotent(start: Callable[..., Any]) -> None:
    service, client = await start(BUSY, answers(200, {"id": "x", "state": "stored", "vectors": "ready"}))
    assert (await client.upsert(DOCUMENT)).state == "stored"
    assert [one.body for one in service.seen] == [service.seen[0].body] * 2


async def test_retry_after_in_seconds_is_waited_for(start: Callable[..., Any]) -> None:
    service, client = await start(answers(429, {}, headers={"Retry-After": "1"}), answers(200, STATS))
    await client.stats()
    assert service.seen[1].at - service.seen[0].at >= 1


async def test_retry_after_as_a_date_is_waited_for(start: Callable[..., Any]) -> None:
    at = datetime.now(UTC) + timedelta(seconds=2)
    role = answers(503, {}, headers={"Retry-After": format_datetime(at, usegmt=True)})
    service, client = await start(role, answers(200, STATS))
    await client.stats()
    assert service.seen[1].at - service.seen[0].at >= 0.9  # a date has whole seconds


async def test_a_wait_beyond_the_time_of_the_call_is_not_begun(start: Callable[..., Any]) -> None:
    service, client = await start(answers(429, {"detail": "later"}, headers={"Retry-After": "30"}), query_timeout_s=5)
    started = time.monotonic()
    with pytest.raises(RateLimited) as caught:
        await client.stats()
    assert caught.value.retry_after_s == 30
    assert time.monotonic() - started < 2
    assert len(service.seen) == 1


@pytest.mark.parametrize("value", ["soon", "", "-5", "1e9999", "Thu, 99 Foo 2026"])
async def test_a_retry_after_that_says_nothing_is_no_error(start: Callable[..., Any], value: str) -> None:
    service, client = await start(answers(503, {}, headers={"Retry-After": value}), answers(200, STATS))
    assert (await client.stats()).total == 1
    assert len(service.seen) == 2


def test_pauses_are_random_grow_and_end() -> None:
    first = [pause(0, None) for _ in range(500)]
    assert 0 <= min(first) < 0.05
    assert 0.15 < max(first) <= 0.2
    assert max(pause(2, None) for _ in range(500)) > 0.4
    assert max(pause(60, None) for _ in range(500)) <= 10
    assert 7 <= pause(0, 7.0) <= 7.2
    assert pause(0, 1e9) <= 60.2


# time


async def test_a_slow_service_is_given_up_in_time(start: Callable[..., Any]) -> None:
    service, client = await start(slow(5), query_timeout_s=0.2)
    started = time.monotonic()
    with pytest.raises(BackendUnavailable, match="in time"):
        await client.query(Query(text="x"))
    assert time.monotonic() - started < 1
    assert len(service.seen) == 1


async def test_the_time_covers_all_attempts(start: Callable[..., Any]) -> None:
    _, client = await start(BUSY, query_timeout_s=0.5, retries=10_000)
    started = time.monotonic()
    with pytest.raises(BackendUnavailable):
        await client.stats()
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize(("option", "call"), [
    ("query_timeout_s", lambda client: client.query(Query(text="x"))),
    ("query_timeout_s", lambda client: client.get("x")),
    ("query_timeout_s", lambda client: client.list().__anext__()),
    ("write_timeout_s", lambda client: client.upsert(DOCUMENT)),
    ("write_timeout_s", lambda client: client.bulk_upsert([DOCUMENT])),
    ("write_timeout_s", lambda client: client.delete("x")),
    ("replace_timeout_s", lambda client: client.replace("p", [DOCUMENT])),
])  # fmt: skip
async def test_each_kind_of_call_has_its_own_time(start: Callable[..., Any], option: str, call: Any) -> None:
    _, client = await start(slow(5), **{option: 0.1})
    with pytest.raises(BackendUnavailable):
        await asyncio.wait_for(call(client), 2)


async def test_a_cancelled_call_is_cancelled(start: Callable[..., Any]) -> None:
    _, client = await start(slow(5))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.stats(), 0.1)


# errors


@pytest.mark.parametrize("kind", [one for one in error_classes() if one.__module__ == errors.__name__])
async def test_the_class_that_the_service_raised_is_raised(
    start: Callable[..., Any], kind: type[KnowledgeStoreError]
) -> None:
    raised = kind("what happened", ids=["x"])
    problem = {"code": kind.code, "detail": raised.detail, "status": kind.status} | raised.extension()
    _, client = await start(answers(kind.status, problem), retries=0)
    with pytest.raises(kind) as caught:
        await client.stats()
    assert type(caught.value) is kind
    assert caught.value.extension() == raised.extension()
    assert caught.value.detail == "what happened"


async def test_wrong_fields_arrive_by_name(start: Callable[..., Any]) -> None:
    fields = [{"field": "documents[2].tags[0]", "detail": "no tag"}]
    _, client = await start(answers(422, {"code": "invalid_field", "detail": "one is wrong", "fields": fields}))
    with pytest.raises(InvalidField) as caught:
        await client.stats()
    assert caught.value.fields == {"documents[2].tags[0]": "no tag"}


@pytest.mark.parametrize(("status", "kind"), [
    (400, errors.InvalidRequest), (401, errors.Unauthenticated), (403, errors.PermissionDenied),
    (404, errors.NotFound), (409, errors.Conflict), (413, errors.TooLarge), (415, errors.UnsupportedMediaType),
    (422, errors.InvalidField), (429, errors.RateLimited), (500, errors.InternalError),
    (502, errors.BackendUnavailable), (503, errors.BackendUnavailable), (504, errors.BackendUnavailable),
    (418, errors.InvalidRequest), (599, errors.InternalError), (302, errors.ConfigError),
])  # fmt: skip
@pytest.mark.parametrize("body", [b"<html>", b"", b"[1]", b"\xff\xfe", b'{"code": "of_another_service"}'])
def test_a_body_of_a_proxy_still_maps_by_status(status: int, kind: type[KnowledgeStoreError], body: bytes) -> None:
    assert type(error_from_response(status, {}, body)) is kind


@pytest.mark.parametrize("problem", [
    b'{"ids": 5}', b'{"fields": "x"}', b'{"fields": ["x", null]}', b'{"code": []}', b'{"detail": {}}',
    b'{"code": "invalid_tag_expression", "position": "x"}', b'{"ids": null, "fields": null, "position": null}',
])  # fmt: skip
@pytest.mark.parametrize("status", [400, 422, 503])
def test_a_problem_document_of_another_shape_is_no_crash(status: int, problem: bytes) -> None:
    assert isinstance(error_from_response(status, {}, problem), KnowledgeStoreError)


@pytest.mark.parametrize("sent", [
    b"",
    b"garbage\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 999999 X\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n",
], ids=range(9))  # fmt: skip
async def test_a_broken_connection_is_tried_again_and_then_unavailable(sent: bytes) -> None:
    async with RawService(sent) as service, KnowledgeClient(service.url, retries=1) as client:
        with pytest.raises(BackendUnavailable):
            await client.upsert(DOCUMENT)
        assert service.connections == 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no-such-host.invalid"])
async def test_a_service_that_cannot_be_reached_is_unavailable(url: str) -> None:
    async with KnowledgeClient(url, retries=1) as client:
        with pytest.raises(BackendUnavailable):
            await client.stats()


async def test_a_connection_that_cannot_be_trusted_is_a_configuration_error(start: Callable[..., Any]) -> None:
    service, _ = await start(answers(200, STATS))
    async with KnowledgeClient(service.url.replace("http:", "https:")) as client:
        with pytest.raises(ConfigError, match="trusted"):
            await client.stats()


async def test_an_answer_that_is_no_answer_of_the_service_is_no_json_error(start: Callable[..., Any]) -> None:
    for role in (answers(200, text="<h1>Log in</h1>"), answers(200, {"other": 1}), answers(200, [])):
        service, client = await start(role)
        with pytest.raises(InternalError, match="address"):
            await client.stats()
        assert len(service.seen) == 1


async def test_fewer_answers_than_questions_are_noticed(start: Callable[..., Any]) -> None:
    _, client = await start(answers(200, {"results": [FOUND]}))
    with pytest.raises(InternalError):
        await client.fetch_many([{"text": "a"}, {"text": "b"}])


def _exceptions_of(*modules: object) -> list[type[Exception]]:
    found = [one for module in modules for one in vars(module).values()]
    return [one for one in found if inspect.isclass(one) and issubclass(one, Exception) and "aiohttp" in one.__module__]


@pytest.mark.parametrize(
    "kind",
    [
        # a websocket's, and there are none
        *(one for one in _exceptions_of(client_exceptions, http_exceptions) if one is not aiohttp.WSMessageTypeError),
        TimeoutError,
        ConnectionResetError,
        ssl.SSLError,
        OSError,
    ],
)
def test_every_foreign_exception_becomes_one_of_the_store(kind: type[Exception]) -> None:
    assert issubclass(kind, FOREIGN)
    # their signatures differ, and what they say is not what counts here
    bare = type(kind.__name__, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "why"})
    own = own_error(bare(), "GET /x")
    assert isinstance(own, BackendUnavailable | ConfigError)


def test_errors_of_the_store_and_of_the_caller_pass_untouched() -> None:
    for error in (InvalidField("x"), RuntimeError("x"), KeyError("x")):
        with pytest.raises(type(error)) as caught, translated("GET /x"):
            raise error
        assert caught.value is error


# a life


async def test_a_closed_client_says_so(start: Callable[..., Any]) -> None:
    _, client = await start(answers(200, STATS))
    await client.stats()
    await client.close()
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.stats()


async def test_a_client_with_a_payload_leaves_the_connections_open(start: Callable[..., Any]) -> None:
    _, client = await start(answers(200, STATS))
    async with client.with_payload({"body": "x"}) as asking:
        await asking.stats()
    assert (await client.stats()).total == 1
