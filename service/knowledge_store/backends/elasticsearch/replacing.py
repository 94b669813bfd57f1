"""Replacing a set. Its manifest is the commit: a chunk counts while its generation is the one that the manifest names.

    read manifest -> write chunks under a new generation -> refresh -> list what leaves -> commit manifest -> remove it

    stopped before the commit    the old set stands; the new chunks count for nothing, until `purge` removes them
    stopped after the commit     the new set stands; what left counts for nothing, until `purge` removes it

Refreshing before the commit makes that whoever reads the new manifest can find the new chunks. The commit is
conditional on the manifest that was read; of two writers at once the later one sees the other's set and replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from knowledge_store.backends.elasticsearch.bulk import Action, Result, bulk
from knowledge_store.backends.elasticsearch.connection import Connection, encoded
from knowledge_store.backends.elasticsearch.fetching import manifests
from knowledge_store.backends.elasticsearch.filters import micros
from knowledge_store.backends.elasticsearch.finding import msearch
from knowledge_store.backends.elasticsearch.names import Version, member_key, new_generation, short
from knowledge_store.backends.elasticsearch.records import (
    Manifest,
    Source,
    document_source,
    parent_source,
    version_of,
    with_vector,
)
from knowledge_store.backends.elasticsearch.schema import Names
from knowledge_store_sdk.errors import BackendUnavailable, Conflict, KnowledgeStoreError, Retryable
from knowledge_store_sdk.protocols import ParentWrite, Replaced, Write

_COMMITS: Final = 20
_PAGE: Final = 1000
COMMIT_WITHIN_S: Final = 300.0  # half of the age from which `purge` takes chunks without a manifest for leftovers


@dataclass(frozen=True, slots=True)
class Leaving:
    """A stored version that the replacement takes away. `stray`: it was written by itself."""

    id: str
    version: Version
    stray: bool


async def replace(
    connection: Connection,
    names: Names,
    refresh: Callable[[], Awaitable[None]],
    parent: ParentWrite,
    writes: Sequence[Write],
    seen_before: datetime | None,
) -> Replaced:
    """As the seam says, without the refresh at the end."""
    started, name = time.monotonic(), short(parent.id)
    manifest = (await manifests(connection, names, [name])).get(name)
    if not _may(manifest, seen_before):
        return Replaced(0, 0)
    generation = new_generation() if writes else None
    if generation is not None:
        await _write_chunks(connection, names, parent, generation, writes)
    await refresh()
    for _ in range(_COMMITS):
        if time.monotonic() - started > COMMIT_WITHIN_S:
            break
        leaving = await _leaving(connection, names, name, parent.source, manifest)
        strays = [str(one.version) for one in leaving if one.stray]
        record = parent_source(parent, generation, strays)
        if await _commit(connection, names, name, record, manifest):
            await _remove(connection, names, name, record, leaving)
            kept = {write.document.id for write in writes}
            return Replaced(len(writes), len({one.id for one in leaving} - kept))
        manifest = (await manifests(connection, names, [name])).get(name)
        if not _may(manifest, seen_before):
            return Replaced(0, 0)
    raise Retryable(
        f"{parent.id!r} is being replaced by others, or it took too long; replace it again", ids=[parent.id]
    )


def _may(manifest: Manifest | None, seen_before: datetime | None) -> bool:
    return seen_before is None or manifest is None or manifest.seen_us < micros(seen_before)


async def _write_chunks(
    connection: Connection, names: Names, parent: ParentWrite, generation: str, writes: Sequence[Write]
) -> None:
    """Nothing counts yet, and the names are new, so that sending a chunk twice does no harm."""
    now, name = datetime.now(UTC), short(parent.id)
    actions = []
    for write in writes:
        key = member_key(name, generation, write.document.id)
        source = with_vector(document_source(write, key, now, parent.id), write.vector)
        actions.append(Action("index", key, None, source))
    results = await bulk(connection, names.documents, actions)
    failed = [(write.document.id, result) for write, result in zip(writes, results, strict=True) if not result.done]
    if failed:
        await _forget(connection, names, [Action("delete", action.stored_id) for action in actions])
        raise _refusal(parent.id, failed)


def _refusal(parent_id: str, failed: Sequence[tuple[str, Result]]) -> KnowledgeStoreError:
    final = [(id, result) for id, result in failed if not result.busy]
    if final:
        reason = f"{len(final)} documents of {parent_id!r} were refused: {final[0][1].reason}"
        return Conflict(reason, ids=[id for id, _ in final])
    return BackendUnavailable(
        f"{len(failed)} documents of {parent_id!r} could not be written: {failed[0][1].reason}",
        retry_after_s=1,
        ids=[id for id, _ in failed],
    )


async def _leaving(
    connection: Connection, names: Names, name: str, source: str, manifest: Manifest | None
) -> list[Leaving]:
    """The members of the set that the manifest names, and the single documents of this parent and source."""
    strays = {"bool": {"filter": [{"term": {"parent": name}}, {"term": {"source": source}}], "must_not": [_MEMBERS]}}
    branches: list[dict[str, Any]] = [strays]
    if manifest is not None and manifest.generation is not None:
        branches.append({"term": {"generation": manifest.generation}})
    return await listed(connection, names, {"bool": {"should": branches, "minimum_should_match": 1}})


_MEMBERS: Final = {"exists": {"field": "generation"}}


async def listed(connection: Connection, names: Names, query: dict[str, Any]) -> list[Leaving]:
    """All that a query finds."""
    found: list[Leaving] = []
    after: list[Any] | None = None
    while True:
        search: dict[str, Any] = {
            "query": query,
            "sort": [{"key": "asc"}],
            "size": _PAGE,
            "_source": False,
            "docvalue_fields": ["doc_id"],
            "seq_no_primary_term": True,
            "track_total_hits": False,
        }
        if after is not None:
            search["search_after"] = after
        [answer] = await msearch(connection, names.documents, [search])
        page = answer["hits"]["hits"]
        for hit in page:
            version = version_of(hit)
            found.append(Leaving(hit["fields"]["doc_id"][0], version, not version.is_member))
        if len(page) < _PAGE:
            return found
        after = page[-1]["sort"]


async def _commit(connection: Connection, names: Names, name: str, record: Source, manifest: Manifest | None) -> bool:
    """Whether the record is the manifest now; False where another one came first.

    A lost answer is made up for by reading: the generation is this writer's own.
    """
    if "generation" not in record and "strays" not in record and manifest is None:
        return True
    if manifest is None:
        path = f"/{names.parents}/_create/{name}?require_alias=true"
    else:
        _, seq_no, primary_term = manifest.version
        path = f"/{names.parents}/_doc/{name}?if_seq_no={seq_no}&if_primary_term={primary_term}"
    gone = "generation" not in record and "strays" not in record
    method, body = ("DELETE", None) if gone else ("PUT", encoded(record))
    try:
        reply = await connection.request(method, path, body, send="once", expect=(404, 409))
    except BackendUnavailable:
        now = (await manifests(connection, names, [name])).get(name)
        if gone:
            return now is None
        if now is not None and now.generation is not None and now.generation == record.get("generation"):
            return True
        raise
    return reply.status < 300


async def _remove(connection: Connection, names: Names, name: str, record: Source, leaving: Sequence[Leaving]) -> None:
    """Takes away what no longer counts. The set is committed: what cannot be removed now is left to `purge`."""
    await _forget(connection, names, [removal(one) for one in leaving])
    if "generation" not in record and "strays" in record:
        try:
            await forget_manifest(connection, names, name)
        except KnowledgeStoreError:
            return


async def _forget(connection: Connection, names: Names, actions: Sequence[Action]) -> None:
    try:
        await bulk(connection, names.documents, actions)
    except KnowledgeStoreError:
        return  # what is left counts for nothing, and `purge` finds it


def removal(one: Leaving) -> Action:
    """Members are removed as they are; a document that was written by itself only in the version that left."""
    return Action("delete", one.version.stored_id, one.version[1:] if one.stray else None)


async def forget_manifest(connection: Connection, names: Names, name: str) -> None:
    """Removes the manifest of an empty set, once its strays are gone."""
    manifest = (await manifests(connection, names, [name])).get(name)
    if manifest is None or manifest.generation is not None:
        return
    _, seq_no, primary_term = manifest.version
    path = f"/{names.parents}/_doc/{name}?if_seq_no={seq_no}&if_primary_term={primary_term}"
    await connection.request("DELETE", path, send="once", expect=(404, 409))
