"""Maximal marginal relevance."""

from __future__ import annotations

from knowledge_store.query.diversity import diversify
from knowledge_store.query.fusion import Hit, Scoring
from knowledge_store_sdk.vectors import pack


def test_a_near_duplicate_gives_way_to_another_aspect() -> None:
    hits = [Hit("a", 0.9), Hit("copy of a", 0.89), Hit("b", 0.7)]
    vectors = {"a": pack([1, 0]), "copy of a": pack([1, 0.01]), "b": pack([0, 1])}
    assert [hit.key for hit in diversify(hits, vectors, 2, Scoring())] == ["a", "b"]


def test_all_hits_are_returned_where_fewer_than_wanted_were_found() -> None:
    hits = [Hit("a", 0.9), Hit("b", 0.7)]
    assert {hit.key for hit in diversify(hits, {}, 10, Scoring())} == {"a", "b"}
    assert diversify([], {}, 10, Scoring()) == []
