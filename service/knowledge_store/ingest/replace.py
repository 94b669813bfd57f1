"""Writes the parts of one document as a set: a reader sees the old set or the new one.

complete -> look up -> may it? -> vectors -> replace at once
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from knowledge_store.embedding.cache import text_key
from knowledge_store.ingest.caller import LOCAL, Caller
from knowledge_store.ingest.vectors import PassageEmbedder, vectors_for
from knowledge_store.ingest.write import completed
from knowledge_store_sdk.errors import Conflict, InvalidField
from knowledge_store_sdk.models import KnowledgeDocument, Parent, ReplaceResult, VectorState
from knowledge_store_sdk.protocols import KnowledgeIndex, ParentWrite, Write


class Replacer:
    """Replaces sets."""

    def __init__(
        self,
        index: KnowledgeIndex,
        embedder: PassageEmbedder,
        *,
        clock: Callable[[], datetime],
        changed: Callable[[], None],
        stored: Callable[[str, int], None],
        deadline_s: float | None,
    ) -> None:
        self._index, self._embedder, self._clock = index, embedder, clock
        self._changed, self._stored, self._deadline_s = changed, stored, deadline_s

    async def replace(
        self,
        parent_id: str,
        documents: Sequence[KnowledgeDocument],
        caller: Caller,
        *,
        uri: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        fingerprint: str | None = None,
        source: str | None = None,
        refresh: bool = False,
    ) -> ReplaceResult:
        """The documents become the whole set. Raises PermissionDenied, Conflict with the ids that are in the way,
        InvalidField for a set that contradicts itself."""
        now = self._clock()
        source = caller.source_for(source or next((one.source for one in documents if one.source), None))
        whole = [completed(_part(one, parent_id, source, at), caller, now) for at, one in enumerate(documents)]
        await self._check(parent_id, whole, caller)
        texts = [document.search_text for document in whole]
        vectors = await vectors_for(texts, self._index, self._embedder, self._deadline_s)
        writes = [
            Write(document, vector, text_key(text), now)
            for document, vector, text in zip(whole, vectors, texts, strict=True)
        ]
        parent = ParentWrite(parent_id, source, uri, title, revision, fingerprint, now)
        try:
            replaced = await self._index.replace(parent, writes, refresh=refresh)
        finally:
            self._changed()
        self._stored(source, replaced.stored)
        state: VectorState = "pending" if any(vector is None for vector in vectors) else "ready"
        return ReplaceResult(id=parent_id, stored=replaced.stored, removed=replaced.removed, vectors=state)

    async def _check(self, parent_id: str, documents: Sequence[KnowledgeDocument], caller: Caller) -> None:
        seen: dict[str, int] = {}
        for at, document in enumerate(documents):
            if (first := seen.setdefault(document.id, at)) != at:
                why = f"has the same id as documents[{first}]: {document.id!r}"
                raise InvalidField("a set holds each id once", fields={f"documents[{at}].id": why})
        if there := await self._index.parent(parent_id):
            caller.check(there.source)
        existing = await self._index.lookup(list(seen)) if seen else {}
        for one in existing.values():
            caller.check(one.source)
        strange = [id for id, one in existing.items() if one.member_of not in (None, parent_id)]
        single = [
            id for id, one in existing.items() if one.member_of is None and not await self._is_stray(id, parent_id)
        ]
        if in_the_way := [*strange, *single]:
            raise Conflict(
                f"{len(in_the_way)} of the ids belong to documents outside of {parent_id!r}: delete those first, "
                "or give the parts ids of their own",
                ids=in_the_way[:100],
            )

    async def _is_stray(self, id: str, parent_id: str) -> bool:
        stored = await self._index.get(id)
        return stored is None or stored.document.parent_id == parent_id


class Loader:
    """What `load` writes through inside the service: the two methods of the SDK's client that it needs."""

    def __init__(self, index: KnowledgeIndex, replacer: Replacer) -> None:
        self._index, self._replacer = index, replacer

    async def parents(self, source: str) -> AsyncIterator[Parent]:
        """The sets of a source, ordered by id."""
        cursor: str | None = None
        while True:
            page, cursor = await self._index.parents(source, limit=1000, cursor=cursor)
            for parent in page:
                yield parent
            if cursor is None:
                return

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
        """As `Replacer.replace`, for the operator of this machine."""
        return await self._replacer.replace(
            parent_id,
            documents,
            LOCAL,
            uri=uri,
            title=title,
            revision=revision,
            fingerprint=fingerprint,
            source=source,
            refresh=refresh,
        )


def _part(document: KnowledgeDocument, parent_id: str, source: str, at: int) -> KnowledgeDocument:
    if document.source not in (None, source):
        why = f"{document.source!r}, while the set is written under {source!r}"
        raise InvalidField("a set has one source", fields={f"documents[{at}].source": why})
    if document.parent_id not in (None, parent_id):
        why = f"{document.parent_id!r}, while the set is that of {parent_id!r}"
        raise InvalidField("a set has one parent", fields={f"documents[{at}].metadata.parent_id": why})
    metadata = {**document.metadata, "parent_id": parent_id}
    return document.model_copy(update={"source": source, "metadata": metadata})
