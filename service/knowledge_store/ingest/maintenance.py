"""What runs beside the requests: documents that wait get their vectors, expired ones and leftovers go.

Everything here is conditional on the version that was seen, so that it never undoes a newer write, and two replicas
may do the same work without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from knowledge_store.ingest.refusals import Refusal, Refusals
from knowledge_store.ingest.vectors import PassageEmbedder
from knowledge_store_sdk.errors import Conflict, KnowledgeStoreError
from knowledge_store_sdk.protocols import Filter, KnowledgeIndex, ParentWrite
from knowledge_store_sdk.vectors import Vector

_PAGE: Final = 500
_EMBED_PAGE: Final = 64  # few enough that a stop between two pages loses little work
BACKFILL_S: Final = 1.0

log = structlog.get_logger(__name__)


class Maintenance:
    """`removed(n)` is told of every n expired documents that went, `changed` of any change."""

    def __init__(
        self,
        index: KnowledgeIndex,
        embedder: PassageEmbedder,
        *,
        clock: Callable[[], datetime],
        changed: Callable[[], None],
        removed: Callable[[int], None],
        deadline_s: float,
    ) -> None:
        self._index, self._embedder, self._clock = index, embedder, clock
        self._changed, self._removed, self._deadline_s = changed, removed, deadline_s
        self._refusals = Refusals()

    async def backfill(self) -> int:
        """Embeds what waits; returns how many documents got their vector.

        A document whose text the embedder refuses keeps waiting, and is tried again at growing distances.
        """
        given, cursor = 0, None
        while True:
            page = await self._index.scan(Filter(pending=True), limit=_EMBED_PAGE, cursor=cursor)
            due = [stored for stored in page.documents if self._refusals.is_due(stored, self._clock())]
            texts = [stored.document.search_text for stored in due]
            self._embedder.forget_refusals(texts)
            made = await self._embedder.embed_passages(texts, self._deadline_s) if texts else []
            ready: dict[str, tuple[str, Vector]] = {}
            for stored, one in zip(due, made, strict=True):
                if one.vector is not None:
                    ready[stored.document.id] = (stored.version, one.vector)
                elif one.refused:
                    self._refusals.note(stored, one.reason or "refused", self._clock())
            if ready:
                given += await self._index.set_vectors(ready)
                self._changed()
            cursor = page.cursor
            if cursor is None or any(one.vector is None and not one.refused for one in made):
                return given  # nothing more to do, or the embedder is not there

    @property
    def refusals(self) -> list[Refusal]:
        """The documents whose text the embedder refused, with attempts and the last reason."""
        return self._refusals.known()

    async def clean_up(self) -> int:
        """Removes expired documents, and what interrupted replacements left; returns how many had expired."""
        expired = await self._remove(Filter(expired_at=self._clock()))
        self._removed(expired)
        leftovers = await self._index.purge()
        if expired or leftovers:
            self._changed()
            log.info("knowledge.cleanup.done", expired=expired, leftovers=leftovers)
        return expired

    async def sweep(self, source: str, not_seen_since: datetime, expect: int | None, *, refresh: bool = False) -> int:
        """Removes a source's documents that were not written since; returns how many.

        Raises Conflict, and removes nothing, where `expect` is another number than would go.
        """
        unseen = Filter(sources=frozenset({source}), seen_before=not_seen_since)
        if expect is not None and (count := await self._index.count(unseen)) != expect:
            raise Conflict(f"{count} documents of {source!r} would go, not {expect}; nothing was removed")
        removed, cursor = 0, None
        while True:
            page, cursor = await self._index.parents(source, limit=_PAGE, cursor=cursor, seen_before=not_seen_since)
            for parent in page:
                gone = ParentWrite(parent.id, source, None, None, None, None, self._clock())
                replaced = await self._index.replace(gone, [], refresh=refresh, seen_before=not_seen_since)
                removed += replaced.removed
            if cursor is None:
                break
        removed += await self._remove(unseen, refresh=refresh)
        self._changed()
        return removed

    async def delete_matching(self, filter: Filter, expect: int, *, refresh: bool = False) -> int:
        """Removes what a filter finds. Raises Conflict, and removes nothing, where that is not `expect` documents."""
        count = await self._index.count(filter)
        if count != expect:
            raise Conflict(f"{count} documents match, not {expect}; nothing was removed")
        removed = await self._remove(filter, refresh=refresh)
        self._changed()
        return removed

    async def _remove(self, filter: Filter, *, refresh: bool = False) -> int:
        removed, cursor = 0, None
        while True:
            page = await self._index.scan(filter, limit=_PAGE, cursor=cursor)
            versions = {stored.document.id: stored.version for stored in page.documents}
            if versions:
                removed += await self._index.delete(list(versions), versions=versions, refresh=refresh)
            cursor = page.cursor
            if cursor is None:
                return removed


async def every(interval_s: float, work: Callable[[], Awaitable[object]], name: str) -> None:
    """Does the work now and then again and again; an error is logged once until it changes, and the work goes on."""
    last: str | None = None
    while True:
        try:
            await work()
            last = None
        except KnowledgeStoreError as error:
            if error.detail != last:
                log.warning(f"knowledge.{name}.failed", reason=error.detail)
            last = error.detail
        except Exception:
            log.exception(f"knowledge.{name}.defect")
        await asyncio.sleep(interval_s)
