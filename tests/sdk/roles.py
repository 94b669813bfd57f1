"""A service that misbehaves as told: one role a request, the last one for good, and every request is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass(frozen=True)
class Seen:
    """One request, as it came in. `raw_path` is what stood on the request line."""

    method: str
    path: str
    raw_path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Role = Callable[[Seen], Awaitable[web.StreamResponse]]


def answers(
    status: int = 200, body: object = None, *, headers: dict[str, str] | None = None, text: str | None = None
) -> Role:
    """Answers with JSON, or with this text as HTML."""

    async def role(_: Seen) -> web.StreamResponse:
        if text is not None:
            return web.Response(status=status, text=text, content_type="text/html", headers=headers)
        kind = "application/problem+json" if status >= 400 else "application/json"
        return web.Response(status=status, text=json.dumps(body), content_type=kind, headers=headers)

    return role


def slow(seconds: float) -> Role:
    """Takes its time, then answers as `answers()` does."""

    async def role(seen: Seen) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await answers()(seen)

    return role


@dataclass
class Service:
    """Plays `roles` in order on a local port, as an async context manager."""

    roles: list[Role]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._server = TestServer(app)
        await self._server.start_server(max_line_size=65536)
        self.url = str(self._server.make_url("/"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(
            request.method,
            request.path,
            request.raw_path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
            asyncio.get_running_loop().time(),
        )
        self.seen.append(seen)
        role = self.roles[min(len(self.seen), len(self.roles)) - 1]
        return await role(seen)


@dataclass
class RawService:
    """Sends these bytes to whoever connects, after a request has begun, and hangs up; counts the connections."""

    sent: bytes
    connections: int = 0
    url: str = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.read(1024)
        writer.write(self.sent)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
