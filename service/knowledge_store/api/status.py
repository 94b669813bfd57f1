"""The service about itself: alive, ready, version, metrics, slow questions, its own description."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, Literal

from aiohttp import web

from knowledge_store import __version__
from knowledge_store.api.operations import Operation, json_response
from knowledge_store.api.services import Services
from knowledge_store.ingest.caller import Caller
from knowledge_store_sdk.errors import KnowledgeStoreError
from knowledge_store_sdk.models import Answer
from knowledge_store_sdk.protocols import Filter

_LISTED: Final = 100


class Health(Answer):
    status: Literal["alive"] = "alive"


class Dependency(Answer):
    name: str
    state: str
    reason: str | None = None
    since: str | None = None
    model: str | None = None
    dims: int | None = None
    max_tokens: int | None = None


class Ready(Answer):
    """`degraded`: it answers, by keyword only."""

    status: Literal["ready", "degraded", "unavailable"]
    backend: Dependency
    embedder: Dependency


class Version(Answer):
    name: str = "knowledge-store"
    version: str
    api: str = "v1"


class SlowQuery(Answer):
    at: str
    took_ms: float
    text_hash: str
    tags: str | None
    mode: str
    top_k: int
    hits: int
    cache_hit: bool
    degraded: bool
    key: str
    request_id: str | None


class RefusedText(Answer):
    id: str
    attempts: int
    reason: str
    next_try: datetime


class RefusedTexts(Answer):
    documents: tuple[RefusedText, ...]


class SlowQueriesAnswer(Answer):
    queries: tuple[SlowQuery, ...]


async def health(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return json_response(Health())


async def ready(request: web.Request, services: Services, caller: Caller) -> web.Response:
    backend = Dependency(name=services.backend, state="ready")
    try:
        await services.index.ping()
    except KnowledgeStoreError as error:
        backend = Dependency(name=services.backend, state="down", reason=error.detail)
    embedder = embedder_state(services)
    status: Literal["ready", "degraded", "unavailable"] = "ready" if embedder.state == "ready" else "degraded"
    if backend.state != "ready":
        status = "unavailable"
    body = Ready(status=status, backend=backend, embedder=embedder)
    return json_response(body, status=503 if status == "unavailable" else 200)


async def version(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return json_response(Version(version=__version__))


async def metrics(request: web.Request, services: Services, caller: Caller) -> web.Response:
    try:
        services.metrics.docs.set(await services.index.count(Filter()))
        services.metrics.pending.set(await services.index.count(Filter(pending=True)))
    except KnowledgeStoreError:
        pass  # the gauges keep what they showed; /ready says why
    return web.Response(body=services.metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"})


async def slow_queries(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return json_response({"queries": services.slow.latest_first()})


async def refused_texts(request: web.Request, services: Services, caller: Caller) -> web.Response:
    listed = [asdict(one) for one in services.maintenance.refusals[:_LISTED]]
    return json_response({"documents": listed})


async def openapi(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return web.Response(body=services.openapi, content_type="application/json")


def embedder_state(services: Services) -> Dependency:
    """What /ready says of the embedder."""
    status = services.embedding.status
    known: dict[str, Any] = {}
    if (identity := services.embedding.identity) is not None:
        known = {"model": identity.model, "dims": identity.dims, "max_tokens": services.embedding.max_tokens}
    return Dependency(
        name=services.provider, state=status.state, reason=status.reason, since=status.since.isoformat(), **known
    )


OPERATIONS = [
    Operation("GET", "/health", "health", "Whether the process is alive", "open", health, Health),
    Operation(
        "GET",
        "/ready",
        "ready",
        "Whether questions can be answered now, and what is degraded; 503 with the same body where they cannot",
        "open",
        ready,
        Ready,
        errors=(503,),
    ),
    Operation("GET", "/version", "version", "The version of the service and of its API", "open", version, Version),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Prometheus metrics",
        "open",
        metrics,
        {"type": "string"},
        media_type="text/plain",
    ),
    Operation(
        "GET",
        "/debug/slow-queries",
        "slow_queries",
        "The last 50 questions that took over 500 ms, latest first",
        "admin",
        slow_queries,
        SlowQueriesAnswer,
        errors=(401, 403),
    ),
    Operation(
        "GET",
        "/debug/refused-texts",
        "refused_texts",
        "Documents that have no vector because the embedder refuses their text, latest first",
        "admin",
        refused_texts,
        RefusedTexts,
        errors=(401, 403),
    ),
    Operation("GET", "/openapi.json", "openapi", "This description", "open", openapi, {"type": "object"}),
]
