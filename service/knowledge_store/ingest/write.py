"""Writes documents one by one, each with its own outcome:

complete -> look up -> may it? -> vectors -> write under the version seen -> again, where another write came first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from knowledge_store.embedding.cache import text_key
from knowledge_store.ingest.caller import Caller
from knowledge_store.ingest.vectors import PassageEmbedder, vectors_for
from knowledge_store_sdk.errors import Conflict, KnowledgeStoreError, NotFound, PermissionDenied, Retryable
from knowledge_store_sdk.models import ItemError, KnowledgeDocument, WriteResult
from knowledge_store_sdk.protocols import Existing, KnowledgeIndex, Outcome, Write
from knowledge_store_sdk.vectors import Vector

_ATTEMPTS: Final = 5


class Writer:
    """Upserts and deletes. `stored(source, n)` is told of every n documents stored, `changed` of any change."""

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

    async def upsert(
        self, documents: Sequence[KnowledgeDocument], caller: Caller, *, refresh: bool = False
    ) -> list[WriteResult]:
        """One result a document, in order. Of two with one id the later counts, and both are told what became of it."""
        now = self._clock()
        results: dict[str, WriteResult] = {}
        waiting: dict[str, KnowledgeDocument] = {}
        for document in documents:
            try:
                waiting[document.id] = completed(document, caller, now)
                results.pop(document.id, None)
            except PermissionDenied as error:
                waiting.pop(document.id, None)
                results[document.id] = failed(document.id, error)
        vectors = await self._vectors(list(waiting.values()))
        for _ in range(_ATTEMPTS):
            if not waiting:
                break
            existing = await self._index.lookup(list(waiting))
            for id, there in existing.items():
                if refused := refusal(there, caller):
                    results[id] = failed(id, refused)
                    del waiting[id]
            await self._write(waiting, vectors, existing, now, refresh, results)
        for id in waiting:
            results[id] = failed(id, Retryable(f"{id!r} is being written by others at the same time; write it again"))
        return [results[document.id] for document in documents]

    async def delete(self, id: str, caller: Caller, *, refresh: bool = False) -> int:
        """Removes one document. Raises NotFound, or PermissionDenied where it belongs to another source."""
        for _ in range(_ATTEMPTS):
            there = (await self._index.lookup([id])).get(id)
            if there is None:
                raise NotFound(f"there is no document {id!r}", ids=[id])
            caller.check(there.source)
            if await self._index.delete([id], versions={id: there.version}, refresh=refresh):
                self._changed()
                return 1
        raise Conflict(f"{id!r} is being written by others at the same time; delete it again", ids=[id])

    async def _vectors(self, documents: Sequence[KnowledgeDocument]) -> dict[str, Vector | None]:
        texts = [document.search_text for document in documents]
        made = await vectors_for(texts, self._index, self._embedder, self._deadline_s)
        return {document.id: vector for document, vector in zip(documents, made, strict=True)}

    async def _write(
        self,
        waiting: dict[str, KnowledgeDocument],
        vectors: dict[str, Vector | None],
        existing: dict[str, Existing],
        now: datetime,
        refresh: bool,
        results: dict[str, WriteResult],
    ) -> None:
        writes = [
            Write(
                document,
                vectors[id],
                text_key(document.search_text),
                now,
                existing[id].version if id in existing else None,
            )
            for id, document in waiting.items()
        ]
        if not writes:
            return
        try:
            outcomes = await self._index.upsert(writes, refresh=refresh)
        finally:
            self._changed()
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome.state == "conflict":
                continue
            document = waiting.pop(outcome.id)
            results[outcome.id] = _result(outcome, write.vector)
            if outcome.state == "stored":
                self._stored(document.source or "", 1)


def completed(document: KnowledgeDocument, caller: Caller, now: datetime) -> KnowledgeDocument:
    """The document with everything that its writer left to the store. Raises PermissionDenied."""
    source = caller.source_for(document.source)
    return document.model_copy(
        update={
            "source": source,
            "uri": document.uri or f"knowledge://{source}/{document.id}",
            "revision": document.revision or document.content_hash,
            "updated_at": document.updated_at or now,
            "score": None,
        }
    )


def refusal(there: Existing, caller: Caller) -> KnowledgeStoreError | None:
    """Why this caller may not write over what is there by an upsert."""
    try:
        caller.check(there.source)
    except PermissionDenied as error:
        return error
    if there.member_of is not None:
        return Conflict(
            f"{there.id!r} was written as a part of {there.member_of!r}: replace that set, or delete it first",
            ids=[there.id, there.member_of],
        )
    return None


def failed(id: str, error: KnowledgeStoreError) -> WriteResult:
    """The result of a document that was not stored."""
    told = ItemError(code=error.code, detail=error.detail, retryable=isinstance(error, Retryable))
    return WriteResult(id=id, state="failed", error=told)


def _result(outcome: Outcome, vector: Vector | None) -> WriteResult:
    if outcome.state == "stored":
        return WriteResult(id=outcome.id, state="stored", vectors="ready" if vector else "pending")
    code = "backend_unavailable" if outcome.retryable else "invalid_field"
    error = ItemError(code=code, detail=outcome.reason or "refused", retryable=outcome.retryable)
    return WriteResult(id=outcome.id, state="failed", error=error)
