"""What is read from the file by name: documents by id or row, vectors by text, parents by id."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import numpy as np

from knowledge_store.backends.embedded.rows import micros, stored_of, time_of
from knowledge_store_sdk.errors import InvalidRequest
from knowledge_store_sdk.models import Parent
from knowledge_store_sdk.protocols import Existing, Fetched, FetchRequest, Stored
from knowledge_store_sdk.vectors import Vector

_AT_ONCE: Final = 500  # parameters of one statement
_STORED: Final = "row, document, text_hash, member_of, vector IS NULL"
_PARENT: Final = (
    "SELECT id, source, uri, title, revision, fingerprint, seen_at, "
    "(SELECT count(*) FROM documents WHERE parent_id = parents.id AND member_of = parents.id) FROM parents "
)


def lookup(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Existing]:
    """What stands under these ids."""
    rows = _by(connection, "id, source, text_hash, row, member_of, project_id", "id", ids)
    return {
        id: Existing(id, source, text, str(row), member, project) for id, source, text, row, member, project in rows
    }


def get(connection: sqlite3.Connection, id: str) -> Stored | None:
    """The document of this id."""
    for row in _by(connection, _STORED, "id", [id]):
        return stored_of(*row)
    return None


def by_row(connection: sqlite3.Connection, rows: Iterable[int]) -> dict[int, Stored]:
    """The documents of those rows that still stand."""
    return {row[0]: stored_of(*row) for row in _by(connection, _STORED, "row", rows)}


def vectors_by_text(connection: sqlite3.Connection, text_hashes: Iterable[str]) -> dict[str, Vector]:
    """The vectors that were made of these texts."""
    found = _by(connection, "text_hash, vector", "text_hash", text_hashes)
    return {text_hash: vector for text_hash, vector in found if vector is not None}


def fetch(connection: sqlite3.Connection, request: FetchRequest) -> Fetched:
    """The rows asked for. One that has gone is named as superseded: a new search finds what stands in its place."""
    asked = {int(key): key for key in request.keys}
    found = {asked[row]: one for row, one in by_row(connection, asked).items()}
    exact = set(request.exact) & found.keys() if request.vector is not None else set()
    wanted = found.keys() if request.with_vectors else exact
    rows = _by(connection, "row, vector", "row", [int(key) for key in wanted])
    vectors = {asked[row]: vector for row, vector in rows if vector is not None}
    return Fetched(
        found=found,
        cosines={key: _cosine(vectors[key], request.vector) for key in exact & vectors.keys() if request.vector},
        vectors=vectors if request.with_vectors else {},
        superseded=frozenset(asked.values()) - found.keys(),
    )


def parent(connection: sqlite3.Connection, id: str) -> Parent | None:
    """The set written under this id."""
    found = connection.execute(_PARENT + "WHERE id = ?", (id,)).fetchone()
    return None if found is None else _parent_of(found)


def parents(
    connection: sqlite3.Connection, source: str, after: str, seen_before: datetime | None, limit: int
) -> list[Parent]:
    """The sets of a source whose ids come after this one, in the order of their ids."""
    before = 2**63 - 1 if seen_before is None else micros(seen_before)
    found = connection.execute(
        _PARENT + "WHERE source = ? AND id > ? AND seen_at < ? ORDER BY id LIMIT ?", (source, after, before, limit)
    )
    return [_parent_of(row) for row in found]


def cursor_after(*place: str | int) -> str:
    """A page's cursor: where the next one goes on."""
    return base64.urlsafe_b64encode(json.dumps(["embedded", *place]).encode()).decode()


def place_of(cursor: str, *kinds: type) -> list[Any]:
    """What a cursor was made of. Raises InvalidRequest for one that is not of this backend and of these kinds."""
    try:
        name, *place = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error):
        name, place = "", []
    if name != "embedded" or tuple(map(type, place)) != kinds:
        raise InvalidRequest("the cursor is none that this store gave out for such a list; start without one")
    return list(place)


def _by(connection: sqlite3.Connection, columns: str, key: str, values: Iterable[str | int]) -> Iterator[Any]:
    left = iter(values)
    while some := list(islice(left, _AT_ONCE)):
        marks = ", ".join("?" * len(some))
        yield from connection.execute(f"SELECT {columns} FROM documents WHERE {key} IN ({marks})", some)  # noqa: S608


def _cosine(one: Vector, other: Vector) -> float:
    return float(np.frombuffer(one, "<f4") @ np.frombuffer(other, "<f4"))


def _parent_of(row: Sequence[Any]) -> Parent:
    id, source, uri, title, revision, fingerprint, seen_at, documents = row
    return Parent(
        id=id,
        source=source,
        uri=uri,
        title=title,
        revision=revision,
        fingerprint=fingerprint,
        documents=documents,
        written_at=time_of(seen_at),
    )
