"""What a search needs of all documents, in memory: columns, tags, postings, and the matrix of vectors, by slot.

A document has a slot for as long as its row stands; a new row takes the next slot. The one writer fills slots that no
view knows of yet and then publishes a new view, so readers take a view and never wait. Slots that died are left out by
`live`, and go when the corpus is loaded again.
"""

from __future__ import annotations

import sqlite3
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge_store.backends.embedded.postings import Lengths, Postings
from knowledge_store.backends.embedded.rows import Row
from knowledge_store_sdk.vectors import Vector

Mask: TypeAlias = NDArray[np.bool_]

NEVER: Final = 2**63 - 1  # microseconds since 1970: the expiry of what does not expire
NO_PROJECT: Final = -1
_FIRST_CAPACITY: Final = 1024  # slots
_FEW_DEAD: Final = 1024  # slots
_LOADED_AT_ONCE: Final = 2_000  # rows
_COLUMNS: Final = {
    "row": np.int64,
    "updated_at": np.int64,
    "expires_at": np.int64,
    "seen_at": np.int64,
    "source": np.int32,
    "project": np.int32,
    "length": np.int64,
}


@dataclass(frozen=True)
class View:
    """The corpus as it was when this was published. `live` and `vectored` are bool, shape (slots,); the columns and
    the matrix, float32 of shape (more, dims) with rows of length 1, are longer: only the first slots count."""

    epoch: int
    live: Mask
    vectored: Mask
    columns: Mapping[str, NDArray[np.int64]]
    matrix: NDArray[np.float32]

    @property
    def slots(self) -> int:
        return len(self.live)

    def column(self, name: str) -> NDArray[np.int64]:
        return self.columns[name][: self.slots]

    @cached_property
    def lengths(self) -> Lengths:
        return Lengths.of(self.column("length"), self.live)


@dataclass(slots=True)
class Change:
    """What a transaction did to the rows; `vectors` are those of rows that were there already."""

    removed: list[int] = field(default_factory=list)
    added: list[tuple[int, Row]] = field(default_factory=list)
    vectors: dict[int, Vector] = field(default_factory=dict)


class Corpus:
    """One thread calls `apply`, after it has committed; any thread reads."""

    def __init__(self, dims: int, epoch: int) -> None:
        self._columns = {name: np.zeros(_FIRST_CAPACITY, kind) for name, kind in _COLUMNS.items()}
        self._matrix = np.zeros((_FIRST_CAPACITY, dims), np.float32)
        self._slots = 0
        self._slot_of: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self._by_tag: dict[str, array[int]] = {}
        self._by_parent: dict[str, array[int]] = {}
        # As in Postings: an array cannot grow while a reader looks into its memory.
        self._lock = threading.Lock()
        self.ids: list[str] = []
        self.postings = Postings(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.uint16))
        self.show(epoch, np.zeros(0, np.bool_), np.zeros(0, np.bool_))

    # reading

    def number_of(self, name: str) -> int | None:
        """The number that stands for a source or a project in the columns; None where no document has it."""
        return self._names.get(name)

    def names(self) -> list[str]:
        """Sources and projects, by their number."""
        return list(self._names)

    def tags(self) -> list[str]:
        return list(self._by_tag)

    def tagged(self, tag: str, view: View) -> NDArray[np.int32]:
        """The slots with a tag, ascending."""
        return self._listed(self._by_tag, tag, view)

    def parts_of(self, parent_id: str, view: View) -> NDArray[np.int32]:
        """The slots under a parent, ascending."""
        return self._listed(self._by_parent, parent_id, view)

    def _listed(self, lists: Mapping[str, array[int]], key: str, view: View) -> NDArray[np.int32]:
        with self._lock:
            slots = np.array(lists.get(key, ()), dtype=np.int32)
        return slots[: int(np.searchsorted(slots, view.slots))]

    @property
    def mostly_dead(self) -> bool:
        """Whether loading it again would free more than half."""
        dead = self._slots - len(self._slot_of)
        return dead > max(_FEW_DEAD, len(self._slot_of))

    # writing

    def bind(self, dims: int) -> None:
        """Makes room for vectors; there are none yet."""
        self._matrix = np.zeros((len(self._matrix), dims), np.float32)
        self.show(self.view.epoch, self.view.live, self.view.vectored)

    def apply(self, change: Change, epoch: int) -> None:
        """Makes a committed change visible, all of it at once."""
        first = self._slots
        live = np.ones(first + len(change.added), np.bool_)
        live[:first] = self.view.live
        vectored = np.zeros(len(live), np.bool_)
        vectored[:first] = self.view.vectored
        vectored[first:] = self.fill(change.added)
        for slot, (_, kept) in enumerate(change.added, first):
            self.postings.add(slot, kept.terms, kept.counts)
        for row, vector in change.vectors.items():
            slot = self._slot_of[row]
            self._matrix[slot] = np.frombuffer(vector, "<f4")
            vectored[slot] = True
        for row in change.removed:
            live[self._slot_of.pop(row)] = False
        self.show(epoch, live, vectored)

    def fill(self, rows: Sequence[tuple[int, Row]]) -> Mask:
        """Gives each row the next slot, which no view knows of yet; returns which have a vector."""
        first, end = self._slots, self._slots + len(rows)
        while end > len(self._matrix):
            self._grow()
        for name, kind in _COLUMNS.items():
            self._columns[name][first:end] = np.array(self._values(name, rows), kind)
        vectored = np.array([kept.vector is not None for _, kept in rows], np.bool_)
        vectors = np.frombuffer(b"".join(kept.vector for _, kept in rows if kept.vector is not None), "<f4")
        self._matrix[first:end][vectored] = vectors.reshape(-1, self._matrix.shape[1]) if vectored.any() else 0
        with self._lock:
            for slot, (_, kept) in enumerate(rows, first):
                for tag in kept.tags.split():
                    self._by_tag.setdefault(tag, array("i")).append(slot)
                if kept.parent_id is not None:
                    self._by_parent.setdefault(kept.parent_id, array("i")).append(slot)
        self.ids += [kept.id for _, kept in rows]
        self._slot_of |= {row: slot for slot, (row, _) in enumerate(rows, first)}
        self._slots = end
        return vectored

    def _values(self, column: str, rows: Sequence[tuple[int, Row]]) -> list[int]:
        match column:
            case "row":
                return [row for row, _ in rows]
            case "source":
                return [self._number(kept.source) for _, kept in rows]
            case "project":
                return [NO_PROJECT if kept.project_id is None else self._number(kept.project_id) for _, kept in rows]
            case "expires_at":
                return [NEVER if kept.expires_at is None else kept.expires_at for _, kept in rows]
            case _:
                return [getattr(kept, column) for _, kept in rows]

    def show(self, epoch: int, live: Mask, vectored: Mask) -> None:
        """Publishes the slots that are filled."""
        self.view = View(epoch, live, vectored, dict(self._columns), self._matrix)

    def _grow(self) -> None:
        """Twice the room, in new memory: views that were published keep the old."""
        more = len(self._matrix)
        self._columns = {name: np.concatenate([old, np.zeros(more, old.dtype)]) for name, old in self._columns.items()}
        matrix = np.zeros((2 * more, self._matrix.shape[1]), np.float32)
        matrix[:more] = self._matrix
        self._matrix = matrix

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))


def load(connection: sqlite3.Connection, dims: int, epoch: int) -> Corpus:
    """The corpus of a file, vectors of `dims` values, at this epoch."""
    corpus = Corpus(dims, epoch)
    vectored: list[Mask] = [np.zeros(0, np.bool_)]
    terms: list[bytes] = []
    counts: list[bytes] = []
    columns = ", ".join("''" if name == "document" else name for name in Row.__slots__)
    rows = connection.execute(f"SELECT row, {columns} FROM documents ORDER BY row")  # noqa: S608 the fields of Row
    while some := rows.fetchmany(_LOADED_AT_ONCE):
        kept = [(row, Row(*values)) for row, *values in some]
        vectored.append(corpus.fill(kept))
        terms += [one.terms for _, one in kept]
        counts += [one.counts for _, one in kept]
    sizes = np.fromiter((len(one) // 2 for one in counts), np.int64, len(counts))
    corpus.postings = Postings(
        np.frombuffer(b"".join(terms), "<u8"),
        np.repeat(np.arange(len(counts), dtype=np.int32), sizes),
        np.frombuffer(b"".join(counts), "<u2"),
    )
    corpus.show(epoch, np.ones(len(counts), np.bool_), np.concatenate(vectored))
    return corpus
