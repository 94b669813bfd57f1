"""Lists, counts and statistics, of documents and of parents.

filter -> a page of hits, sorted -> judged by the manifests -> until the page is full -> Page
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from knowledge_store.backends.elasticsearch.connection import Connection, encoded
from knowledge_store.backends.elasticsearch.fetching import SETTLE_ROUNDS, manifests, mget
from knowledge_store.backends.elasticsearch.filters import clauses, micros
from knowledge_store.backends.elasticsearch.finding import MAX_HITS, msearch
from knowledge_store.backends.elasticsearch.names import parent_of
from knowledge_store.backends.elasticsearch.records import (
    Manifest,
    counts,
    parent_record,
    stored_of,
    vector_of,
    version_of,
)
from knowledge_store.backends.elasticsearch.schema import Names
from knowledge_store_sdk.errors import BackendUnavailable, InvalidRequest
from knowledge_store_sdk.models import Parent, Stats
from knowledge_store_sdk.protocols import Filter, Page
from knowledge_store_sdk.vectors import Vector

_TAGS: Final = 1000
_SOURCES: Final = 10_000
_HASHES: Final = 500  # their vectors are about 4 KiB of JSON each
_DOCUMENT_SORT: Final = [{"updated_us": "desc"}, {"doc_id": "asc"}, {"key": "asc"}]


async def scan(connection: Connection, names: Names, filter: Filter, limit: int, cursor: str | None) -> Page:
    """As the seam says. What is listed is as the last refresh left it, and belongs to sets that are current now."""
    after = None if cursor is None else _read_cursor("d", cursor, (int, str, str))
    size = min(limit + 1, MAX_HITS)
    kept: list[dict[str, Any]] = []
    while len(kept) <= limit:
        page, current = await _judged_page(connection, names, filter, size, after)
        kept += current
        if len(page) < size:
            break
        after = page[-1]["sort"]
    more = len(kept) > limit
    kept = kept[:limit]
    return Page([stored_of(hit) for hit in kept], _cursor("d", kept[-1]["sort"]) if more else None)


async def _judged_page(
    connection: Connection, names: Names, filter: Filter, size: int, after: list[Any] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A page of hits, and those of them that count.

    Where one does not, its set was replaced, perhaps after the search: then the page is searched for again, until no
    manifest has changed meanwhile, so that it holds the set that stands.
    """
    search: dict[str, Any] = {
        "query": {"bool": clauses(filter)},
        "sort": _DOCUMENT_SORT,
        "size": size,
        "seq_no_primary_term": True,
        "track_total_hits": False,
        **({} if after is None else {"search_after": after}),
    }
    before: dict[str, Manifest] | None = None
    for _ in range(SETTLE_ROUNDS):
        [answer] = await msearch(connection, names.documents, [search])
        page = answer["hits"]["hits"]
        keys = [hit["sort"][2] for hit in page]
        known = await manifests(connection, names, [parent for key in keys if (parent := parent_of(key)) is not None])
        current = [hit for hit, key in zip(page, keys, strict=True) if counts(key, version_of(hit), known)]
        if len(current) == len(page) or known == before:
            return page, current
        before = known
    raise BackendUnavailable("the documents listed are being replaced over and over", retry_after_s=1)


async def count(connection: Connection, names: Names, filter: Filter) -> int:
    """As the seam says."""
    search = {"query": {"bool": clauses(filter)}, "size": 0, "track_total_hits": True}
    [answer] = await msearch(connection, names.documents, [search])
    return int(answer["hits"]["total"]["value"])


async def stats(connection: Connection, names: Names, filter: Filter) -> Stats:
    """As the seam says."""
    search = {
        "query": {"bool": clauses(filter)},
        "size": 0,
        "track_total_hits": True,
        "aggs": {
            "tags": {"terms": {"field": "tags", "size": _TAGS}},
            "sources": {"terms": {"field": "source", "size": _SOURCES}},
            "pending": {"filter": {"term": {"pending": True}}},
        },
    }
    [answer] = await msearch(connection, names.documents, [search])
    found = answer["aggregations"]
    return Stats(
        total=answer["hits"]["total"]["value"],
        pending_vectors=found["pending"]["doc_count"],
        tags={one["key"]: one["doc_count"] for one in found["tags"]["buckets"]},
        sources={one["key"]: one["doc_count"] for one in found["sources"]["buckets"]},
    )


async def vectors(connection: Connection, names: Names, text_hashes: Sequence[str]) -> dict[str, Vector]:
    """As the seam says: one document for each hash, whether its set is current or not, since its text is the same."""
    distinct = list(dict.fromkeys(text_hashes))
    searches = [
        {
            "query": {"bool": {"filter": [{"terms": {"text_hash": part}}, {"term": {"pending": False}}]}},
            "collapse": {"field": "text_hash"},
            "size": len(part),
            "_source": {"includes": ["text_hash", "embedding"], "exclude_vectors": False},
            "track_total_hits": False,
        }
        for part in (distinct[start : start + _HASHES] for start in range(0, len(distinct), _HASHES))
    ]
    sources = [
        hit["_source"]
        for answer in await msearch(connection, names.documents, searches)
        for hit in answer["hits"]["hits"]
    ]
    return {source["text_hash"]: vector for source in sources if (vector := vector_of(source)) is not None}


async def parent(connection: Connection, names: Names, name: str) -> Parent | None:
    """The parent of this name, as it is now."""
    [hit] = await mget(connection, [{"_index": names.parents, "_id": name}])
    if not hit["found"] or "generation" not in hit["_source"]:
        return None
    [record] = await _parents_of(connection, names, [hit["_source"]])
    return record


async def parents(
    connection: Connection, names: Names, source: str, limit: int, cursor: str | None, seen_before: datetime | None
) -> tuple[list[Parent], str | None]:
    """As the seam says."""
    bound: list[dict[str, Any]] = [{"term": {"source": source}}, {"exists": {"field": "generation"}}]
    if seen_before is not None:
        bound.append({"range": {"seen_us": {"lt": micros(seen_before)}}})
    search: dict[str, Any] = {
        "query": {"bool": {"filter": bound}},
        "sort": [{"parent_id": "asc"}],
        "size": min(limit + 1, MAX_HITS),
        "track_total_hits": False,
        **({} if cursor is None else {"search_after": _read_cursor("p", cursor, (str,))}),
    }
    [answer] = await msearch(connection, names.parents, [search])
    found = answer["hits"]["hits"]
    page = found[:limit]
    more = len(found) > limit
    records = await _parents_of(connection, names, [hit["_source"] for hit in page])
    return records, _cursor("p", page[-1]["sort"]) if more else None


async def _parents_of(connection: Connection, names: Names, sources: Sequence[dict[str, Any]]) -> list[Parent]:
    """Parents with the number of their documents, which becomes less where members are deleted."""
    if not sources:
        return []
    generations = [source["generation"] for source in sources]
    search = {
        "query": {"bool": {"filter": [{"terms": {"generation": generations}}]}},
        "size": 0,
        "track_total_hits": False,
        "aggs": {"sets": {"terms": {"field": "generation", "size": len(generations)}}},
    }
    [answer] = await msearch(connection, names.documents, [search])
    sizes = {one["key"]: one["doc_count"] for one in answer["aggregations"]["sets"]["buckets"]}
    return [parent_record(source, sizes.get(source["generation"], 0)) for source in sources]


def _cursor(kind: str, after: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(encoded([kind, *after])).decode()


def _read_cursor(kind: str, cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    try:
        values = orjson.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        values = None
    if not isinstance(values, list) or values[:1] != [kind] or [type(one) for one in values[1:]] != list(kinds):
        raise InvalidRequest("the cursor is not one that this list gave out")
    return values[1:]
