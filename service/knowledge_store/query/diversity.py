"""Maximal marginal relevance: Carbonell and Goldstein, "The use of MMR, diversity-based reranking" (SIGIR 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from knowledge_store.query.fusion import Hit, Scoring
from knowledge_store_sdk.vectors import Vector

RELEVANCE: Final = 0.7  # lambda of the paper: 1 is relevance alone


def diversify(hits: Sequence[Hit], vectors: Mapping[str, Vector], top_k: int, scoring: Scoring) -> list[Hit]:
    """The `top_k` that say most together, in the order in which they were chosen; the first is the most relevant.

    A hit without a vector is like no other.
    """
    if not hits:
        return []
    dims = next((len(vector) // 4 for vector in vectors.values()), 1)
    matrix = np.zeros((len(hits), dims), dtype=np.float32)
    for row, hit in enumerate(hits):
        if hit.key in vectors:
            matrix[row] = np.frombuffer(vectors[hit.key], dtype="<f4")
    likeness = np.clip((matrix @ matrix.T - scoring.mu) / (1.0 - scoring.mu), 0.0, 1.0)
    relevance = np.array([hit.score for hit in hits], dtype=np.float32)
    chosen: list[int] = []
    nearest = np.zeros(len(hits), dtype=np.float32)
    open_ = np.ones(len(hits), dtype=bool)
    while len(chosen) < min(top_k, len(hits)):
        worth = np.where(open_, RELEVANCE * relevance - (1 - RELEVANCE) * nearest, -np.inf)
        best = int(np.argmax(worth))
        chosen.append(best)
        open_[best] = False
        nearest = np.maximum(nearest, likeness[best])
    return [hits[row] for row in chosen]
