"""The routes of the service over HTTP:

    address + parameters -> attempts with pauses, under one deadline -> answer, or the error that the service raised

Attempts are repeated only after errors that say so; redirects are not followed.
"""

from __future__ import annotations

import asyncio
import io
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json, to_json
from yarl import URL

from knowledge_store_sdk._foreign import translated
from knowledge_store_sdk._wire import Encoded, Narrowing, ParentFields
from knowledge_store_sdk.errors import ConfigError, KnowledgeStoreError, Retryable, error_from_problem
from knowledge_store_sdk.models import (
    Answer,
    BulkResult,
    DeleteResult,
    DocumentPage,
    KnowledgeDocument,
    ParentPage,
    Query,
    QueryResult,
    ReplaceResult,
    Stats,
    WriteResult,
)

_ROUTES: Final = "/api/v1/knowledge"
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_LONGEST_RETRY_AFTER_S: Final = 60.0
_UNAVAILABLE: Final = frozenset({502, 503, 504})  # a proxy says 502 and 504 where the service would say 503
_QUERIES: TypeAdapter[tuple[Query, ...]] = TypeAdapter(tuple[Query, ...])
_Read = TypeVar("_Read", bound=BaseModel)


class _BatchAnswer(Answer):
    results: tuple[QueryResult, ...]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect_s` is for one attempt, the others for a whole call with its attempts and pauses."""

    connect_s: float
    query_s: float
    write_s: float
    replace_s: float


class HttpWire:
    """Talks to one service. Opens its connections with the first call, in that call's event loop."""

    def __init__(self, url: str, api_key: str | None, timeouts: Timeouts, retries: int) -> None:
        self.base = base_address(url)
        self._headers = {"Accept": "application/json, application/problem+json"} | _key_header(api_key)
        self._timeouts, self._retries = timeouts, retries
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    # the routes -------------------------------------------------------------------------------------------------------

    async def upsert(self, document: Encoded, *, refresh: bool) -> WriteResult:
        return await self._write("POST", "/upsert", WriteResult, _refresh(refresh), document.json)

    async def bulk_upsert(self, documents: Sequence[Encoded], *, refresh: bool) -> BulkResult:
        return await self._write("POST", "/bulk-upsert", BulkResult, _refresh(refresh), _documents(documents))

    async def replace(
        self, parent_id: str, parent: ParentFields, documents: Sequence[Encoded], *, refresh: bool
    ) -> ReplaceResult:
        body = _documents(documents, parent.given())
        timeout_s = self._timeouts.replace_s
        return await self._call(
            "PUT", "/parents", ReplaceResult, {"id": parent_id} | _refresh(refresh), body, timeout_s
        )

    async def sweep(self, source: str, not_seen_since: datetime, expect: int | None, *, refresh: bool) -> DeleteResult:
        body = {"not_seen_since": not_seen_since} | ({} if expect is None else {"expect": expect})
        path = f"/sources/{quote(source, safe='')}/sweep"
        return await self._write("POST", path, DeleteResult, _refresh(refresh), to_json(body))

    async def delete(self, id: str, *, refresh: bool) -> DeleteResult:
        return await self._write("DELETE", "/documents", DeleteResult, {"id": id} | _refresh(refresh))

    async def delete_matching(self, which: Narrowing, expect: int, *, refresh: bool) -> DeleteResult:
        parameters = _narrowing(which) | {"expect": str(expect)} | _refresh(refresh)
        return await self._write("DELETE", "/documents", DeleteResult, parameters)

    async def get(self, id: str) -> KnowledgeDocument:
        return await self._read("GET", "/documents", KnowledgeDocument, {"id": id})

    async def documents(self, which: Narrowing, *, cursor: str | None, limit: int) -> DocumentPage:
        parameters = _narrowing(which) | _given({"cursor": cursor, "limit": str(limit)})
        return await self._read("GET", "/documents", DocumentPage, parameters)

    async def parents(self, source: str, *, cursor: str | None, limit: int) -> ParentPage:
        asked = {"source": source, "cursor": cursor, "limit": str(limit)}
        return await self._read("GET", "/parents", ParentPage, _given(asked))

    async def stats(self, which: Narrowing) -> Stats:
        return await self._read("GET", "/stats", Stats, _narrowing(which))

    async def query(self, query: Query) -> QueryResult:
        return await self._read("POST", "/query", QueryResult, {}, query.model_dump_json(exclude_none=True).encode())

    async def query_batch(self, queries: Sequence[Query]) -> Sequence[QueryResult]:
        body = b'{"queries":%b}' % _QUERIES.dump_json(tuple(queries), exclude_none=True)
        return (await self._read("POST", "/query-batch", _BatchAnswer, {}, body)).results

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    # one call ---------------------------------------------------------------------------------------------------------

    async def _read(
        self, method: str, path: str, answer: type[_Read], parameters: Mapping[str, str], body: bytes | None = None
    ) -> _Read:
        return await self._call(method, path, answer, parameters, body, self._timeouts.query_s)

    async def _write(
        self, method: str, path: str, answer: type[_Read], parameters: Mapping[str, str], body: bytes | None = None
    ) -> _Read:
        return await self._call(method, path, answer, parameters, body, self._timeouts.write_s)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_Read],
        parameters: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> _Read:
        # encoded=True: the address is sent as it stands, so that an id comes out as it went in
        url = URL(f"{self.base}{path}?{urlencode(parameters, quote_via=quote, safe='')}".rstrip("?"), encoded=True)
        place = f"{method} {self.base}{path}"
        with translated(place):
            async with asyncio.timeout(timeout_s):
                data = await self._attempts(method, url, body, place, time.monotonic() + timeout_s)
            # a newer service may send fields that this client does not know
            return answer.model_validate_json(data, extra="ignore")

    async def _attempts(self, method: str, url: URL, body: bytes | None, place: str, deadline: float) -> bytes:
        for attempt in range(self._retries + 1):
            try:
                with translated(place):
                    return await self._once(method, url, body)
            except Retryable as error:
                pause_s = pause(attempt, error.retry_after_s)
                if attempt == self._retries or time.monotonic() + pause_s >= deadline:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, method: str, url: URL, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else None
        # a buffer is written piece by piece, so that a large body does not hold up the event loop
        data = None if body is None else io.BytesIO(body)
        # redirects are not followed: the key must not reach another host
        async with self._opened().request(method, url, data=data, headers=headers, allow_redirects=False) as response:
            answer = await response.read()
            if response.status < 300:
                return answer
            raise error_from_response(response.status, response.headers, answer)

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s)
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        return self._session


def base_address(url: str) -> str:
    """The address of the routes, from the service's with or without `/api/v1`, `/api/v1/knowledge` and a slash.

    Raises ConfigError for what is no http address, and for one with a password in it, which would end up in logs.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError("the service's address must read like http://knowledge.example:8080, without ? and #")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"the address of {parts.hostname} carries a name or password; give the key as api_key")
    path = re.sub(r"/api/v1(/knowledge)?$", "", parts.path.rstrip("/"))
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}{_ROUTES}"


def pause(attempt: int, retry_after_s: float | None) -> float:
    """Seconds until the next attempt: what the service asks for, and up to twice as much more each time, at random."""
    most = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt)
    return min(retry_after_s or 0.0, _LONGEST_RETRY_AFTER_S) + random.uniform(0, most)  # noqa: S311 - no secret


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> KnowledgeStoreError:
    """The error that an answer beyond 2xx stands for, whoever wrote it: the service, or a proxy in front of it."""
    if 300 <= status < 400:
        return ConfigError(f"the service is at another address: {headers.get('Location', 'it does not say where')}")
    status = 503 if status in _UNAVAILABLE else status
    return error_from_problem(status, _problem(body), retry_after_s=_retry_after_s(headers.get("Retry-After")))


def _problem(body: bytes) -> dict[str, Any]:
    """The members of a problem document that have the shape they should have; none where the body is no such thing."""
    try:
        problem = from_json(body)
    except ValueError:
        return {}
    if not isinstance(problem, dict):
        return {}
    if not isinstance(problem.get("ids", []), list):
        del problem["ids"]
    fields = problem.get("fields", [])
    problem["fields"] = [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []
    if not isinstance(problem.get("position", 0), int):
        del problem["position"]
    return problem


def _retry_after_s(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds)


def _key_header(api_key: str | None) -> dict[str, str]:
    if not api_key:
        return {}
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ConfigError("the key holds a blank, a line break or a character beyond ASCII; was it copied whole?")
    return {"X-API-Key": api_key}


def _documents(documents: Sequence[Encoded], beside: Mapping[str, str] | None = None) -> bytes:
    fields = b"".join(b",%b:%b" % (to_json(name), to_json(value)) for name, value in (beside or {}).items())
    return b'{"documents":[%b]%b}' % (b",".join(one.json for one in documents), fields)


def _refresh(refresh: bool) -> dict[str, str]:
    return {"refresh": "wait_for"} if refresh else {}


def _narrowing(which: Narrowing) -> dict[str, str]:
    named = _given({"tags": which.tags, "source": which.source, "parent_id": which.parent_id})
    project = {} if which.project_id is None else {"project_id": which.project_id}
    return named | project | ({} if which.include_global else {"include_global": "false"})


def _given(parameters: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}
