"""What the client does when the other side is busy, slow, broken or wrong."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions

from knowledge_store_sdk import errors
from knowledge_store_sdk._foreign import FOREIGN, own_error, translated
from knowledge_store_sdk._http import error_from_response, pause
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
from tests.sdk.roles import RawService, Role, answers, slow

STATS = {"total": 1, "pending_vectors": 0, "tags": {"a": 1}, "sources": {"s": 1}}
FOUND = {"documents": [], "took_ms": 1.0}
BUSY = answers(503, {"code": "backend_unavailable", "detail": "busy"}, headers={"Retry-After": "0"})
DOCUMENT = KnowledgeDocument(id="x", content="text")


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
