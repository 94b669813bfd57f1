"""POST /knowledge/query and /knowledge/query-batch."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import orjson
import structlog
from aiohttp import web
from pydantic import Field

from knowledge_store.api.bodies import read_object, validated
from knowledge_store.api.operations import PREFIX, Operation
from knowledge_store.api.services import Services
from knowledge_store.ingest.caller import Caller
from knowledge_store.query.path import Answered
from knowledge_store_sdk.errors import RateLimited
from knowledge_store_sdk.models import MAX_BATCH_QUERIES, Answer, Query, QueryResult, Record

log = structlog.get_logger(__name__)


class QueryBatch(Record):
    queries: Annotated[tuple[Query, ...], Field(min_length=1, max_length=MAX_BATCH_QUERIES)]


class QueryResults(Answer):
    results: tuple[QueryResult, ...]


async def ask(request: web.Request, services: Services, caller: Caller) -> web.Response:
    query = validated(Query, await read_object(request, services.http.max_body_bytes))
    with _in_flight(services):
        (body,) = await _answer(services, caller, [query])
    return web.Response(body=body, content_type="application/json")


async def ask_many(request: web.Request, services: Services, caller: Caller) -> web.Response:
    batch = validated(QueryBatch, await read_object(request, services.http.max_body_bytes))
    with _in_flight(services):
        bodies = await _answer(services, caller, batch.queries)
    return web.Response(body=b'{"results":[' + b",".join(bodies) + b"]}", content_type="application/json")


@contextmanager
def _in_flight(services: Services) -> Iterator[None]:
    if services.queries_in_flight >= services.http.max_queries_in_flight:
        services.metrics.queries_shed.inc()
        raise RateLimited(
            f"{services.queries_in_flight} queries are under way, as many as http.max_queries_in_flight allows",
            retry_after_s=1,
        )
    services.queries_in_flight += 1
    try:
        yield
    finally:
        services.queries_in_flight -= 1


async def _answer(services: Services, caller: Caller, queries: Sequence[Query]) -> list[bytes]:
    started = time.perf_counter()
    answers = await services.queries.answer(queries)
    took_s = time.perf_counter() - started
    return [_told(services, caller, query, answer, took_s) for query, answer in zip(queries, answers, strict=True)]


def _told(services: Services, caller: Caller, query: Query, answer: Answered, took_s: float) -> bytes:
    """The body of one answer, noted in metrics, log and ring on its way."""
    took_ms = round(took_s * 1000, 3)
    services.metrics.query_duration.labels(
        cache_hit=str(answer.cache_hit).lower(), has_tag_filter=str(bool(query.tags)).lower()
    ).observe(took_s)
    entry = {
        "text_hash": hashlib.sha256(query.text.encode()).hexdigest()[:16],
        "tags": query.tags,
        "mode": query.mode,
        "top_k": query.top_k,
        "took_ms": took_ms,
        "hits": answer.hits,
        "cache_hit": answer.cache_hit,
        "degraded": answer.vector_missing is not None,
        "key": caller.name,
    }
    log.info("knowledge.query.answered", **entry)
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    services.slow.note(took_ms, {"at": services.clock().isoformat(), "request_id": request_id, **entry})
    degraded = [{"leg": "vector", "reason": answer.vector_missing}] if answer.vector_missing else []
    rest = {"took_ms": took_ms, "cache_hit": answer.cache_hit, "degraded": degraded}
    return b'{"documents":' + answer.documents + b"," + orjson.dumps(rest)[1:]


OPERATIONS = [
    Operation(
        "POST",
        f"{PREFIX}/knowledge/query",
        "query",
        "The passages that matter for a question, best first, each with its citation",
        "query",
        ask,
        QueryResult,
        request=Query,
        errors=(400, 401, 403, 413, 415, 422, 429, 503),
    ),
    Operation(
        "POST",
        f"{PREFIX}/knowledge/query-batch",
        "query_batch",
        "Up to 20 questions at once: one embedding for each distinct text, one round trip to the engine",
        "reader",
        ask_many,
        QueryResults,
        request=QueryBatch,
        errors=(400, 401, 403, 413, 415, 422, 429, 503),
    ),
]
