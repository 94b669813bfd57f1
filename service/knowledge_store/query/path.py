"""The query path, in one straight line:

    parse -> embed -> candidates -> fuse -> fetch -> cite

One question or twenty go the same way: one embedding per distinct text, one round trip for all candidates, one for all
documents. A further round trip is made only where a document was replaced or deleted in between.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import orjson

from knowledge_store.query.cache import Kept, QueryCache, WriteEpoch
from knowledge_store.query.citation import passage_json
from knowledge_store.query.fusion import Hit, Scoring
from knowledge_store.query.search import Search
from knowledge_store_sdk.errors import BackendUnavailable, InvalidField, InvalidRequest
from knowledge_store_sdk.models import Query
from knowledge_store_sdk.protocols import Filter, KnowledgeIndex, Scope, Stored
from knowledge_store_sdk.tags import parse_tags
from knowledge_store_sdk.vectors import Vector

_SEARCHES: Final = 20  # each further one only where a document was replaced between a search and its fetch
_FETCHES: Final = 4  # each further one only where documents were deleted in between


class QueryEmbedder(Protocol):
    """What the path needs of the embedder."""

    @property
    def mu(self) -> float | None: ...

    async def embed_query(self, text: str, budget_s: float) -> Vector:
        """The question's vector. Raises BackendUnavailable, with the reason, where there is none within the budget."""
        ...


@dataclass(slots=True)
class Answered:
    """One answer: `documents` is JSON, ready to be sent. `vector_missing` says why the vector leg was left out."""

    documents: bytes
    hits: int
    good_until: datetime | None = None
    cache_hit: bool = False
    vector_missing: str | None = None


class QueryPath:
    """Answers questions. Raises InvalidRequest for what cannot be asked, BackendUnavailable where no leg can answer."""

    def __init__(
        self,
        index: KnowledgeIndex,
        embedder: QueryEmbedder,
        cache: QueryCache,
        epoch: WriteEpoch,
        scoring: Callable[[float], Scoring],
        *,
        budget_s: float,
        window: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._index, self._embedder, self._cache, self._epoch = index, embedder, cache, epoch
        self._scoring, self._budget_s, self._window, self._clock = scoring, budget_s, window, clock

    async def answer(self, queries: Sequence[Query]) -> list[Answered]:
        """One answer a question, in order."""
        now, epoch = self._clock(), self._epoch.current()
        searches = [self._parse(query, now) for query in queries]
        keys = [f"{epoch}:{_fingerprint(query)}" for query in queries]
        answers = {at: kept for at, key in enumerate(keys) if (kept := self._from_cache(key, epoch, now))}
        asked = {at: search for at, search in enumerate(searches) if at not in answers}
        missing = await self._embed([search for search in asked.values() if search.query.text])
        await self._search([search for search in asked.values() if search.query.text])
        for at, search in asked.items():
            answers[at] = await self._cite(search, missing.get(search.query.text))
            if epoch is not None and not answers[at].vector_missing:
                self._cache.put(keys[at], Kept(answers[at].documents, answers[at].hits, answers[at].good_until))
        return [answers[at] for at in range(len(queries))]

    def _parse(self, query: Query, now: datetime) -> Search:
        tags = parse_tags(query.tags)
        text = query.text.replace("\0", " ").strip()
        if not text and tags is None:
            raise InvalidRequest("a question needs a text, or a tag filter to list by; this one has neither")
        sources = frozenset(query.sources) if query.sources else None
        scope = Scope(query.project_id, query.include_global)
        narrowed = Filter(tags=tags, sources=sources, scope=scope, live_at=now)
        return Search(query.model_copy(update={"text": text}), narrowed, self._window)

    async def _embed(self, searches: Sequence[Search]) -> dict[str, str]:
        """Gives each question its vector; returns, by text, why there is none."""
        texts = list(dict.fromkeys(one.query.text for one in searches if one.query.mode != "keyword"))
        if not texts:
            return {}
        made = await asyncio.gather(
            *(self._embedder.embed_query(text, self._budget_s) for text in texts), return_exceptions=True
        )
        vectors: dict[str, Vector] = {}
        missing: dict[str, str] = {}
        for text, one in zip(texts, made, strict=True):
            if isinstance(one, BackendUnavailable | InvalidField):
                missing[text] = one.detail
            elif isinstance(one, BaseException):
                raise one
            else:
                vectors[text] = one
        for search in searches:
            if search.query.mode == "vector" and search.query.text in missing:
                raise BackendUnavailable(
                    f"mode `vector` needs the embedder: {missing[search.query.text]}", retry_after_s=5
                )
            if search.query.mode != "keyword":
                search.vector = vectors.get(search.query.text)
        return missing

    async def _search(self, searches: Sequence[Search]) -> None:
        scoring = self._scoring(self._embedder.mu or 0.0)
        for _ in range(_SEARCHES):
            if not searches:
                return
            found = await self._index.candidates([search.question() for search in searches])
            for search, candidates in zip(searches, found, strict=True):
                search.take_candidates(candidates, scoring)
            await self._fetch(searches, scoring)
            searches = [search for search in searches if search.superseded]
        if searches:
            raise BackendUnavailable("what was asked for is being replaced faster than it can be read", retry_after_s=1)

    async def _fetch(self, searches: Sequence[Search], scoring: Scoring) -> None:
        for _ in range(_FETCHES):
            searches = [search for search in searches if not search.complete()]
            if not searches:
                return
            requests = [search.request(scoring) for search in searches]
            fetched = await self._index.fetch(requests)
            for search, request, one in zip(searches, requests, fetched, strict=True):
                search.take_fetched(request, one, scoring)

    async def _cite(self, search: Search, missing: str | None) -> Answered:
        scoring = self._scoring(self._embedder.mu or 0.0)
        if not search.query.text:
            page = await self._index.scan(search.filter, limit=search.query.top_k)
            return _answered([(None, stored) for stored in page.documents], scoring, False)
        answered = _answered(search.passages(scoring), scoring, search.query.explain)
        answered.vector_missing = missing if search.query.mode != "keyword" else None
        return answered

    def _from_cache(self, key: str, epoch: str | None, now: datetime) -> Answered | None:
        kept = self._cache.get(key, now) if epoch is not None else None
        return Answered(kept.documents, kept.hits, cache_hit=True) if kept else None


def _answered(passages: Sequence[tuple[Hit | None, Stored]], scoring: Scoring, explain: bool) -> Answered:
    documents = [passage_json(stored.document, hit, scoring, explain) for hit, stored in passages]
    good_until = min((at for _, one in passages if (at := one.document.expires_at)), default=None)
    return Answered(orjson.dumps(documents, option=orjson.OPT_UTC_Z), len(documents), good_until)


def _fingerprint(query: Query) -> str:
    return hashlib.sha256(query.model_dump_json().encode()).hexdigest()
