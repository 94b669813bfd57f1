"""The measures agree with trec_eval, question by question."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measures import Measure, mean, ndcg, ranked, recall, reciprocal_rank, steep_ndcg

MEASURES: dict[str, Measure] = {"ndcg_cut_10": ndcg, "recall_10": recall, "recip_rank": reciprocal_rank}
AT_OTHER_CUTS: dict[str, Measure] = {
    "ndcg_cut_1": lambda ranking, grades: ndcg(ranking, grades, 1),
    "ndcg_cut_100": lambda ranking, grades: ndcg(ranking, grades, 100),
    "recall_100": lambda ranking, grades: recall(ranking, grades, 100),
}
PRINTED = 1e-6  # the expected values of single questions have six decimals


@pytest.fixture(params=["adi", "cosqa", "cranfield"])
def collection(request: pytest.FixtureRequest, shared_data: Path) -> str:
    return str(shared_data / "ir" / "metric-check" / request.param)


def rankings(collection: str) -> dict[str, list[str]]:
    scores: dict[str, dict[str, float]] = {}
    for question, _, document, _, score, _ in _rows(f"{collection}.run"):
        scores.setdefault(question, {})[document] = float(score)
    return {question: ranked(found) for question, found in scores.items()}


def judgements(collection: str) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for question, _, document, grade in _rows(f"{collection}.qrels"):
        grades.setdefault(question, {})[document] = int(grade)
    return grades


def expected(collection: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(Path(f"{collection}.expected.json").read_text(encoding="utf-8"))
    return values


def _rows(file: str) -> list[list[str]]:
    with Path(file).open(encoding="utf-8") as lines:
        return [row for row in csv.reader(lines, delimiter=" ") if row]


@pytest.mark.parametrize("name", [*MEASURES, *AT_OTHER_CUTS])
def test_each_question_scores_as_trec_eval_says(collection: str, name: str) -> None:
    measure = (MEASURES | AT_OTHER_CUTS)[name]
    asked, grades = rankings(collection), judgements(collection)
    ours = {id: measure(asked[id], grades[id]) for id in asked}
    assert ours == pytest.approx({id: one[name] for id, one in expected(collection)["per_query"].items()}, abs=PRINTED)


@pytest.mark.parametrize("name", MEASURES)
def test_an_unanswered_question_counts_0_in_the_mean_over_all_judged_ones(collection: str, name: str) -> None:
    ours = mean(MEASURES[name], rankings(collection), judgements(collection))
    assert ours == pytest.approx(expected(collection)["mean_over_all_judged_queries"][name], abs=PRINTED)


@pytest.mark.parametrize("name", MEASURES)
def test_the_mean_over_the_answered_questions_leaves_the_others_out(collection: str, name: str) -> None:
    ours = mean(MEASURES[name], rankings(collection), judgements(collection), over_all=False)
    assert ours == pytest.approx(expected(collection)["mean_over_queries_in_run"][name], abs=PRINTED)


def test_of_equal_scores_the_greater_id_comes_first() -> None:
    assert ranked({"a": 1.0, "c": 1.0, "b": 1.0, "d": 0.5}) == ["c", "b", "a", "d"]


def test_a_question_without_relevant_documents_scores_0() -> None:
    assert [measure(["a"], {"a": 0}) for measure in MEASURES.values()] == [0.0, 0.0, 0.0]


def test_steep_gains_change_nothing_where_grades_are_0_or_1() -> None:
    grades = {"a": 1, "b": 0, "c": 1}
    assert steep_ndcg(["b", "c"], grades) == ndcg(["b", "c"], grades)


def test_steep_gains_count_a_higher_grade_for_more() -> None:
    grades = {"a": 3, "b": 1}
    assert steep_ndcg(["b", "a"], grades) == pytest.approx((1 + 7 / 1.5849625) / (7 + 1 / 1.5849625))
