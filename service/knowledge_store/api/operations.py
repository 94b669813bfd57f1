"""One operation: what the router, the access check and the OpenAPI document all read.

request id -> who is calling -> may they? -> the handler -> a problem document for whatever went wrong -> log
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson
import structlog
from aiohttp import web
from pydantic import BaseModel

from knowledge_store.api.auth import require
from knowledge_store.api.problems import http_problem, problem
from knowledge_store.api.services import SERVICES, Services
from knowledge_store.ingest.caller import Caller
from knowledge_store_sdk.errors import BackendUnavailable, InternalError, KnowledgeStoreError

Access = Literal["open", "query", "reader", "writer", "admin"]
Handler = Callable[[web.Request, Services, Caller], Awaitable[web.StreamResponse]]
PREFIX: Final = "/api/v1"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query string or the path, with its JSON schema."""

    name: str
    description: str
    schema: dict[str, Any]
    where: Literal["query", "path"] = "query"
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """`access` is the least role; `query` is open unless the configuration closes it. `errors` are statuses."""

    method: str
    path: str
    name: str
    summary: str
    access: Access
    handler: Handler
    response: type[BaseModel] | dict[str, Any]
    request: type[BaseModel] | None = None
    parameters: Sequence[Parameter] = ()
    errors: Sequence[int] = ()
    status: int = 200
    media_type: str = "application/json"
    pattern: str | None = field(default=None)

    def route(self) -> web.RouteDef:
        """The operation as the router takes it."""
        return web.route(self.method, self.pattern or self.path, self.handle)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        services = request.app[SERVICES]
        caller = services.authenticator.caller(request.headers)
        if self.access != "open" and not (self.access == "query" and services.http.open_query):
            require(caller, "reader" if self.access == "query" else self.access)
        if self.access != "open" and not services.opened:
            raise BackendUnavailable(f"the backend {services.backend!r} has not answered yet", retry_after_s=1)
        return await self.handler(request, services, caller)


def json_response(value: Any, *, status: int = 200) -> web.Response:
    """A response of a model, or of what orjson writes."""
    body = (
        value.model_dump_json(exclude_none=False).encode()
        if isinstance(value, BaseModel)
        else orjson.dumps(value, option=orjson.OPT_UTC_Z)
    )
    return web.Response(body=body, status=status, content_type="application/json")


@web.middleware
async def answer_every_error(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Gives each request its id, and each error the one shape that errors have."""
    request_id = _request_id(request)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id)
    started = time.perf_counter()
    try:
        response = await handler(request)
    except KnowledgeStoreError as error:
        response = problem(error, request_id)
        if error.status >= 500:
            log.warning("knowledge.request.failed", code=error.code, detail=error.detail)
    except web.HTTPException as error:
        response = http_problem(error, request_id)
    except Exception:
        log.exception("knowledge.request.defect", method=request.method, path=request.path)
        response = problem(InternalError("a defect of the service; its log has this request's id"), request_id)
    response.headers["X-Request-Id"] = request_id
    log.debug(
        "knowledge.request.done",
        method=request.method,
        path=request.path,
        status=response.status,
        took_ms=round((time.perf_counter() - started) * 1000, 3),
    )
    return response


def _request_id(request: web.Request) -> str:
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.match(given) else secrets.token_hex(8)
