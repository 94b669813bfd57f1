"""The client: every operation of the store, with retries, limits and an optional cache.

    async with KnowledgeClient("http://knowledge.example:8080", api_key="…") as client:
        await client.upsert(KnowledgeDocument(id="alice", content="Alice is the CFO", tags=("employee",)))
        passages = await client.fetch("employee", "who is the CFO?")

What it asks goes through one `Wire`, a method a route; how a route is asked stands in `_http.py`.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypedDict, Unpack

from knowledge_store_sdk._batches import batches, merged, write_batch
from knowledge_store_sdk._checks import checked_id, checked_narrowing, checked_source, checked_time
from knowledge_store_sdk._http import HttpWire, Timeouts
from knowledge_store_sdk._payload import Payload, read_limits, read_payload, tighter
from knowledge_store_sdk._questions import limited, read_question
from knowledge_store_sdk._wire import Narrowing, ParentFields, Wire, encoded
from knowledge_store_sdk.cache import KnowledgeCache
from knowledge_store_sdk.errors import ConfigError, InternalError, InvalidField, InvalidRequest
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.models import (
    MAX_BATCH_QUERIES,
    BulkResult,
    DeleteResult,
    KnowledgeDocument,
    Mode,
    Parent,
    Passage,
    Query,
    QueryResult,
    ReplaceResult,
    Stats,
    Strategy,
    WriteResult,
)
from knowledge_store_sdk.tags import parse_tags

# within the class, `list` is its method
Passages: TypeAlias = list[Passage]
PassageLists: TypeAlias = list[list[Passage]]
QueryResults: TypeAlias = list[QueryResult]
_PAGE_DOCUMENTS: Final = 200  # up to 64 KiB of content each
_PAGE_PARENTS: Final = 1000


class ClientOptions(TypedDict, total=False):
    """What `KnowledgeClient` takes by name."""

    retrieval_limits: RetrievalLimits | Mapping[str, Any] | None
    cache: KnowledgeCache | None
    connect_timeout_s: float
    query_timeout_s: float
    write_timeout_s: float
    replace_timeout_s: float
    retries: int


class KnowledgeClient:
    """Talks to one Knowledge Store. Use it as a context manager, or call `close`; one event loop, any number of tasks.

    `url` is the service's address, with or without `/api/v1/knowledge`. A timeout covers a call with all of its
    attempts. Every call is repeated up to `retries` times where the service cannot be reached, or is too busy, after
    the wait that it asks for: every write is idempotent.

    Raises the errors of `knowledge_store_sdk.errors` and no others: what the service raised, by its code;
    BackendUnavailable where it cannot be reached or does not answer in time; InvalidField and InvalidTagExpression for
    arguments that it would refuse; ConfigError for an address or a key that cannot be used.

    `retrieval_limits` shrink every question that is asked through this client. The floor is for scored hits: a
    listing (an empty text with a tag filter) has no scores, and passes. `cache` keeps answers of `fetch`.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        retrieval_limits: RetrievalLimits | Mapping[str, Any] | None = None,
        *,
        cache: KnowledgeCache | None = None,
        connect_timeout_s: float = 3.0,
        query_timeout_s: float = 10.0,
        write_timeout_s: float = 120.0,
        replace_timeout_s: float = 600.0,
        retries: int = 3,
    ) -> None:
        timeouts = Timeouts(connect_timeout_s, query_timeout_s, write_timeout_s, replace_timeout_s)
        if min(connect_timeout_s, query_timeout_s, write_timeout_s, replace_timeout_s) <= 0 or retries < 0:
            raise ConfigError("timeouts are seconds above 0, and retries 0 or more")
        http = HttpWire(url, api_key, timeouts, retries)
        self._wire: Wire = http
        self._address = http.base
        self._limits = read_limits(retrieval_limits)
        self._cache, self._retries = cache, retries
        # what a key may see is its own: answers kept for it are for no other
        self._cache_scope = hashlib.sha256(f"{http.base}\0{api_key or ''}".encode()).hexdigest()
        self._payload: Payload | None = None
        self._shared = False

    @classmethod
    def for_analysis(
        cls, payload: object, *, environ: Mapping[str, str] | None = None, **options: Unpack[ClientOptions]
    ) -> Self:
        """The client of one analysis: KNOWLEDGE_URL and KNOWLEDGE_API_KEY say where, `payload` what about.

        `payload` is a mapping or an object with `text` or `body`, and `retrieval_limits` (`max_top_k`,
        `min_score_floor`). Raises ConfigError without KNOWLEDGE_URL, InvalidField for a payload of another shape.
        """
        environ = os.environ if environ is None else environ
        url = environ.get("KNOWLEDGE_URL")
        if not url:
            raise ConfigError("KNOWLEDGE_URL is not set; it is the address of the Knowledge Store")
        client = cls(url, environ.get("KNOWLEDGE_API_KEY") or None, **options)
        client._take(payload)
        return client

    def with_payload(self, payload: object) -> Self:
        """As `for_analysis`, on the connections of this client, which stay its own to close: for many analyses."""
        client = copy.copy(self)
        client._shared = True
        client._take(payload)
        return client

    def _take(self, payload: object) -> None:
        self._payload = read_payload(payload)
        self._limits = tighter(self._limits, self._payload.limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; may be called twice."""
        if not self._shared:
            await self._wire.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address!r})"

    # writing ----------------------------------------------------------------------------------------------------------

    async def upsert(self, document: KnowledgeDocument, refresh: bool = False) -> WriteResult:
        """Stores one document, in place of the one with its id. `refresh`: returns when questions can find it."""
        try:
            return await self._wire.upsert(encoded(document), refresh=refresh)
        finally:
            self._changed()

    async def bulk_upsert(
        self, documents: Iterable[KnowledgeDocument] | AsyncIterable[KnowledgeDocument], refresh: bool = False
    ) -> BulkResult:
        """Stores any number of documents, in requests of up to 1,000; one result each, in order.

        One bad document fails alone, with its reason. Where a whole request fails the error is raised, with earlier
        ones stored; the call can be repeated, and nothing doubles.
        """
        results: list[WriteResult] = []
        try:
            async with aclosing(batches(documents)) as each:
                async for batch in each:
                    results += await write_batch(self._wire, batch, refresh=refresh, retries=self._retries)
        finally:
            self._changed()
        return merged(results)

    async def replace(
        self,
        parent_id: str,
        documents: Iterable[KnowledgeDocument],
        *,
        uri: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        fingerprint: str | None = None,
        source: str | None = None,
        refresh: bool = False,
    ) -> ReplaceResult:
        """The documents become the whole set of this parent, at once; none: the parent goes.

        Raises Conflict with the ids that stand outside of this set already.
        """
        parent = ParentFields(uri, title, revision, fingerprint, source and checked_source(source))
        parts = [encoded(document) for document in documents]
        try:
            return await self._wire.replace(checked_id(parent_id, "parent_id"), parent, parts, refresh=refresh)
        finally:
            self._changed()

    async def sweep(
        self, source: str, not_seen_since: datetime, expect: int | None = None, *, refresh: bool = False
    ) -> DeleteResult:
        """Removes what this source has not written since: for a provider that has just pushed everything it has.

        Raises Conflict, and removes nothing, where `expect` is given and another number would go.
        """
        since = checked_time(not_seen_since, "not_seen_since")
        try:
            return await self._wire.sweep(checked_source(source), since, expect, refresh=refresh)
        finally:
            self._changed()

    async def delete(self, id: str, *, refresh: bool = False) -> DeleteResult:
        """Removes one document. Raises NotFound for an unknown id."""
        try:
            return await self._wire.delete(checked_id(id), refresh=refresh)
        finally:
            self._changed()

    async def delete_by_tags(
        self,
        tags: str,
        expect: int,
        *,
        project_id: str | None = None,
        include_global: bool = True,
        refresh: bool = False,
    ) -> DeleteResult:
        """Removes what a tag expression finds. Raises Conflict, and removes nothing, where that is not `expect`
        documents; an empty expression, which elsewhere is no filter, is refused."""
        if parse_tags(tags) is None:
            raise InvalidRequest("a tag expression is needed to delete by; an empty one would be everything")
        which = checked_narrowing(Narrowing(tags, project_id=project_id, include_global=include_global))
        try:
            return await self._wire.delete_matching(which, expect, refresh=refresh)
        finally:
            self._changed()

    def _changed(self) -> None:
        if self._cache is not None:
            self._cache.clear()

    # reading ----------------------------------------------------------------------------------------------------------

    async def get(self, id: str) -> KnowledgeDocument:
        """One document. Raises NotFound for an unknown id, and for one that has expired."""
        return await self._wire.get(checked_id(id))

    async def list(
        self,
        *,
        tags: str | None = None,
        source: str | None = None,
        parent_id: str | None = None,
        limit: int | None = None,
        project_id: str | None = None,
        include_global: bool = True,
    ) -> AsyncIterator[KnowledgeDocument]:
        """Documents, newest first, at most `limit`; pages are asked for as the iteration goes on."""
        which = checked_narrowing(Narrowing(tags, source, parent_id, project_id, include_global))
        if limit is not None and limit < 1:
            raise InvalidField("limit: is 1 or more", fields={"limit": "is 1 or more"})
        left, cursor = limit, None
        while True:
            size = _PAGE_DOCUMENTS if left is None else min(left, _PAGE_DOCUMENTS)
            page = await self._wire.documents(which, cursor=cursor, limit=size)
            for document in page.documents:
                yield document
            left = None if left is None else left - len(page.documents)
            cursor = page.cursor
            if cursor is None or (left is not None and left <= 0):
                return

    async def parents(self, source: str) -> AsyncIterator[Parent]:
        """The parents whose sets this source wrote, by id: what a provider compares to know what has changed."""
        cursor: str | None = None
        while True:
            page = await self._wire.parents(checked_source(source), cursor=cursor, limit=_PAGE_PARENTS)
            for parent in page.parents:
                yield parent
            cursor = page.cursor
            if cursor is None:
                return

    async def stats(
        self, tags: str | None = None, *, project_id: str | None = None, include_global: bool = True
    ) -> Stats:
        """Counts: in total, per tag and per source."""
        which = Narrowing(tags, project_id=project_id, include_global=include_global)
        return await self._wire.stats(checked_narrowing(which))

    # asking -----------------------------------------------------------------------------------------------------------

    async def query(self, query: Query) -> QueryResult:
        """One question, with everything that is to be known about its answer."""
        return await self._wire.query(limited(query, self._limits))

    async def query_batch(self, queries: Iterable[Query]) -> QueryResults:
        """Any number of questions, 20 a request; their answers in order."""
        return await self._ask([limited(query, self._limits) for query in queries])

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: Strategy = "similarity",
        *,
        mode: Mode = "hybrid",
        project_id: str | None = None,
        include_global: bool = True,
        sources: Sequence[str] | None = None,
    ) -> Passages:
        """The passages that matter for a text, best first.

        Without `text` the client's payload asks, and a payload without text finds nothing; a client without a payload
        raises InvalidRequest. An empty `text` with `tags` lists newest first.
        """
        asked = {
            "tags": tags,
            "text": text,
            "top_k": top_k,
            "min_score": min_score,
            "strategy": strategy,
            "mode": mode,
            "project_id": project_id,
            "include_global": include_global,
            "sources": sources,
        }
        return (await self._fetch([read_question(asked, self._payload, self._limits)]))[0]

    async def fetch_many(self, questions: Iterable[Query | Mapping[str, Any]]) -> PassageLists:
        """`fetch` for each, in as few requests as they fit into: a Query, or a mapping of `fetch`'s arguments."""
        return await self._fetch(
            [read_question(one, self._payload, self._limits, f"questions[{at}]") for at, one in enumerate(questions)]
        )

    async def _fetch(self, queries: Sequence[Query | None]) -> PassageLists:
        generation = self._cache.generation if self._cache is not None else 0
        answers: dict[int, Passages] = {}
        asked: dict[int, Query] = {}
        for at, query in enumerate(queries):
            kept = [] if query is None else self._kept(query)
            if kept is not None:
                answers[at] = kept
            elif query is not None:
                asked[at] = query
        for at, result in zip(asked, await self._ask(list(asked.values())), strict=True):
            answers[at] = list(result.documents)
            if self._cache is not None and not result.degraded:
                self._cache.put(self._cache_key(asked[at]), result.documents, generation)
        return [answers[at] for at in range(len(queries))]

    async def _ask(self, queries: Sequence[Query]) -> QueryResults:
        if len(queries) == 1:
            return [await self._wire.query(queries[0])]
        results: list[QueryResult] = []
        for start in range(0, len(queries), MAX_BATCH_QUERIES):
            part = queries[start : start + MAX_BATCH_QUERIES]
            answered = await self._wire.query_batch(part)
            if len(answered) != len(part):
                raise InternalError(f"{len(answered)} answers came back for {len(part)} questions")
            results += answered
        return results

    def _kept(self, query: Query) -> Passages | None:
        return self._cache.get(self._cache_key(query)) if self._cache is not None else None

    def _cache_key(self, query: Query) -> str:
        return f"{self._cache_scope}:{query.model_dump_json()}"
