"""Removes what no current set holds: chunks of interrupted replacements, and strays that an interruption left.

generations and their age -> manifests -> those that are not current -> removed
manifests with strays     -> those versions, where they are still there -> removed
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from knowledge_store.backends.elasticsearch.bulk import Action, bulk
from knowledge_store.backends.elasticsearch.connection import Connection
from knowledge_store.backends.elasticsearch.fetching import manifests
from knowledge_store.backends.elasticsearch.filters import micros
from knowledge_store.backends.elasticsearch.finding import msearch
from knowledge_store.backends.elasticsearch.names import Version
from knowledge_store.backends.elasticsearch.replacing import forget_manifest, listed, removal
from knowledge_store.backends.elasticsearch.schema import Names

LEFTOVER_AFTER: Final = timedelta(minutes=10)
_PAGE: Final = 1000


async def purge(connection: Connection, names: Names, now: datetime | None = None) -> int:
    """As the seam says. Chunks younger than ten minutes may belong to a replacement under way, and stay."""
    before = micros((now or datetime.now(UTC)) - LEFTOVER_AFTER)
    removed = 0
    async for page in _generations(connection, names, before):
        known = await manifests(connection, names, {parent for parent, _ in page})
        old = [
            generation for parent, generation in page if parent not in known or known[parent].generation != generation
        ]
        removed += await _remove_generations(connection, names, old)
    async for found in _with_strays(connection, names):
        strays = [Version.parse(text) for hit in found for text in hit["_source"]["strays"]]
        removed += await _removed(connection, names, [Action("delete", one.stored_id, one[1:]) for one in strays])
        for hit in found:
            if "generation" not in hit["_source"]:
                await forget_manifest(connection, names, hit["_id"])
    return removed


async def _generations(connection: Connection, names: Names, before: int) -> AsyncIterator[list[tuple[str, str]]]:
    """All pairs of parent and generation that have a chunk written before that time, a page at a time."""
    after: dict[str, str] | None = None
    while True:
        sources = [{name: {"terms": {"field": name}}} for name in ("parent", "generation")]
        composite: dict[str, Any] = {"size": _PAGE, "sources": sources, **({"after": after} if after else {})}
        search = {
            "size": 0,
            "track_total_hits": False,
            "query": {
                "bool": {"filter": [{"exists": {"field": "generation"}}, {"range": {"written_us": {"lt": before}}}]}
            },
            "aggs": {"sets": {"composite": composite}},
        }
        [answer] = await msearch(connection, names.documents, [search])
        sets = answer["aggregations"]["sets"]
        page = [(one["key"]["parent"], one["key"]["generation"]) for one in sets["buckets"]]
        if page:
            yield page
        after = sets.get("after_key")
        if after is None:
            return


async def _with_strays(connection: Connection, names: Names) -> AsyncIterator[list[dict[str, Any]]]:
    after: list[Any] | None = None
    while True:
        search: dict[str, Any] = {
            "size": _PAGE,
            "track_total_hits": False,
            "query": {"exists": {"field": "strays"}},
            "sort": [{"parent_id": "asc"}],
            "_source": ["generation", "strays"],
            **({} if after is None else {"search_after": after}),
        }
        [answer] = await msearch(connection, names.parents, [search])
        page: list[dict[str, Any]] = answer["hits"]["hits"]
        if page:
            yield page
        if len(page) < _PAGE:
            return
        after = page[-1]["sort"]


async def _remove_generations(connection: Connection, names: Names, generations: list[str]) -> int:
    if not generations:
        return 0
    leftovers = await listed(connection, names, {"terms": {"generation": generations}})
    return await _removed(connection, names, [removal(one) for one in leftovers])


async def _removed(connection: Connection, names: Names, actions: Iterable[Action]) -> int:
    return sum(result.done for result in await bulk(connection, names.documents, list(actions)))
