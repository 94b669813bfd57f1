"""Turns two legs' candidates into one order: pure functions, no I/O.

    each leg's raw value -> an absolute value, 0 to 1 -> one score -> order -> which hits to fetch -> settled order

    score   = w * keyword + (1 - w) * vector
    keyword = bm25 / (bm25 + half)
    vector  = max(0, (cosine - mu) / (1 - mu))      mu: the cosine of two unrelated texts

Nothing depends on what else was found, so a score means the same for every question and `min_score` is a floor.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from knowledge_store_sdk.models import Fusion, Leg, LegScore, Mode
from knowledge_store_sdk.protocols import Candidates

_by_score: Final = attrgetter("score")
_by_rank: Final = attrgetter("rank_score")


@dataclass(frozen=True, slots=True)
class Scoring:
    """The constants of the score. `mu` is the embedder's."""

    keyword_weight: float = 0.4
    bm25_half: float = 90.0
    mu: float = 0.0
    rrf_k: int = 60

    def keyword_value(self, bm25: float) -> float:
        """0 to 1; half of it at `bm25_half`."""
        return bm25 / (bm25 + self.bm25_half) if bm25 > 0 else 0.0

    def vector_value(self, cosine: float) -> float:
        """0 to 1; 0 for what two unrelated texts get."""
        return min(1.0, max(0.0, (cosine - self.mu) / (1.0 - self.mu)))

    def blend(self, keyword: float, vector: float) -> float:
        """0 to 1."""
        return self.keyword_weight * keyword + (1.0 - self.keyword_weight) * vector


@dataclass(slots=True)
class Hit:
    """A candidate on its way. `score` is an upper bound until `settled`; `rank_score` orders under `rrf`."""

    key: str
    score: float = 0.0
    settled: bool = True
    rank_score: float = 0.0
    keyword_rank: int | None = None
    bm25: float = 0.0
    vector_rank: int | None = None
    cosine: float | None = None

    @property
    def scored_by(self) -> list[Leg]:
        legs: list[Leg] = []
        if self.keyword_rank is not None:
            legs.append("keyword")
        if self.cosine is not None:
            legs.append("vector")
        return legs

    def explain(self, scoring: Scoring) -> dict[Leg, LegScore]:
        """Rank, raw and absolute value of each leg that scored the hit."""
        legs: dict[Leg, LegScore] = {}
        if self.keyword_rank is not None:
            legs["keyword"] = LegScore(rank=self.keyword_rank, raw=self.bm25, value=scoring.keyword_value(self.bm25))
        if self.cosine is not None:
            legs["vector"] = LegScore(rank=self.vector_rank, raw=self.cosine, value=scoring.vector_value(self.cosine))
        return legs


def fuse(candidates: Candidates, mode: Mode, scoring: Scoring, fusion: Fusion) -> list[Hit]:
    """All candidates, best first.

    A hit that only the keyword leg found stands at its upper bound, made with the vector window's last cosine, or with
    no vector at all if that is more; `settle` puts it in its place once its exact cosine is known.
    """
    keyword, vector = candidates.keyword or (), candidates.vector or ()
    both = mode == "hybrid" and candidates.vector is not None
    last = scoring.vector_value(vector[-1].raw) if vector else 0.0
    weight, half, rrf_k = scoring.keyword_weight, scoring.bm25_half, scoring.rrf_k
    hits: dict[str, Hit] = {}
    for rank, one in enumerate(keyword, 1):
        bm25 = one.raw
        value = bm25 / (bm25 + half) if bm25 > 0 else 0.0
        bound = max(value, weight * value + (1.0 - weight) * last) if both else value
        hits[one.key] = Hit(one.key, bound, not both, weight / (rrf_k + rank), rank, bm25)
    for rank, one in enumerate(vector, 1):
        hit = hits.get(one.key)
        if hit is None:
            hits[one.key] = hit = Hit(one.key)
        hit.vector_rank, hit.cosine, hit.settled = rank, one.raw, True
        hit.rank_score += (1.0 - weight) / (rrf_k + rank)
        _score(hit, both, scoring)
    return ordered(list(hits.values()), fusion)


def settle(hits: Sequence[Hit], cosines: Mapping[str, float], scoring: Scoring) -> None:
    """Gives the unsettled hits their score: with their exact cosine, or by keyword where they have no vector."""
    for hit in hits:
        if not hit.settled:
            hit.cosine = cosines.get(hit.key)
            hit.settled = True
            _score(hit, True, scoring)


def contenders(hits: Sequence[Hit], top_k: int, scoring: Scoring, fusion: Fusion) -> list[Hit]:
    """The hits of which the best `top_k` will be: a prefix of the order, longer only where unsettled hits may sink."""
    if fusion == "rrf" or len(hits) <= top_k or all(hit.settled for hit in hits[:top_k]):
        return list(hits[:top_k])
    sure: list[float] = []  # a heap of the best values that as many hits have at the least
    for count, hit in enumerate(hits):
        if len(sure) == top_k and (hit.score < sure[0] or count >= 2 * top_k + 20):
            return list(hits[:count])
        (heapq.heappush if len(sure) < top_k else heapq.heappushpop)(sure, _at_least(hit, scoring))
    return list(hits)


def ordered(hits: list[Hit], fusion: Fusion) -> list[Hit]:
    """Best first; equal ones stay in the order in which the legs found them."""
    return sorted(hits, key=_by_rank if fusion == "rrf" else _by_score, reverse=True)


def _score(hit: Hit, both: bool, scoring: Scoring) -> None:
    keyword = scoring.keyword_value(hit.bm25)
    if hit.cosine is None:
        hit.score = keyword
    elif both:
        hit.score = scoring.blend(keyword, scoring.vector_value(hit.cosine))
    else:
        hit.score = scoring.vector_value(hit.cosine)


def _at_least(hit: Hit, scoring: Scoring) -> float:
    return hit.score if hit.settled else scoring.keyword_weight * scoring.keyword_value(hit.bm25)
