"""Makes writes searchable, for many writers at once: whoever comes while a refresh runs shares the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SharedRefresh:
    """`await refresh()` returns after a refresh that began after the call."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running), name="elasticsearch.refresh")
            self._next.add_done_callback(_retrieved)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Ends what runs."""
        tasks = [task for task in (self._running, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        await self._refresh()


def _retrieved(task: asyncio.Task[None]) -> None:
    # every waiter may have been cancelled, and an error that nobody reads is logged as a defect
    if not task.cancelled():
        task.exception()
