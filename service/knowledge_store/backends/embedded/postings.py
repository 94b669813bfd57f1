"""The keyword leg: which documents hold a term, and BM25 as Elasticsearch computes it.

    terms of the question -> the most telling of them -> postings -> BM25 by slot

Documents are numbered by slot. What was there at the start lies sorted in four arrays; what came later, in a pair of
growing arrays per term.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.uint16]

MAX_TERMS: Final = 128
_K1: Final = 1.2
_B: Final = 0.75


class Postings:
    """Term -> the slots that hold it, ascending, and how often each does. One thread adds, any may read."""

    def __init__(self, terms: NDArray[np.uint64], slots: Slots, counts: Counts) -> None:
        """Three arrays of one length: a term, the slot that holds it, how often; slots ascending."""
        order = np.argsort(terms, kind="stable")
        ordered = terms[order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
        self._ends = np.append(self._starts[1:], len(ordered))
        self._terms = ordered[self._starts]
        self._slots = slots[order]
        self._counts = counts[order]
        self._added: dict[int, tuple[array[int], array[int]]] = {}
        # An array cannot grow while a reader looks into its memory, so readers copy under this lock.
        self._lock = threading.Lock()

    def add(self, slot: int, terms: bytes, counts: bytes) -> None:
        """The terms of a new slot, which is larger than all before."""
        with self._lock:
            for term, count in zip(
                np.frombuffer(terms, "<u8").tolist(), np.frombuffer(counts, "<u2").tolist(), strict=True
            ):
                have = self._added.get(term)
                if have is None:
                    have = self._added[term] = (array("i"), array("H"))
                have[0].append(slot)
                have[1].append(count)

    def of(self, term: int, slots: int) -> tuple[Slots, Counts]:
        """Where the term stands among the first so many slots."""
        place = int(np.searchsorted(self._terms, np.uint64(term)))
        found, counts = self._slots[:0], self._counts[:0]
        if place < len(self._terms) and int(self._terms[place]) == term:
            part = slice(self._starts[place], self._ends[place])
            found, counts = self._slots[part], self._counts[part]
        with self._lock:
            if have := self._added.get(term):
                found = np.concatenate([found, np.frombuffer(have[0], np.int32)])
                counts = np.concatenate([counts, np.frombuffer(have[1], np.uint16)])
        end = int(np.searchsorted(found, slots))
        return found[:end], counts[:end]


@dataclass(frozen=True, slots=True)
class Lengths:
    """What BM25 needs to know of all documents: `norms` is float32 by slot, k1 * (1 - b + b * length / average)."""

    documents: int
    norms: NDArray[np.float32]

    @classmethod
    def of(cls, lengths: NDArray[np.int64], live: NDArray[np.bool_]) -> Lengths:
        """`lengths` in terms and `live`, both by slot. A document without a term is none to Lucene's statistics."""
        counted = lengths[live & (lengths > 0)]
        average = float(counted.mean()) if len(counted) else 1.0
        norms = _K1 * (1 - _B + _B * _as_lucene_keeps(lengths) / average)
        return cls(len(counted), norms.astype(np.float32))


def bm25(question: Counter[int], postings: Postings, lengths: Lengths, live: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The score of each slot, shape (slots,); 0 where no term stands. Slots that are not live may have any."""
    scores = np.zeros(len(live), dtype=np.float32)
    many = len(question) > MAX_TERMS
    found = []
    for term, asked in question.items():
        slots, counts = postings.of(term, len(live))
        have = int(np.count_nonzero(live[slots]))
        if have:
            # As `more_like_this` does with a text of many words: none counts twice, and the rare and repeated go first.
            telling = asked * (math.log((lengths.documents + 1) / (have + 1)) + 1)
            found.append((telling, 1 if many else asked, have, slots, counts))
    if many:
        found = sorted(found, key=lambda one: one[0], reverse=True)[:MAX_TERMS]
    for _, weight, have, slots, counts in found:
        idf = math.log(1 + (lengths.documents - have + 0.5) / (have + 0.5))
        frequency = counts.astype(np.float32)
        scores[slots] += np.float32((_K1 + 1) * weight * idf) * (frequency / (frequency + lengths.norms[slots]))
    return scores


def _as_lucene_keeps(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lengths as Lucene's norms have them, in one byte: exact below 40, then with four significant bits above 24."""
    above = np.maximum(lengths - 24, 0)
    bits = np.frexp(above.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0)
    return np.where(lengths < 24, lengths, 24 + ((above >> shift) << shift)).astype(np.float64)
