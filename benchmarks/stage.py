"""The common scene of the timings: a server with a loaded store, the service on it, and questions to ask.

synthetic data -> prepared embedder -> service (cache off) -> bulk-upsert -> no more merges -> measuring may begin
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.ollama import prepared_embedder
from benchmarks.process import ServiceProcess, service
from benchmarks.report import console
from benchmarks.servers import Server, elasticsearch
from benchmarks.synthetic import TAG, Synthetic, synthetic
from benchmarks.wire import query
from knowledge_store_sdk import KnowledgeClient
from tests.servers.rest import call

CHUNKS: Final = 50_000
QUESTIONS: Final = 400
TOP_K: Final = 5
_MERGES_S: Final = 300


@dataclass(frozen=True, slots=True)
class Stage:
    """`prefix` names the store's indices on `server`; `embedder` is the section of a configuration."""

    folder: Path
    server: Server
    data: Synthetic
    embedder: Mapping[str, Any]
    prefix: str

    def settings(self, *, url: str | None = None, ttl_s: float = 0, level: str = "info") -> dict[str, Any]:
        """A configuration of a service on this store; `ttl_s` 0 keeps no answers."""
        return {
            "backend": "elasticsearch",
            "elasticsearch": {"url": url or self.server.url, "index_prefix": self.prefix},
            "embedder": dict(self.embedder),
            "cache": {"ttl_s": ttl_s},
            "log": {"level": level},
        }

    def requests(self, count: int | None = None) -> list[bytes]:
        """Whole requests, one for each of the first questions."""
        return [query(text=text, tags=TAG, top_k=TOP_K) for text in self.data.questions[:count]]


@asynccontextmanager
async def stage(folder: Path, *, chunks: int, questions: int) -> AsyncIterator[Stage]:
    """A loaded store in Elasticsearch."""
    data = await asyncio.to_thread(synthetic, chunks, questions)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(elasticsearch())
        embedder = await stack.enter_async_context(prepared_embedder(data))
        found = Stage(folder, server, data, embedder, f"bench-{int(time.time())}")
        async with service(folder / "loading", found.settings()) as subject:
            await load(subject, data)
        await asyncio.to_thread(_settle, server.url, found.prefix)
        yield found


async def load(subject: ServiceProcess, data: Synthetic) -> None:
    """Stores all documents through the service."""
    started = time.perf_counter()
    async with KnowledgeClient(subject.url, write_timeout_s=600) as client:
        done = await client.bulk_upsert(data.documents, refresh=True)
    assert all(one.vectors == "ready" for one in done.results)
    took_s = time.perf_counter() - started
    console.print(f"loaded {done.stored:,} documents in {took_s:.0f} s, vectors from a prepared embedder")


async def ask_all(subject: ServiceProcess, requests: list[bytes]) -> None:
    """Each once: afterwards the service has their vectors at hand."""
    async with subject.connect() as wire:
        for one in requests:
            await wire.send(one)


def _settle(url: str, prefix: str) -> None:
    """Waits until the server merges no more: the reference and the service are to meet the same segments."""
    path = f"/{prefix}-documents"
    call("POST", url, f"{path}/_flush?wait_if_ongoing=true", timeout_s=120)
    deadline = time.monotonic() + _MERGES_S
    while time.monotonic() < deadline:
        stats = call("GET", url, f"{path}/_stats/merge,segments").body["_all"]["primaries"]
        if stats["merges"]["current"] == 0:
            console.print(f"{stats['segments']['count']} segments")
            return
        time.sleep(1)
    raise TimeoutError(f"merges did not end within {_MERGES_S} s")
