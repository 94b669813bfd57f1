"""The score: absolute, bounded, and settled by exact cosines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_store.query.fusion import Scoring, contenders, fuse, ordered, settle
from knowledge_store_sdk.protocols import Candidate, Candidates

SCORING = Scoring(mu=0.5)
raw_bm25 = st.floats(0, 500, allow_nan=False)
cosine = st.floats(-1, 1, allow_nan=False)


@st.composite
def two_legs(draw: st.DrawFn) -> tuple[Candidates, dict[str, float]]:
    """Both legs over one corpus, the vector leg cut to a window, and every document's exact cosine."""
    keys = [f"k{n}" for n in range(draw(st.integers(1, 40)))]
    cosines = {key: draw(cosine) for key in keys}
    bm25 = {key: draw(raw_bm25) for key in draw(st.lists(st.sampled_from(keys), unique=True))}
    window = draw(st.integers(1, 40))
    by_cosine = sorted(keys, key=lambda key: -cosines[key])[:window]
    by_bm25 = sorted(bm25, key=lambda key: -bm25[key])
    keyword = [Candidate(key, bm25[key]) for key in by_bm25]
    return Candidates(keyword, [Candidate(key, cosines[key]) for key in by_cosine]), cosines


def test_half_of_the_keyword_value_stands_at_its_constant() -> None:
    assert SCORING.keyword_value(90.0) == 0.5
    assert SCORING.keyword_value(0.0) == 0.0


def test_unrelated_texts_have_no_vector_value_and_equal_ones_all_of_it() -> None:
    assert SCORING.vector_value(0.5) == 0.0
    assert SCORING.vector_value(-1.0) == 0.0
    assert SCORING.vector_value(1.0) == 1.0


def test_the_score_weighs_both_legs_as_designed() -> None:
    candidates = Candidates([Candidate("a", 90.0)], [Candidate("a", 0.75)])
    (hit,) = fuse(candidates, "hybrid", SCORING, "score")
    assert hit.score == pytest.approx(0.4 * 0.5 + 0.6 * 0.5)
    assert hit.scored_by == ["keyword", "vector"]
    assert hit.explain(SCORING)["vector"].model_dump() == {"rank": 1, "raw": 0.75, "value": 0.5}


def test_without_a_vector_leg_the_score_is_the_keyword_value() -> None:
    (hit,) = fuse(Candidates([Candidate("a", 30.0)], None), "hybrid", SCORING, "score")
    assert hit.score == pytest.approx(0.25)
    assert hit.settled


def test_a_hit_without_a_stored_vector_settles_at_its_keyword_value() -> None:
    hits = fuse(Candidates([Candidate("a", 30.0)], [Candidate("b", 0.9)]), "hybrid", SCORING, "score")
    settle(hits, {}, SCORING)
    assert next(hit.score for hit in hits if hit.key == "a") == pytest.approx(0.25)


def test_rrf_orders_by_rank_and_keeps_the_absolute_score() -> None:
    candidates = Candidates([Candidate("a", 10.0), Candidate("b", 9.0)], [Candidate("b", 0.6), Candidate("a", 0.55)])
    scoring = Scoring(mu=0.5, keyword_weight=0.9)
    assert [hit.key for hit in fuse(candidates, "hybrid", scoring, "rrf")] == ["a", "b"]
    by_score = {hit.key: hit.score for hit in fuse(candidates, "hybrid", scoring, "score")}
    assert {hit.key: hit.score for hit in fuse(candidates, "hybrid", scoring, "rrf")} == by_score


@given(two_legs(), st.integers(1, 10))
def test_the_best_hits_after_settling_are_among_the_contenders(
    legs: tuple[Candidates, dict[str, float]], k: int
) -> None:
    candidates, cosines = legs
    fetched = contenders(fuse(candidates, "hybrid", SCORING, "score"), k, SCORING, "score")
    everything = fuse(candidates, "hybrid", SCORING, "score")
    settle(everything, cosines, SCORING)
    best = ordered(everything, "score")[:k]
    if len(fetched) < 2 * k + 20:  # below the bound on how many are read at once
        floor = min(hit.score for hit in best)
        settle(fetched, cosines, SCORING)
        found = sorted((hit.score for hit in fetched), reverse=True)[: len(best)]
        assert found == pytest.approx([hit.score for hit in best])
        assert all(score >= floor - 1e-12 for score in found)


@given(two_legs())
def test_a_score_lies_between_0_and_1_and_never_rises_by_settling(legs: tuple[Candidates, dict[str, float]]) -> None:
    candidates, cosines = legs
    hits = fuse(candidates, "hybrid", SCORING, "score")
    before = {hit.key: hit.score for hit in hits}
    assert all(a.score >= b.score for a, b in pairwise(hits))
    settle(hits, cosines, SCORING)
    for hit in hits:
        assert 0.0 <= hit.score <= 1.0
        assert hit.score <= before[hit.key] + 1e-12


@given(raw_bm25, cosine, st.lists(st.tuples(raw_bm25, cosine), max_size=10))
def test_a_score_does_not_depend_on_what_else_was_found(
    bm25: float, cos: float, others: list[tuple[float, float]]
) -> None:
    mine = Candidates([Candidate("me", bm25)], [Candidate("me", cos)])
    keyword = [*mine.keyword, *(Candidate(f"o{n}", one[0]) for n, one in enumerate(others))]  # type: ignore[misc]
    vector = [*mine.vector, *(Candidate(f"o{n}", one[1]) for n, one in enumerate(others))]  # type: ignore[misc]
    crowd = Candidates(sorted(keyword, key=lambda one: -one.raw), sorted(vector, key=lambda one: -one.raw))
    (alone,) = fuse(mine, "hybrid", SCORING, "score")
    among = next(hit for hit in fuse(crowd, "hybrid", SCORING, "score") if hit.key == "me")
    assert among.score == alone.score
