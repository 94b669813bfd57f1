"""Stands between a service and Elasticsearch and notes what the service asks, so that others can ask just the same.

service -> recorder -> Elasticsearch, and back, byte for byte
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web

_PASSED_ON: Final = ("Accept", "Accept-Encoding", "Content-Type", "Content-Encoding")
_PASSED_BACK: Final = ("Content-Type", "Content-Encoding", "X-Elastic-Product")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, its times (s, of `perf_counter`), and how long its answer was."""

    path: str
    body: bytes
    answer_bytes: int
    began: float
    ended: float


class Recorder:
    """`url` is where the service is to send its requests."""

    def __init__(self, url: str, exchanges: list[Exchange]) -> None:
        self.url = url
        self._exchanges = exchanges

    def taken(self) -> list[list[Exchange]]:
        """What was posted since the last call, in stages: of one stage are requests that were under way together."""
        noted = sorted(self._exchanges, key=lambda one: one.began)
        self._exchanges.clear()
        stages: list[list[Exchange]] = []
        for one in noted:
            if stages and one.began < max(other.ended for other in stages[-1]):
                stages[-1].append(one)
            else:
                stages.append([one])
        return stages


@asynccontextmanager
async def recorder(target: str) -> AsyncIterator[Recorder]:
    """A recorder in front of this server, on a free port."""
    exchanges: list[Exchange] = []

    async def forward(request: web.Request) -> web.Response:
        began, body = time.perf_counter(), await request.read()
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        async with session.request(request.method, target + request.path_qs, data=body, headers=headers) as answer:
            content = await answer.read()
            told = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
            status = answer.status
        if request.method == "POST":
            exchanges.append(Exchange(request.path_qs, body, len(content), began, time.perf_counter()))
        return web.Response(body=content, status=status, headers=told)

    app = web.Application(client_max_size=128 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=_PASSED_ON) as session:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield Recorder(f"http://127.0.0.1:{runner.addresses[0][1]}", exchanges)
    finally:
        await runner.cleanup()
