"""A store in memory for `load`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from knowledge_store_sdk.models import KnowledgeDocument, Parent, ReplaceResult


class MemorySink:
    """Keeps sets by id, and counts the calls."""

    def __init__(self) -> None:
        self.sets: dict[str, tuple[Parent, tuple[KnowledgeDocument, ...]]] = {}
        self.replaced: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.pause_s = 0.0
        self.at_once = self.most_at_once = 0

    async def parents(self, source: str) -> AsyncIterator[Parent]:
        for parent, _ in list(self.sets.values()):
            if parent.source == source:
                yield parent

    async def replace(
        self,
        parent_id: str,
        documents: Sequence[KnowledgeDocument],
        *,
        uri: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        fingerprint: str | None = None,
        source: str | None = None,
        refresh: bool = False,
    ) -> ReplaceResult:
        self.replaced.append(parent_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.pause_s)
        self.at_once -= 1
        if parent_id in self.fails:
            raise self.fails[parent_id]
        before = self.sets.pop(parent_id, (None, ()))[1]
        if documents:
            assert source is not None
            parent = Parent(
                id=parent_id,
                source=source,
                uri=uri,
                title=title,
                revision=revision,
                fingerprint=fingerprint,
                documents=len(documents),
                written_at=datetime.now(UTC),
            )
            self.sets[parent_id] = (parent, tuple(documents))
        return ReplaceResult(id=parent_id, stored=len(documents), removed=len(before), vectors="ready")

    def documents(self, name: str) -> tuple[KnowledgeDocument, ...]:
        return self.sets[f"ops:file:///{name}"][1]
