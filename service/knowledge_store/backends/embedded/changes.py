"""What a transaction does to the file. Each function runs inside one, and returns what to tell and what has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from knowledge_store.backends.embedded.corpus import Change
from knowledge_store.backends.embedded.rows import Row, micros
from knowledge_store_sdk.protocols import Outcome, ParentWrite, Replaced
from knowledge_store_sdk.vectors import Vector

_COLUMNS: Final = Row.__slots__
_INSERT: Final = f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def upsert(
    connection: sqlite3.Connection, rows: Sequence[Row], expected: Mapping[str, str | None]
) -> tuple[list[Outcome], Change]:
    """Keeps each row whose id is as expected: of that version, or absent where none is."""
    outcomes, change = [], Change()
    for row in rows:
        have = _row_number(connection, row.id)
        if (None if have is None else str(have)) != expected[row.id]:
            outcomes.append(Outcome(row.id, "conflict", "the document is of another version by now"))
            continue
        _remove(connection, [] if have is None else [have], change)
        _add(connection, row, change)
        outcomes.append(Outcome(row.id, "stored"))
    return outcomes, change


def replace(
    connection: sqlite3.Connection, parent: ParentWrite, rows: Sequence[Row], seen_before: datetime | None
) -> tuple[Replaced, Change]:
    """The rows become the set of the parent; with `seen_before`, only where the parent was written before that."""
    change = Change()
    if seen_before is not None:
        seen = connection.execute("SELECT seen_at FROM parents WHERE id = ?", (parent.id,)).fetchone()
        if seen is not None and seen[0] >= micros(seen_before):
            return Replaced(0, 0), change
    old: dict[str, int] = dict(
        connection.execute(
            "SELECT id, row FROM documents "
            "WHERE parent_id = ? AND (member_of = ? OR (member_of IS NULL AND source = ?))",
            (parent.id, parent.id, parent.source),
        ).fetchall()
    )
    removed = len(old.keys() - {row.id for row in rows})
    for row in rows:
        have = _row_number(connection, row.id)
        if have is not None:
            old[row.id] = have
    _remove(connection, old.values(), change)
    for row in rows:
        _add(connection, row, change)
    connection.execute("DELETE FROM parents WHERE id = ?", (parent.id,))
    if rows:
        told = (parent.id, parent.source, parent.uri, parent.title, parent.revision, parent.fingerprint)
        connection.execute("INSERT INTO parents VALUES (?, ?, ?, ?, ?, ?, ?)", (*told, micros(parent.seen_at)))
    return Replaced(len(rows), removed), change


def delete(
    connection: sqlite3.Connection, ids: Iterable[str], versions: Mapping[str, str] | None
) -> tuple[int, Change]:
    """Removes the documents that are there, and of the given version where versions are given."""
    change = Change()
    for id in ids:
        have = _row_number(connection, id)
        if have is not None and (versions is None or versions.get(id) == str(have)):
            _remove(connection, [have], change)
    return len(change.removed), change


def set_vectors(
    connection: sqlite3.Connection, vectors: Mapping[str, tuple[str, Vector]], vector_bytes: int
) -> tuple[int, Change]:
    """Gives rows that wait, and are still of the given version, their vectors."""
    change = Change()
    for id, (version, vector) in vectors.items():
        have = _row_number(connection, id)
        if have is None or str(have) != version or len(vector) != vector_bytes:
            continue
        done = connection.execute("UPDATE documents SET vector = ? WHERE row = ? AND vector IS NULL", (vector, have))
        if done.rowcount:
            change.vectors[have] = vector
    return len(change.vectors), change


def _row_number(connection: sqlite3.Connection, id: str) -> int | None:
    found = connection.execute("SELECT row FROM documents WHERE id = ?", (id,)).fetchone()
    return None if found is None else int(found[0])


def _add(connection: sqlite3.Connection, row: Row, change: Change) -> None:
    number = connection.execute(_INSERT, [getattr(row, name) for name in _COLUMNS]).lastrowid
    assert number is not None
    change.added.append((number, row))


def _remove(connection: sqlite3.Connection, rows: Iterable[int], change: Change) -> None:
    for row in rows:
        connection.execute("DELETE FROM documents WHERE row = ?", (row,))
        change.removed.append(row)
