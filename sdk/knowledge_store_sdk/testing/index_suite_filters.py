"""Filters: each part of one, in each leg, in lists and in counts."""

from __future__ import annotations

import zlib
from dataclasses import replace as changed
from datetime import timedelta
from typing import Any

import pytest

from knowledge_store_sdk.protocols import Filter, KnowledgeIndex, Scope
from knowledge_store_sdk.tags import parse_tags
from knowledge_store_sdk.testing.index_cases import (
    ALL,
    NOW,
    READER,
    IndexRules,
    axis,
    find,
    scanned,
    stored,
    write,
)

_HOUR = timedelta(hours=1)

# What sets the eight apart, what the two have instead, and the filter that wants only the two.
NARROWINGS: dict[str, tuple[dict[str, Any], dict[str, Any], Filter]] = {
    "tags": ({"tags": ("blue",)}, {"tags": ("red",)}, changed(READER, tags=parse_tags("red"))),
    "sources": ({"source": "wiki"}, {"source": "hr"}, changed(READER, sources=frozenset({"hr"}))),
    "parent_id": (
        {"metadata": {"parent_id": "p1"}},
        {"metadata": {"parent_id": "p2"}},
        changed(READER, parent_id="p2"),
    ),
    "live_at": ({"expires_at": NOW - _HOUR}, {"expires_at": NOW + _HOUR}, READER),
    "live_at, none given": ({"expires_at": NOW - _HOUR}, {}, READER),
    "expired_at": ({}, {"expires_at": NOW - _HOUR}, Filter(scope=Scope(), expired_at=NOW)),
    "no project": ({"project_id": "apollo"}, {}, READER),
    "a project alone": ({}, {"project_id": "apollo"}, changed(READER, scope=Scope("apollo", include_global=False))),
    "a project and the global ones": ({"project_id": "gemini"}, {}, changed(READER, scope=Scope("apollo"))),
    "seen_before": ({"seen_at": NOW}, {"seen_at": NOW - _HOUR}, changed(READER, seen_before=NOW)),
}


class FilterRules(IndexRules):
    """A filter binds every branch, before neighbours are chosen."""

    async def test_every_narrowing_binds_both_legs(self, store: KnowledgeIndex) -> None:
        """The eight are the nearest and have the words; only the filter keeps them out."""
        for name, (far, wanted, where) in NARROWINGS.items():
            prefix = name.replace(" ", "-").replace(",", "")
            word = f"zq{hash_of(name)}"
            eight = [write(f"{prefix}/far{n}", f"{word} kafka", vector=axis(0), **far) for n in range(8)]
            two = [write(f"{prefix}/near{n}", f"{word}x lunch", vector=axis(1), **wanted) for n in range(2)]
            await stored(store, *eight, *two)
            expected = {one.document.id for one in two}
            found = await find(store, word, axis(0), where, window=5)
            assert found.keyword_ids == set(), f"{name}: the keyword leg is not filtered"
            assert found.vector_ids == expected, f"{name}: the vector leg is not filtered, or after the choice"
            found = await find(store, f"{word} {word}x", axis(1), where, window=5)
            assert found.keyword_ids == expected, f"{name}: the keyword leg"
            assert {one.document.id for one in await scanned(store, where)} == expected, f"{name}: scan"
            assert await store.count(where) == 2, f"{name}: count"
            assert (await store.stats(where)).total == 2, f"{name}: stats"
            assert await store.delete([one.document.id for one in [*eight, *two]], refresh=True) == 10

    async def test_narrowings_combine(self, store: KnowledgeIndex) -> None:
        right: dict[str, Any] = {"tags": ("red",), "source": "hr", "expires_at": NOW + _HOUR, "project_id": "apollo"}
        wrong: list[dict[str, Any]] = [
            {"tags": ("blue",)},
            {"source": "wiki"},
            {"expires_at": NOW},
            {"project_id": "gemini"},
        ]
        await stored(
            store,
            write("right", "kafka", vector=axis(1), **right),
            *[write(f"wrong{n}", "kafka", **(right | one)) for n, one in enumerate(wrong)],
        )
        where = Filter(tags=parse_tags("red"), sources=frozenset({"hr"}), scope=Scope("apollo"), live_at=NOW)
        found = await find(store, "kafka", axis(0), where)
        assert (found.keyword_ids, found.vector_ids) == ({"right"}, {"right"})
        assert await store.count(where) == 1

    async def test_a_filter_that_nothing_matches_finds_nothing(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka", tags=("a",)))
        nothing: list[Filter] = [
            changed(READER, tags=parse_tags("none")),
            changed(READER, sources=frozenset({"none"})),
            changed(READER, sources=frozenset()),
            changed(READER, parent_id="none"),
            changed(READER, scope=Scope("none", include_global=False)),
        ]
        for where in nothing:
            found = await find(store, "kafka", axis(0), where)
            assert (found.keyword, found.vector) == ({}, {}), where
            assert await scanned(store, where) == []
            assert await store.count(where) == 0
            stats = await store.stats(where)
            assert (stats.total, stats.tags, stats.sources) == (0, {}, {})

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("a+b|c", {"D3", "D4", "D5", "D6"}),
            ("c|a+b", {"D3", "D4", "D5", "D6"}),
            ("c|b+a", {"D3", "D4", "D5", "D6"}),
            ("a|b+c", {"D1", "D4", "D5", "D6"}),
            ("b+c|a", {"D1", "D4", "D5", "D6"}),
            ("a+b+c", set()),
            ("a", {"D1", "D4", "D6"}),
            ("a+a", {"D1", "D4", "D6"}),
            (None, {"D1", "D2", "D3", "D4", "D5", "D6"}),
        ],
    )
    async def test_a_tag_expression_means_the_same_everywhere(
        self, store: KnowledgeIndex, expression: str | None, expected: set[str]
    ) -> None:
        tags = {"D1": "a", "D2": "b", "D3": "c", "D4": "ab", "D5": "bc", "D6": "ac"}
        await stored(store, *[write(id, "kafka", tags=tuple(letters)) for id, letters in tags.items()])
        where = changed(READER, tags=parse_tags(expression))
        found = await find(store, "kafka", axis(0), where)
        assert found.keyword_ids == expected
        assert found.vector_ids == expected
        assert {one.document.id for one in await scanned(store, where)} == expected
        assert await store.count(where) == len(expected)
        assert (await store.stats(where)).total == len(expected)

    async def test_tags_are_compared_exactly(self, store: KnowledgeIndex) -> None:
        tags = ["a", "A", "ab", "a.b", "a:b", "a-b", "a_b", "x" * 128, "x" * 127 + "y"]
        await stored(store, *[write(f"d{n}", "kafka", tags=(tag,)) for n, tag in enumerate(tags)])
        for n, tag in enumerate(tags):
            found = await find(store, "kafka", axis(0), changed(READER, tags=parse_tags(tag)))
            assert (found.keyword_ids, found.vector_ids) == ({f"d{n}"}, {f"d{n}"}), tag

    async def test_a_document_expires_at_the_exact_instant(self, store: KnowledgeIndex) -> None:
        await stored(store, write("short", "kafka", expires_at=NOW), write("endless", "kafka"))
        just_before = NOW - timedelta(milliseconds=1)
        for at, live in ((just_before, {"short", "endless"}), (NOW, {"endless"}), (NOW + _HOUR, {"endless"})):
            where = changed(READER, live_at=at)
            found = await find(store, "kafka", axis(0), where)
            assert (found.keyword_ids, found.vector_ids) == (live, live), at
            assert await store.count(where) == len(live)
            expired = Filter(expired_at=at)
            assert {one.document.id for one in await scanned(store, expired)} == {"short", "endless"} - live, at
        assert await store.get("short") is not None, "get reads an expired document too"

    async def test_an_expiry_is_an_instant_in_any_zone(self, store: KnowledgeIndex) -> None:
        await stored(
            store,
            write("east", "kafka", expires_at="2026-05-01T10:00:01+02:00"),
            write("west", "kafka", expires_at="2026-05-01T02:59:59-05:00"),
        )
        assert (await find(store, "kafka", axis(0))).vector_ids == {"east"}

    async def test_scopes_see_what_they_say(self, store: KnowledgeIndex) -> None:
        await stored(
            store, write("none", "kafka"), write("a", "kafka", project_id="a"), write("b", "kafka", project_id="b")
        )
        seen: list[tuple[Scope | None, set[str]]] = [
            (Scope(), {"none"}),
            (Scope("a"), {"none", "a"}),
            (Scope("a", include_global=False), {"a"}),
            (Scope("c"), {"none"}),
            (None, {"none", "a", "b"}),
        ]
        for scope, expected in seen:
            where = Filter(scope=scope, live_at=NOW)
            found = await find(store, "kafka", axis(0), where)
            assert (found.keyword_ids, found.vector_ids) == (expected, expected), scope
            assert await store.count(where) == len(expected), scope

    async def test_several_sources_are_joined_by_or(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(name, "kafka", source=name) for name in ("wiki", "hr", "git")])
        where = changed(READER, sources=frozenset({"wiki", "git"}))
        assert (await find(store, "kafka", axis(0), where)).vector_ids == {"wiki", "git"}
        assert (await store.stats(where)).sources == {"wiki": 1, "git": 1}

    async def test_pending_keeps_what_waits_for_its_vector(self, store: KnowledgeIndex) -> None:
        await stored(store, write("ready", "kafka"), write("waits", "kafka", vector=None))
        assert {one.document.id for one in await scanned(store, Filter(pending=True))} == {"waits"}
        assert {one.document.id for one in await scanned(store, Filter(pending=False))} == {"ready"}
        assert await store.count(Filter(pending=True)) == 1
        assert (await store.stats(ALL)).pending_vectors == 1


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    return zlib.crc32(text.encode())
