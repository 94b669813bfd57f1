"""Questions -> candidates, from one view of the corpus.

    filter -> mask -> keyword leg: BM25 -> the best of the window
                   -> vector leg: cosines -> the best of the window

Both legs are exact. A text or a vector that several questions of a call share is scored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from knowledge_store.backends.embedded.analysis import terms_of
from knowledge_store.backends.embedded.corpus import Corpus, Mask, View
from knowledge_store.backends.embedded.postings import bm25
from knowledge_store.backends.embedded.selection import passing
from knowledge_store_sdk.protocols import Candidate, Candidates, Question
from knowledge_store_sdk.vectors import Vector

# Where fewer than this part of the documents pass, their vectors are gathered; else all are multiplied in place.
_GATHERED_BELOW: Final = 0.25


def candidates_of(corpus: Corpus, questions: Sequence[Question]) -> list[Candidates]:
    """Each question's hits in each leg that it asks, best first. CPU: up to tens of milliseconds a question."""
    view = corpus.view

    @cache
    def keyword(text: str) -> NDArray[np.float32]:
        return bm25(terms_of(text), corpus.postings, view.lengths, view.live)

    @cache
    def cosines(vector: Vector) -> NDArray[np.float32]:
        return _product(view.matrix[: view.slots], vector)

    def answer(question: Question) -> Candidates:
        mask = passing(corpus, view, question.filter)
        by_text = by_vector = None
        if question.text is not None:
            scores = keyword(question.text)
            slots = np.flatnonzero(mask & (scores > 0))
            by_text = _best(slots, scores[slots], question.window, view)
        if question.vector is not None:
            by_vector = _best(*_near(view, mask, question.vector, cosines), question.window, view)
        return Candidates(keyword=by_text, vector=by_vector)

    return [answer(question) for question in questions]


def _near(
    view: View, mask: Mask, vector: Vector, cosines: Callable[[Vector], NDArray[np.float32]]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    slots = np.flatnonzero(mask & view.vectored)
    if len(slots) == 0:
        return slots, np.zeros(0, np.float32)
    if len(slots) < _GATHERED_BELOW * view.slots:
        return slots, _product(view.matrix[slots], vector)
    return slots, cosines(vector)[slots]


def _product(matrix: NDArray[np.float32], vector: Vector) -> NDArray[np.float32]:
    product: NDArray[np.float32] = matrix @ np.frombuffer(vector, "<f4")
    return product


def _best(slots: NDArray[np.int64], scores: NDArray[np.float32], window: int, view: View) -> list[Candidate]:
    if len(slots) > window:
        chosen = np.argpartition(scores, len(scores) - window)[len(scores) - window :]
        slots, scores = slots[chosen], scores[chosen]
    order = np.argsort(-scores, kind="stable")
    rows = view.columns["row"][slots[order]].tolist()
    return [Candidate(str(row), score) for row, score in zip(rows, scores[order].tolist(), strict=True)]
