"""A store in memory, behind the client's wire. Scores by shared words; has no vectors, and nothing survives it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from knowledge_store_sdk._wire import Encoded, Narrowing, ParentFields, invalid_field
from knowledge_store_sdk.errors import Conflict, InvalidField, InvalidRequest, KnowledgeStoreError, NotFound
from knowledge_store_sdk.models import (
    BulkResult,
    Citation,
    DeleteResult,
    DocumentPage,
    ItemError,
    KnowledgeDocument,
    Leg,
    LegScore,
    Parent,
    ParentPage,
    Passage,
    Query,
    QueryResult,
    ReplaceResult,
    Stats,
    WriteResult,
)
from knowledge_store_sdk.tags import parse_tags

_DEFAULT_SOURCE: Final = "default"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Kept:
    document: KnowledgeDocument
    seen_at: datetime
    member_of: str | None


class MemoryStore:
    """Documents by id, parents by id. `now` decides what has expired; documents come in as JSON, as over HTTP."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: dict[str, _Kept] = {}
        self._parents: dict[str, Parent] = {}

    # writing

    def keep(self, document: Encoded) -> WriteResult:
        """An upsert for those who cannot wait."""
        one = _read(document)
        self._keep_single(one)
        return WriteResult(id=one.id, state="stored", vectors="ready")

    async def upsert(self, document: Encoded, *, refresh: bool) -> WriteResult:
        return self.keep(document)

    async def bulk_upsert(self, documents: Sequence[Encoded], *, refresh: bool) -> BulkResult:
        results = [self._outcome(document) for document in documents]
        stored = sum(one.state == "stored" for one in results)
        return BulkResult(stored=stored, failed=len(results) - stored, results=tuple(results))

    async def replace(
        self, parent_id: str, parent: ParentFields, documents: Sequence[Encoded], *, refresh: bool
    ) -> ReplaceResult:
        parts = [_read(document, f"documents[{at}]") for at, document in enumerate(documents)]
        source = parent.source or next((one.source for one in parts if one.source), _DEFAULT_SOURCE)
        parts = [_part(one, parent_id, source, f"documents[{at}]") for at, one in enumerate(parts)]
        _check_distinct(parts)
        foreign = [one.id for one in parts if one.id in self._kept and not self._belongs(one.id, parent_id)]
        if foreign:
            raise Conflict(f"{len(foreign)} of the ids belong to documents outside of {parent_id!r}", ids=foreign)
        before = {id for id in self._kept if self._belongs(id, parent_id)}
        for id in before:
            del self._kept[id]
        for part in parts:
            self._keep(part, parent_id)
        self._parents.pop(parent_id, None)
        if parts:
            self._parents[parent_id] = Parent(
                id=parent_id, documents=len(parts), written_at=self._now(), **(parent.given() | {"source": source})
            )
        removed = len(before - {part.id for part in parts})
        return ReplaceResult(id=parent_id, stored=len(parts), removed=removed, vectors="ready")

    async def sweep(self, source: str, not_seen_since: datetime, expect: int | None, *, refresh: bool) -> DeleteResult:
        unseen = [
            id for id, one in self._kept.items() if one.document.source == source and one.seen_at < not_seen_since
        ]
        return self._remove(unseen, expect)

    async def delete(self, id: str, *, refresh: bool) -> DeleteResult:
        if id not in self._kept:
            raise NotFound(f"there is no document {id!r}", ids=[id])
        return self._remove([id], None)

    async def delete_matching(self, which: Narrowing, expect: int, *, refresh: bool) -> DeleteResult:
        return self._remove([one.id for one in self._matching(which)], expect)

    # reading

    async def get(self, id: str) -> KnowledgeDocument:
        one = self._kept.get(id)
        if one is None or not self._is_live(one):
            raise NotFound(f"there is no document {id!r}", ids=[id])
        return one.document.model_copy(deep=True)

    async def documents(self, which: Narrowing, *, cursor: str | None, limit: int) -> DocumentPage:
        found = _newest_first(self._matching(which))
        start = int(cursor or 0)
        more = str(start + limit) if start + limit < len(found) else None
        page = tuple(one.model_copy(deep=True) for one in found[start : start + limit])
        return DocumentPage(documents=page, cursor=more)

    async def parents(self, source: str, *, cursor: str | None, limit: int) -> ParentPage:
        found = sorted((one for one in self._parents.values() if one.source == source), key=lambda one: one.id)
        start = int(cursor or 0)
        more = str(start + limit) if start + limit < len(found) else None
        return ParentPage(parents=tuple(found[start : start + limit]), cursor=more)

    async def stats(self, which: Narrowing) -> Stats:
        found = list(self._matching(which))
        return Stats(
            total=len(found),
            pending_vectors=0,
            tags=dict(Counter(tag for one in found for tag in set(one.tags))),
            sources=dict(Counter(one.source for one in found if one.source)),
        )

    async def query(self, query: Query) -> QueryResult:
        words = _words(query.text)
        blank = not query.text.replace("\0", " ").strip()
        if blank and not query.tags:
            raise InvalidRequest("a question needs a text, or a tag filter to list by; this one has neither")
        within = Narrowing(query.tags, project_id=query.project_id, include_global=query.include_global)
        matching = self._matching(within)
        found = _newest_first(one for one in matching if query.sources is None or one.source in query.sources)
        if blank:
            return QueryResult(
                documents=tuple(_passage(one, None, query, 0) for one in found[: query.top_k]), took_ms=0
            )
        scored = [(_overlap(words, one), one) for one in found]
        hits = sorted((hit for hit in scored if hit[0] > 0), key=lambda hit: -hit[0])
        passages = [_passage(one, score, query, rank) for rank, (score, one) in enumerate(hits, 1)]
        kept = [one for one in passages if one.score is not None and one.score >= query.min_score]
        return QueryResult(documents=tuple(kept[: query.top_k]), took_ms=0)

    async def query_batch(self, queries: Sequence[Query]) -> Sequence[QueryResult]:
        return [await self.query(query) for query in queries]

    async def close(self) -> None:
        """Nothing to let go of: what was stored can still be asked for."""

    # within

    def _outcome(self, document: Encoded) -> WriteResult:
        try:
            return self.keep(document)
        except KnowledgeStoreError as error:
            return WriteResult(id=document.id, state="failed", error=ItemError(code=error.code, detail=error.detail))

    def _keep_single(self, document: KnowledgeDocument) -> None:
        there = self._kept.get(document.id)
        if there is not None and there.member_of is not None:
            raise Conflict(f"{document.id!r} is a part of {there.member_of!r}", ids=[document.id, there.member_of])
        self._keep(document, None)

    def _keep(self, document: KnowledgeDocument, member_of: str | None) -> None:
        now = self._now()
        source = document.source or _DEFAULT_SOURCE
        complete = document.model_copy(
            update={
                "source": source,
                "uri": document.uri or f"knowledge://{source}/{document.id}",
                "revision": document.revision or document.content_hash,
                "updated_at": document.updated_at or now,
            }
        )
        self._kept[document.id] = _Kept(complete, now, member_of)

    def _remove(self, ids: Sequence[str], expect: int | None) -> DeleteResult:
        if expect is not None and expect != len(ids):
            raise Conflict(f"{len(ids)} documents would go, not {expect}; nothing was removed")
        for id in ids:
            parent_id = self._kept.pop(id).member_of
            if parent_id is not None and not any(one.member_of == parent_id for one in self._kept.values()):
                self._parents.pop(parent_id, None)
        return DeleteResult(deleted=len(ids))

    def _belongs(self, id: str, parent_id: str) -> bool:
        one = self._kept[id]
        return one.member_of == parent_id or (one.member_of is None and one.document.parent_id == parent_id)

    def _is_live(self, one: _Kept) -> bool:
        return one.document.expires_at is None or one.document.expires_at > self._now()

    def _matching(self, which: Narrowing) -> list[KnowledgeDocument]:
        expression = parse_tags(which.tags)
        return [
            one.document
            for one in self._kept.values()
            if self._is_live(one)
            and (expression is None or expression.matches(one.document.tags))
            and which.source in (None, one.document.source)
            and which.parent_id in (None, one.document.parent_id)
            and _in_scope(one.document, which)
        ]


def _read(document: Encoded, path: str = "") -> KnowledgeDocument:
    try:
        return KnowledgeDocument.model_validate_json(document.json)
    except ValidationError as error:
        raise invalid_field(error, path) from error


def _part(document: KnowledgeDocument, parent_id: str, source: str, path: str) -> KnowledgeDocument:
    for field, value, whole in (
        ("source", document.source, source),
        ("metadata.parent_id", document.parent_id, parent_id),
    ):
        if value not in (None, whole):
            why = f"{value!r}, while that of the set is {whole!r}"
            raise InvalidField(f"{path}.{field}: {why}", fields={f"{path}.{field}": why})
    return document.model_copy(update={"source": source, "metadata": {**document.metadata, "parent_id": parent_id}})


def _check_distinct(parts: Sequence[KnowledgeDocument]) -> None:
    counts = Counter(part.id for part in parts)
    for at, part in enumerate(parts):
        if counts[part.id] > 1:
            why = f"{part.id!r} stands more than once in the set"
            raise InvalidField(why, fields={f"documents[{at}].id": why})


def _in_scope(document: KnowledgeDocument, which: Narrowing) -> bool:
    if document.project_id is None:
        return which.project_id is None or which.include_global
    return document.project_id == which.project_id


def _newest_first(documents: Iterable[KnowledgeDocument]) -> list[KnowledgeDocument]:
    by_id = sorted(documents, key=lambda one: one.id)
    return sorted(by_id, key=lambda one: one.updated_at or _LONG_AGO, reverse=True)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _overlap(words: frozenset[str], document: KnowledgeDocument) -> float:
    """The share of the question's words that the document has, 0 to 1."""
    return len(words & _words(document.search_text)) / len(words) if words else 0.0


def _passage(document: KnowledgeDocument, score: float | None, query: Query, rank: int) -> Passage:
    legs: tuple[Leg, ...] = () if score is None else (("vector",) if query.mode == "vector" else ("keyword",))
    explain = {leg: LegScore(rank=rank, raw=score or 0.0, value=score or 0.0) for leg in legs}
    citation = Citation.model_validate(document, from_attributes=True)
    found = document.model_copy(update={"score": score}, deep=True)
    fields = {name: getattr(found, name) for name in KnowledgeDocument.model_fields}
    return Passage(**fields, citation=citation, scored_by=legs, explain=explain if query.explain and legs else None)
