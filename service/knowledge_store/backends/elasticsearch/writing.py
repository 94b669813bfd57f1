"""Single documents: upserts under the version that was seen, vectors that come later, deletions.

writes -> actions, each under its condition -> bulk -> results -> what is in doubt is read back -> outcomes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from datetime import UTC, datetime

import numpy as np

from knowledge_store.backends.elasticsearch.bulk import Action, Result, bulk
from knowledge_store.backends.elasticsearch.connection import Connection
from knowledge_store.backends.elasticsearch.fetching import look_up, mget
from knowledge_store.backends.elasticsearch.names import Version, short, single_key
from knowledge_store.backends.elasticsearch.records import Source, document_source, version_of, with_vector
from knowledge_store.backends.elasticsearch.schema import Names
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import Outcome, Write
from knowledge_store_sdk.vectors import Vector

_MISSING = (404, 409)


async def upsert(connection: Connection, names: Names, writes: Sequence[Write]) -> list[Outcome]:
    """As the seam says, without the refresh."""
    now = datetime.now(UTC)
    singles = [one for one in writes if not _is_member(one)]
    sources = [document_source(one, single_key(one.document.id, one.document.parent_id), now, None) for one in singles]
    actions = [_action(one, source) for one, source in zip(singles, sources, strict=True)]
    results = await bulk(connection, names.documents, actions)
    results = await _settled(connection, names, actions, sources, results)
    outcomes = {
        one.document.id: _outcome(one.document.id, result) for one, result in zip(singles, results, strict=True)
    }
    return [outcomes.get(one.document.id) or _part_of_a_set(one.document.id) for one in writes]


async def set_vectors(connection: Connection, names: Names, vectors: Mapping[str, tuple[str, Vector]]) -> int:
    """As the seam says. A version names its document, so that nothing has to be looked up."""
    actions = []
    for text, vector in vectors.values():
        version = Version.parse(text)
        given = {"doc": {"embedding": np.frombuffer(vector, dtype="<f4"), "pending": False}}
        actions.append(Action("update", version.stored_id, version[1:], given))
    results = await bulk(connection, names.documents, actions)
    _raise_if_busy(results)
    return sum(result.done for result in results)


async def delete(connection: Connection, names: Names, ids: Sequence[str], versions: Mapping[str, str] | None) -> int:
    """As the seam says, without the refresh."""
    if versions is None:
        found = await look_up(connection, names, ids)
        actions = [Action("delete", version_of(hit).stored_id) for hit in found.values()]
    else:
        parsed = [Version.parse(versions[id]) for id in ids]
        actions = [Action("delete", version.stored_id, version[1:]) for version in parsed]
    results = await bulk(connection, names.documents, actions)
    _raise_if_busy(results)
    # a deletion whose answer was lost finds nothing when it is sent again
    return sum(result.done or (result.in_doubt and result.status in _MISSING) for result in results)


def _is_member(write: Write) -> bool:
    return write.expect is not None and Version.parse(write.expect).is_member


def _action(write: Write, source: Source) -> Action:
    body = with_vector(source, write.vector)
    if write.expect is None:
        return Action("create", short(write.document.id), None, body)
    return Action("index", short(write.document.id), Version.parse(write.expect)[1:], body)


async def _settled(
    connection: Connection, names: Names, actions: Sequence[Action], sources: Sequence[Source], results: list[Result]
) -> list[Result]:
    """Reads back what may have been written without an answer: our own write must not be told as a conflict."""
    doubtful = [at for at, result in enumerate(results) if result.in_doubt and not result.done]
    if not doubtful:
        return results
    try:
        found = await mget(connection, [{"_index": names.documents, "_id": actions[at].stored_id} for at in doubtful])
    except BackendUnavailable as error:
        unknown = Result(503, f"whether it was stored is not known: {error.detail}")
        return [unknown if at in doubtful else result for at, result in enumerate(results)]
    ours = {at for at, hit in zip(doubtful, found, strict=True) if hit["found"] and hit["_source"] == sources[at]}
    return [changed(result, status=200) if at in ours else result for at, result in enumerate(results)]


def _outcome(id: str, result: Result) -> Outcome:
    if result.done:
        return Outcome(id, "stored")
    if result.status in _MISSING:
        return Outcome(id, "conflict", "it is no longer as it was seen")
    return Outcome(id, "failed", result.reason or f"refused with status {result.status}", result.busy)


def _part_of_a_set(id: str) -> Outcome:
    return Outcome(id, "failed", "it was written as a part of a set, and changes with that set only")


def _raise_if_busy(results: Sequence[Result]) -> None:
    busy = [result for result in results if result.busy]
    if busy:
        raise BackendUnavailable(
            f"{len(busy)} of {len(results)} changes were not made: {busy[0].reason}", retry_after_s=1
        )
