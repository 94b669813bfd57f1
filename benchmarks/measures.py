"""The measures of a ranking, as trec_eval computes them.

Grades are 0 or more; what was not judged counts as 0. A question without any relevant document scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

Grades = Mapping[str, int]
Measure = Callable[[Sequence[str], Grades], float]


def ranked(scores: Mapping[str, float]) -> list[str]:
    """The ids by score, best first; of equal scores the greater id first."""
    return [id for _, id in sorted(((score, id) for id, score in scores.items()), reverse=True)]


def ndcg(ranking: Sequence[str], grades: Grades, cut: int = 10) -> float:
    """0 to 1: the gains (the grade itself) over log2(rank + 1), of the greatest sum that these grades allow."""
    ideal = _discounted(sorted(grades.values(), reverse=True)[:cut])
    return _discounted([grades.get(id, 0) for id in ranking[:cut]]) / ideal if ideal else 0.0


def steep_ndcg(ranking: Sequence[str], grades: Grades, cut: int = 10) -> float:
    """The same with gains of 2 ** grade - 1, as other tools have them; equal where all grades are 0 or 1."""
    return ndcg(ranking, {id: 2**grade - 1 for id, grade in grades.items()}, cut)


def recall(ranking: Sequence[str], grades: Grades, cut: int = 10) -> float:
    """0 to 1: the share of the relevant documents (grade 1 or more) that are among the first."""
    relevant = {id for id, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:cut])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranking: Sequence[str], grades: Grades) -> float:
    """0 to 1: one over the rank of the first relevant document; 0 where there is none."""
    return next((1 / rank for rank, id in enumerate(ranking, 1) if grades.get(id, 0) > 0), 0.0)


def mean(
    measure: Measure, rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Grades], *, over_all: bool = True
) -> float:
    """The mean over all judged questions, one without an answer counting 0; or over those that were answered."""
    asked = list(judgements) if over_all else [id for id in rankings if id in judgements]
    return fmean(measure(rankings.get(id, ()), judgements[id]) for id in asked) if asked else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
