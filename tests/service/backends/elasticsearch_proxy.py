"""A server between the backend and Elasticsearch: it refuses, loses and stops what a test tells it to, and counts."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
import orjson
from aiohttp import web

_SHOWN = ("content-type", "x-elastic-product")


@dataclass
class Proxy:
    """`refusals` has, per `_id` of a bulk, the statuses that it is refused with, one a send, before it passes.

    `loses(method, path)` says whether the connection breaks after the server has done its work. `holds` says whether it
    stands still for ever instead, before the server has the request or after it has answered; `held` is set then.
    `answers` stands in for the server's own answers. `meanwhile` happens between the server's answer and its arrival.
    """

    url: str
    address: str = ""
    refusals: dict[str, list[int]] = field(default_factory=dict)
    loses: Callable[[str, str], bool] = lambda method, path: False
    holds: Callable[[str, str], Literal["before", "after", "no"]] = lambda method, path: "no"
    answers: Callable[[str, str], tuple[int, Any] | None] = lambda method, path: None
    meanwhile: Callable[[str, str], Awaitable[None]] | None = None
    sends: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    requests: list[tuple[str, str]] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path
        self.requests.append((method, path))
        body = await request.read()
        if (answer := self.answers(method, path)) is not None:
            return web.json_response(answer[1], status=answer[0], headers={"X-Elastic-Product": "Elasticsearch"})
        hold = self.holds(method, path)
        if hold == "before":
            await self._stand_still()
        status, headers, answered = await self._forward(request, body)
        if hold == "after":
            await self._stand_still()
        if self.meanwhile is not None:
            await self.meanwhile(method, path)
        if self.loses(method, path):
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=status, headers=headers, body=answered)

    async def _stand_still(self) -> None:
        self.held.set()
        await asyncio.Event().wait()

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if not request.path.endswith("/_bulk"):
            return await self._send(request, body)
        passed, refused = self._sorted(body)
        status, headers, items = 200, {"content-type": "application/json", "X-Elastic-Product": "Elasticsearch"}, []
        if passed:
            status, headers, answered = await self._send(request, b"".join(passed))
            items = orjson.loads(answered)["items"]
        for at, item in refused:
            items.insert(at, item)
        return status, headers, orjson.dumps({"items": items})

    def _sorted(self, body: bytes) -> tuple[list[bytes], list[tuple[int, dict[str, Any]]]]:
        """The lines that pass, and the answers for those that are refused, each with its place."""
        passed: list[bytes] = []
        refused: list[tuple[int, dict[str, Any]]] = []
        lines = iter(body.splitlines(keepends=True))
        for header in lines:
            [(kind, told)] = orjson.loads(header).items()
            source = b"" if kind == "delete" else next(lines)
            self.sends[told["_id"]].append(time.monotonic())
            waiting = self.refusals.get(told["_id"])
            if waiting:
                status = waiting.pop(0)
                error = {"type": "refused_by_the_test", "reason": f"status {status}"}
                refused.append(
                    (len(passed) + len(refused), {kind: {"_id": told["_id"], "status": status, "error": error}})
                )
            else:
                passed.append(header + source)
        return passed, refused

    async def _send(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {"content-type": "application/json"} if body else {}
        async with aiohttp.ClientSession() as session:
            url = self.url + request.raw_path
            async with session.request(request.method, url, data=body or None, headers=headers) as answer:
                shown = {name: value for name, value in answer.headers.items() if name.lower() in _SHOWN}
                return answer.status, shown, await answer.read()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of this server; its own address is `address`."""
    proxy = Proxy(url)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await runner.cleanup()
