"""Reading documents by key, with the manifests that say which of them count, in one round trip:

keys -> one `_mget` of documents and manifests, beside one `_msearch` for exact cosines -> judged -> Fetched
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from knowledge_store.backends.elasticsearch.connection import Connection, encoded, together
from knowledge_store.backends.elasticsearch.errors import reason_of, refused
from knowledge_store.backends.elasticsearch.finding import cosine, exact_search, hits, msearch
from knowledge_store.backends.elasticsearch.names import Verdict, generation_of, parent_of, short, stored_id
from knowledge_store.backends.elasticsearch.records import (
    MANIFEST_FIELDS,
    Manifest,
    counts,
    stored_of,
    vector_of,
    version_of,
)
from knowledge_store.backends.elasticsearch.schema import Names
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import Fetched, FetchRequest
from knowledge_store_sdk.vectors import Vector

Hit = dict[str, Any]
SETTLE_ROUNDS: Final = 5
MAX_WITH_VECTORS: Final = 16  # keys: their vectors, 4 KiB of JSON each, cost less than a search of its own would


async def fetch(connection: Connection, names: Names, requests: Sequence[FetchRequest]) -> list[Fetched]:
    """As the seam says. The documents are read as they are now, not as the last refresh left them."""
    keys = list(dict.fromkeys(key for request in requests for key in request.keys))
    exact = [request for request in requests if request.exact and request.vector is not None]
    with_vectors = any(request.with_vectors for request in requests) or (bool(exact) and len(keys) <= MAX_WITH_VECTORS)
    reading = read(connection, names, keys, with_vectors=with_vectors)
    if with_vectors or not exact:
        (found, known), cosines = await reading, None
    else:
        (found, known), cosines = await together(reading, _measured(connection, names, requests))
    # Documents and manifests are not read at one instant. Where a member of the current set is not there, the set may
    # have been replaced in between: the manifest, read again, tells that from a member that was deleted alone.
    doubtful = {parent for key in keys if key not in found and (parent := _current_parent(key, known)) is not None}
    if doubtful:
        known = {name: one for name, one in known.items() if name not in doubtful}
        known |= await manifests(connection, names, doubtful)
    return [
        _fetched(request, found, known, None if cosines is None else cosines[at]) for at, request in enumerate(requests)
    ]


async def _measured(connection: Connection, names: Names, requests: Sequence[FetchRequest]) -> list[dict[str, float]]:
    """The exact cosines that each request asks for, by key, in one search each."""
    searches = [
        exact_search(request.vector, [stored_id(key) for key in request.exact])
        for request in requests
        if request.exact and request.vector is not None
    ]
    answers = iter(await msearch(connection, names.documents, searches))
    return [
        {key: cosine(score) for key, score in hits(next(answers))}
        if request.exact and request.vector is not None
        else {}
        for request in requests
    ]


def _current_parent(key: str, known: Mapping[str, Manifest]) -> str | None:
    """The parent of a member whose generation is the current one."""
    parent, generation = parent_of(key), generation_of(key)
    current = parent is not None and generation is not None and parent in known
    return parent if current and parent is not None and known[parent].generation == generation else None


def _fetched(
    request: FetchRequest,
    found: Mapping[str, Hit],
    known: Mapping[str, Manifest],
    cosines: Mapping[str, float] | None,
) -> Fetched:
    """`cosines` None: they are taken from the vectors that were read."""
    current = {key: hit for key in request.keys if (hit := found.get(key)) and counts(key, version_of(hit), known)}
    vectors = {key: vector for key, hit in current.items() if (vector := vector_of(hit["_source"])) is not None}
    if cosines is None:
        cosines = _dots(request, vectors)
    return Fetched(
        found={key: stored_of(hit) for key, hit in current.items()},
        cosines={key: one for key, one in cosines.items() if key in current},
        vectors=vectors if request.with_vectors else {},
        superseded=frozenset(
            name for key in request.keys if key not in current for name in _superseded(key, found, known)
        ),
    )


def _dots(request: FetchRequest, vectors: Mapping[str, Vector]) -> dict[str, float]:
    if request.vector is None:
        return {}
    asked = np.frombuffer(request.vector, dtype="<f4")
    return {key: float(np.frombuffer(vectors[key], dtype="<f4") @ asked) for key in request.exact if key in vectors}


def _superseded(key: str, found: Mapping[str, Hit], known: Mapping[str, Manifest]) -> list[str]:
    """What a dropped key tells: that its set is not current, and which one is. Nothing where it went alone."""
    generation, parent = generation_of(key), parent_of(key)
    if generation is None or parent is None:
        return [key] if key in found else []
    manifest = known.get(parent)
    if manifest is None:
        return [str(Verdict(generation, -1, False))]
    if manifest.generation == generation:
        return []
    old = str(Verdict(generation, manifest.version.seq_no, False))
    return (
        [old]
        if manifest.generation is None
        else [old, str(Verdict(manifest.generation, manifest.version.seq_no, True))]
    )


async def read(
    connection: Connection, names: Names, keys: Iterable[str], *, with_vectors: bool = False
) -> tuple[dict[str, Hit], dict[str, Manifest]]:
    """The documents of these keys, by key, and the manifests of all parents that the keys name, by name."""
    keys = list(keys)
    parents = list(dict.fromkeys(parent for key in keys if (parent := parent_of(key)) is not None))
    wanted: list[dict[str, Any]] = [{"_index": names.documents, "_id": stored_id(key)} for key in keys]
    wanted += manifest_reads(names, parents)
    found = await mget(connection, wanted, with_vectors=with_vectors)
    documents = {key: hit for key, hit in zip(keys, found, strict=False) if hit["found"]}
    return documents, manifests_of(parents, found[len(keys) :])


def manifest_reads(names: Names, parents: Iterable[str]) -> list[dict[str, Any]]:
    """What `mget` is asked for the manifests of these parents."""
    return [{"_index": names.parents, "_id": parent, "_source": MANIFEST_FIELDS} for parent in parents]


def manifests_of(parents: Iterable[str], found: Iterable[Hit]) -> dict[str, Manifest]:
    """The manifests that there are, by the parent's name."""
    return {parent: Manifest.of(hit) for parent, hit in zip(parents, found, strict=True) if hit["found"]}


async def manifests(connection: Connection, names: Names, parents: Iterable[str]) -> dict[str, Manifest]:
    """The manifests of these parents, by name."""
    parents = list(dict.fromkeys(parents))
    return manifests_of(parents, await mget(connection, manifest_reads(names, parents)))


async def mget(connection: Connection, wanted: Sequence[dict[str, Any]], *, with_vectors: bool = False) -> list[Hit]:
    """One answer for each, in order, as it is now; raises where a shard could not say."""
    if not wanted:
        return []
    path = "/_mget?_source_exclude_vectors=false" if with_vectors else "/_mget"
    reply = await connection.request("POST", path, encoded({"docs": wanted}))
    found: list[Hit] = reply.body["docs"]
    for hit in found:
        if "error" in hit:
            status = 404 if "index_not_found" in str(hit["error"].get("type")) else 503
            raise refused(status, reason_of(hit["error"]))
    return found


async def look_up(
    connection: Connection, names: Names, ids: Sequence[str], fields: Sequence[str] | None = None
) -> dict[str, Hit]:
    """The current stored version of each of these ids, as an answer to `_mget`; unknown ids are left out.

    `fields`: what is read of each, which includes `key` and `doc_id`; None: all of it.

    Members of a set are found by a search. What is current is always searchable: a set is committed only after the
    index was refreshed with its members. What the search finds may be old; it is read, judged, and where it is old
    searched for again until no manifest has changed meanwhile.
    """
    if not ids:
        return {}
    before: dict[str, Manifest] | None = None
    for _ in range(SETTLE_ROUNDS):
        found, known, whole = await _looked_up(connection, names, ids, fields)
        if whole or known == before:
            return found
        before = known
    raise BackendUnavailable("these documents are being replaced over and over", retry_after_s=1, ids=ids[:10])


async def _looked_up(
    connection: Connection, names: Names, ids: Sequence[str], fields: Sequence[str] | None
) -> tuple[dict[str, Hit], dict[str, Manifest], bool]:
    """What was found, by id; the manifests that it was judged by; and whether all of it was current."""
    part: dict[str, Any] = {"_index": names.documents, **({} if fields is None else {"_source": list(fields)})}
    singles, members = await together(
        mget(connection, [{**part, "_id": short(id)} for id in ids]),
        _member_keys(connection, names, ids),
    )
    found = {hit["_source"]["key"]: hit for hit in singles if hit["found"]}
    parents = list(dict.fromkeys(parent for key in [*found, *members] if (parent := parent_of(key)) is not None))
    wanted = [{**part, "_id": key} for key in members]
    answers = await mget(connection, wanted + manifest_reads(names, parents))
    found |= {key: hit for key, hit in zip(members, answers, strict=False) if hit["found"]}
    known = manifests_of(parents, answers[len(members) :])
    current = {key: hit for key, hit in found.items() if counts(key, version_of(hit), known)}
    whole = all(key in current for key in members)
    return {hit["_source"]["doc_id"]: hit for hit in current.values()}, known, whole


async def _member_keys(connection: Connection, names: Names, ids: Sequence[str]) -> list[str]:
    """The keys of all searchable members with these ids, current or not."""
    keys: list[str] = []
    after: str | None = None
    while True:
        search: dict[str, Any] = {
            "query": {"bool": {"filter": [{"terms": {"doc_id": list(ids)}}, {"exists": {"field": "generation"}}]}},
            "sort": [{"key": "asc"}],
            "size": 1000,
            "stored_fields": "_none_",
            "track_total_hits": False,
            **({} if after is None else {"search_after": [after]}),
        }
        [answer] = await msearch(connection, names.documents, [search])
        page = [hit["sort"][0] for hit in answer["hits"]["hits"]]
        keys += page
        if len(page) < 1000:
            return keys
        after = page[-1]
