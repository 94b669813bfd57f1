"""What the handlers need, made by the composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from aiohttp import web

from knowledge_store.api.auth import Authenticator
from knowledge_store.embedding import Embedding
from knowledge_store.ingest.maintenance import Maintenance
from knowledge_store.ingest.replace import Loader, Replacer
from knowledge_store.ingest.write import Writer
from knowledge_store.metrics import Metrics
from knowledge_store.query.path import QueryPath
from knowledge_store.query.slow import SlowQueries
from knowledge_store.settings import HttpSettings
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import KnowledgeIndex

T = TypeVar("T")


class Writes:
    """Writes under way: each runs to its end, also when its caller hangs up, and a stop waits for them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, write: Coroutine[Any, Any, T]) -> T:
        """The result of the write, which goes on even if this call is cancelled. Refused once a stop has begun."""
        if self._closed:
            write.close()
            raise BackendUnavailable("the service is stopping; call again", retry_after_s=1)
        task = asyncio.create_task(write)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self, timeout_s: float) -> None:
        """No further writes; waits for those under way, and ends what outlasts the time."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass
class Services:
    """Everything behind the routes."""

    http: HttpSettings
    backend: str
    provider: str
    index: KnowledgeIndex
    embedding: Embedding
    queries: QueryPath
    writer: Writer
    replacer: Replacer
    loader: Loader
    maintenance: Maintenance
    metrics: Metrics
    authenticator: Authenticator
    clock: Callable[[], datetime]
    slow: SlowQueries = field(default_factory=SlowQueries)
    writes: Writes = field(default_factory=Writes)
    queries_in_flight: int = 0
    opened: bool = False
    openapi: bytes = b""


SERVICES = web.AppKey("services", Services)
