"""Answers that are kept for a while: bounded in bytes, dead with the first change of the store.

An entry's key holds the epoch that was known before its question was asked, so that an answer is never older than the
epoch it stands under. Where the epoch is not known to be fresh, nothing is read and nothing is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from knowledge_store_sdk.errors import KnowledgeStoreError

POLL_S: Final = 0.5
STALE_S: Final = 1.5  # with a poll that takes its time, still below the two seconds that are promised
_OVERHEAD_BYTES: Final = 512

log = structlog.get_logger(__name__)


class WriteEpoch:
    """The store's epoch, polled, with the changes that this process made counted at once."""

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        self._read = read
        self._polled: str | None = None
        self._polled_at = float("-inf")
        self._own = 0
        self._task: asyncio.Task[None] | None = None

    def current(self) -> str | None:
        """The epoch, None where it may be out of date."""
        if self._polled is None or time.monotonic() - self._polled_at > STALE_S:
            return None
        return f"{self._polled}.{self._own}"

    def changed(self) -> None:
        """This process has written something."""
        self._own += 1

    async def poll(self) -> None:
        """Reads the epoch once."""
        started = time.monotonic()
        try:
            self._polled = await self._read()
            self._polled_at = started
        except KnowledgeStoreError as error:
            log.debug("knowledge.epoch.unknown", reason=error.detail)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="write-epoch")

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.poll()
            await asyncio.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer's documents as JSON; `good_until` is when the first of them expires."""

    documents: bytes
    hits: int
    good_until: datetime | None


class QueryCache:
    """Least recently used answers, at most `max_bytes` of them, none older than `ttl_s`."""

    def __init__(self, ttl_s: float, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s, self._max_bytes, self._clock = ttl_s, max_bytes, clock
        self._entries: OrderedDict[str, tuple[float, Kept]] = OrderedDict()
        self._bytes = 0

    def get(self, key: str, now: datetime) -> Kept | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        kept_at, kept = entry
        if self._clock() - kept_at > self._ttl_s or (kept.good_until is not None and kept.good_until <= now):
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return kept

    def put(self, key: str, kept: Kept) -> None:
        if self._ttl_s <= 0:
            return
        self._drop(key)
        self._entries[key] = (self._clock(), kept)
        self._bytes += self._size(key, kept)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    @property
    def bytes(self) -> int:
        return self._bytes

    def _drop(self, key: str) -> None:
        if entry := self._entries.pop(key, None):
            self._bytes -= self._size(key, entry[1])

    @staticmethod
    def _size(key: str, kept: Kept) -> int:
        return len(key) + len(kept.documents) + _OVERHEAD_BYTES
