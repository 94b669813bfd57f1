"""Keeping: everything comes back as it went in, in lists too, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from knowledge_store_sdk.errors import IdentityMismatch, InvalidRequest
from knowledge_store_sdk.locators import Box, CodeLocator, PdfLocator, TextLocator, TicketLocator, WebLocator
from knowledge_store_sdk.protocols import Filter, KnowledgeIndex, Scope
from knowledge_store_sdk.tags import parse_tags
from knowledge_store_sdk.testing.index_cases import (
    ALL,
    IDENTITY,
    NOW,
    READER,
    IndexRules,
    axis,
    find,
    parent_write,
    scanned,
    stored,
    write,
)

_LONG = "d/ä#%" * 409

IDS = [
    "a", "A", "a ", " a", "a/b", "a//b", "/a", "../a", "a#b", "a%2Fb", "a?b=c&d", "stats", "_id", "_doc", ".", "..",
    "é", "e\u0301", "ﬁ", "fi", "\u212b", "å", "ß", "SS", "ss", "İ", "i", "\N{FAMILY}", "👩\u200d👩\u200d👧", "👩",
    "\u202eabc", "tab\tnew\nline",
    "'; DROP TABLE documents; --", '"', "\\", "*", "a*", _LONG + "1", _LONG + "2",
    "x" * 2048, "x" * 2047 + "y", "x" * 2047, "👩" * 2048, "👩" * 2047,
]  # fmt: skip

CONTENTS = {
    "one byte": "x",
    "64 KiB": ("kafka isr shrink " * 4000)[: 64 * 1024],
    "64 KiB of one word": "w" * (64 * 1024),
    "blank space": " \n\t ",
    "kept blanks": "  leading\n\n\n and trailing \r\n",
    "control characters": "".join(chr(n) for n in range(1, 32)) + "\x7f\x80\x9f text",
    "right to left": "שלום עולם — مرحبا بالعالم \u202eabc\u202c",
    "emoji": "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 👍🏽 🇩🇪 1️⃣",
    "normalisation": "é e\u0301 ﬁ \u212b å",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "markup": "<b>&amp; \\u0041 \\n %s {} ${x} \ufeff\ufffd",
    "beyond the basic plane": "\U0001d518\U0001d52b\U0001d526 𠜎𠜱 \U0010ffff\uffff",
}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"leaf": [1, [2, [3]]]}
    for _ in range(levels - 4):
        value = {"in": value}
    return value


METADATA: dict[str, dict[str, Any]] = {
    "empty": {},
    "50 deep": nested(50),
    "10,000 keys": {f"key {n}": n for n in range(10_000)},
    "hostile keys": {"": 1, ".": 2, "a.b": 3, " ": 4, "a..b": 5, ".a": 6, "a.": 7, "_id": 8, "$x": 9, "a": {"b": 10}},
    "numbers": {"n": [0, -1, 999_999_999_999_999, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, 1e300, -0.5, 1.0, 1e-7]},
    "kinds": {"null": None, "true": True, "false": False, "text": "", "list": [], "object": {}, "all": [1, "", {}]},
    "other kinds": {"null": 1, "true": "yes", "false": 0.0, "text": {"a": 1}, "list": "x", "object": [1], "n": "text"},
    "dates and ids in texts": {"at": "2026-02-30", "n": "007", "ip": "300.1.1.1", "text": "x" * 40_000},
    "reserved words": {"tags": 7, "source": {"x": 1}, "id": None, "content": [], "score": "high", "vector": "none"},
    "characters": {"rtl": "שלום", "emoji 👩\u200d👧": "👍🏽", "controls": "\x01\x1f\x7f", "é": "e\u0301"},
}  # fmt: skip


class KeepingRules(IndexRules):
    """Nothing is cut, mapped, folded or forgotten."""

    async def test_ids_are_compared_exactly(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(id, f"kafka number{n}") for n, id in enumerate(IDS)])
        assert await store.count(ALL) == len(IDS)
        assert set(await store.lookup(IDS)) == set(IDS)
        for n, id in enumerate(IDS):
            kept = await store.get(id)
            assert kept is not None, ascii(id)
            assert (kept.document.id, kept.document.content) == (id, f"kafka number{n}")
        assert (await find(store, "kafka", axis(0))).keyword_ids == set(IDS)
        assert {one.document.id for one in await scanned(store)} == set(IDS)
        for n, id in enumerate(IDS):
            assert await store.delete([id]) == 1, ascii(id)
            assert await store.get(id) is None
            assert len(await store.lookup(IDS)) == len(IDS) - n - 1

    async def test_parent_ids_are_compared_exactly(self, store: KnowledgeIndex) -> None:
        parents = ["p", "P", "p ", "é", "e\u0301", "x" * 2048, "x" * 2047 + "y", "a/b#c", "👩" * 2048]
        for n, id in enumerate(parents):
            await store.replace(parent_write(id), [write(f"m{n}", "kafka")], refresh=True)
        for n, id in enumerate(parents):
            where = Filter(parent_id=id)
            assert [one.document.id for one in await scanned(store, where)] == [f"m{n}"], ascii(id)
            assert (await find(store, "kafka", axis(0), where)).vector_ids == {f"m{n}"}, ascii(id)
        listed, _ = await store.parents("suite", limit=100)
        assert [one.id for one in listed] == sorted(parents)

    async def test_content_comes_back_verbatim(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(name, content) for name, content in CONTENTS.items()])
        found = await find(store, None, axis(0))
        listed = {one.document.id: one.document.content for one in await scanned(store)}
        for name, content in CONTENTS.items():
            kept = await store.get(name)
            assert kept is not None
            assert kept.document.content == content, name
            assert found.documents[name].document.content == content, name
        assert listed == CONTENTS

    async def test_metadata_comes_back_as_it_is(self, store: KnowledgeIndex) -> None:
        """Whatever the same keys held before: metadata is never mapped."""
        for name, metadata in METADATA.items():
            await stored(store, write(name, "kafka", metadata=metadata))
        found = await find(store, "kafka", axis(0))
        listed = {one.document.id: one.document.metadata for one in await scanned(store)}
        for name, metadata in METADATA.items():
            kept = await store.get(name)
            assert kept is not None
            for read in (kept.document.metadata, found.documents[name].document.metadata, listed[name]):
                assert list(typed(read)) == list(typed(metadata)), name

    async def test_a_thousand_tags_are_kept_and_found(self, store: KnowledgeIndex) -> None:
        tags = tuple(f"{n}-".ljust(128, "t") for n in range(1000))
        await stored(store, write("many", "kafka", tags=tags), write("none", "kafka"))
        kept = await store.get("many")
        assert kept is not None
        assert kept.document.tags == tags
        for tag in (tags[0], tags[999], f"{tags[500]}+{tags[501]}"):
            found = await find(store, "kafka", axis(0), Filter(tags=parse_tags(tag)))
            assert (found.keyword_ids, found.vector_ids) == ({"many"}, {"many"})
        assert (await store.stats(ALL)).tags == dict.fromkeys(tags, 1)

    async def test_every_field_comes_back(self, store: KnowledgeIndex) -> None:
        locators = [
            PdfLocator(page=3, boxes=(Box(x0=1.5, top=2, x1=30.25, bottom=4),)),
            CodeLocator(path="a/b.py", start_line=3, end_line=9, symbol="Cart.Line.total"),
            WebLocator(url="https://example.test/x?y=z#w", start=0, end=17),
            TicketLocator(id="OPS-1", comment="17"),
            TextLocator(start=5, end=5, heading_path=("Kafka", "ISR shrink")),
            None,
        ]
        writes = [
            write(
                f"d{n}",
                "kafka",
                title="T" * 2048,
                section="S" * 4096,
                context="c " * 8192,
                uri="file:///" + "u" * 8184,
                revision="r" * 512,
                locator=locator,
                project_id=None if n % 2 else "apollo",
                tags=("b", "a", "b"),
                expires_at=NOW + timedelta(days=1),
            )
            for n, locator in enumerate(locators)
        ]
        await stored(store, *writes)
        found = await find(store, "kafka", axis(0), Filter(scope=Scope("apollo")))
        for one in writes:
            kept = await store.get(one.document.id)
            assert kept is not None
            assert kept.document == one.document
            assert found.documents[one.document.id].document == one.document

    async def test_times_keep_their_instant(self, store: KnowledgeIndex) -> None:
        times = [
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1815, 6, 18, 11, 35, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
            datetime(2026, 5, 1, 8, 0, 0, 123_000, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        ]
        await stored(store, *[write(f"t{n}", updated_at=at, expires_at=at) for n, at in enumerate(times)])
        for n, at in enumerate(times):
            kept = await store.get(f"t{n}")
            assert kept is not None
            assert (kept.document.updated_at, kept.document.expires_at) == (at, at)
        assert {one.document.id for one in await scanned(store, Filter(live_at=NOW))} == {"t2"}

    # lists and counts

    async def test_a_scan_is_newest_first_then_by_id(self, store: KnowledgeIndex) -> None:
        ages = {"b": 2, "a": 2, "B": 2, "é": 2, "new": 0, "old": 9, "mid": 5}
        await stored(store, *[write(id, updated_at=NOW - timedelta(hours=age)) for id, age in ages.items()])
        expected = sorted(ages, key=lambda id: (ages[id], id))
        for limit in (1, 2, 3, 7, 100):
            assert [one.document.id for one in await scanned(store, limit=limit)] == expected

    async def test_a_scan_does_not_repeat_or_lose_what_stays_while_others_change(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(f"d{n}", updated_at=NOW - timedelta(hours=n)) for n in range(10)])
        first = await store.scan(ALL, limit=4)
        assert [one.document.id for one in first.documents] == ["d0", "d1", "d2", "d3"]
        await store.delete(["d1", "d3", "d6"], refresh=True)
        await stored(store, write("newer", updated_at=NOW + timedelta(hours=1)))
        rest = await store.scan(ALL, limit=100, cursor=first.cursor)
        assert [one.document.id for one in rest.documents] == ["d4", "d5", "d7", "d8", "d9"]
        assert rest.cursor is None

    @pytest.mark.parametrize("cursor", ["", "nonsense", "eyJhIjogMX0=", "WzEsMl0", "\N{GRINNING FACE}", "' OR 1=1"])
    async def test_a_foreign_cursor_is_an_invalid_request(self, store: KnowledgeIndex, cursor: str) -> None:
        await stored(store, write("one"))
        with pytest.raises(InvalidRequest):
            await store.scan(ALL, limit=10, cursor=cursor)

    async def test_stats_count_what_the_filter_leaves(self, store: KnowledgeIndex) -> None:
        await stored(
            store,
            write("one", tags=("a", "b", "a"), source="wiki"),
            write("two", tags=("a",), source="wiki", vector=None),
            write("three", source="hr", vector=None),
            write("dead", tags=("a",), source="hr", expires_at=NOW),
        )
        await store.replace(parent_write("page"), [write("page#0", tags=("b",), source="wiki")], refresh=True)
        stats = await store.stats(READER)
        assert (stats.total, stats.pending_vectors) == (4, 2)
        assert (stats.tags, stats.sources) == ({"a": 2, "b": 2}, {"wiki": 3, "hr": 1})
        tagged = await store.stats(Filter(tags=parse_tags("a")))
        assert (tagged.total, tagged.pending_vectors) == (3, 1)
        assert (tagged.tags, tagged.sources) == ({"a": 3, "b": 1}, {"wiki": 2, "hr": 1})

    # identity, state, restart

    async def test_an_index_remembers_its_embedder(self, index: KnowledgeIndex) -> None:
        assert await index.identity() is None
        await index.bind(IDENTITY)
        await index.bind(IDENTITY)
        assert await index.identity() == IDENTITY
        digested = IDENTITY.model_copy(update={"model": "conformance:latest"})
        await index.bind(digested)
        bound = await index.identity()
        assert bound is not None
        assert bound.same_as(IDENTITY)

    async def test_another_embedder_is_refused_by_names_and_changes_nothing(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka"))
        others: list[dict[str, Any]] = [
            {"model": "another"}, {"dims": 16}, {"pooling": "cls"}, {"query_prefix": "query: "},
        ]  # fmt: skip
        for other in others:
            with pytest.raises(IdentityMismatch) as refused:
                await store.bind(IDENTITY.model_copy(update=other))
            assert "conformance" in refused.value.detail
            assert other.get("model", "conformance") in refused.value.detail
        assert await store.identity() == IDENTITY
        assert (await find(store, "kafka", axis(0))).vector_ids == {"one"}

    async def test_keywords_are_found_before_any_embedder_is_known(self, index: KnowledgeIndex) -> None:
        await stored(index, write("one", "kafka", vector=None))
        assert (await find(index, "kafka")).keyword_ids == {"one"}
        await index.bind(IDENTITY)
        found = await find(index, "kafka", axis(0))
        assert (found.keyword_ids, found.vector_ids) == ({"one"}, set())
        version = (await index.lookup(["one"]))["one"].version
        assert await index.set_vectors({"one": (version, axis(0))}) == 1

    async def test_states_are_kept_by_name(self, index: KnowledgeIndex) -> None:
        assert await index.state("mu") is None
        await index.set_state("mu", "0.25")
        await index.set_state("Mu", "other")
        await index.set_state("mu", '{"a": "é\\n👩"}')
        assert await index.state("mu") == '{"a": "é\\n👩"}'
        assert await index.state("Mu") == "other"
        assert await index.state("m") is None

    async def test_an_open_index_answers_a_ping(self, index: KnowledgeIndex) -> None:
        await index.ping()
        assert index.name

    async def test_everything_survives_a_restart(self, store: KnowledgeIndex) -> None:
        single = write("one", "kafka zebra", tags=("a",), metadata={"k": [1]}, project_id=None)
        await stored(store, single, write("waits", "kafka", vector=None), write("gone", "kafka"))
        await store.replace(parent_write("page"), [write("page#0", "kafka"), write("page#1", "kafka")], refresh=True)
        await store.replace(parent_write("page"), [write("page#2", "kafka")], refresh=True)
        await store.delete(["gone"], refresh=True)
        await store.set_state("mu", "0.25")
        before = await find(store, "kafka", axis(0))
        epoch = await store.epoch()
        again = await self.reopen(store)
        try:
            assert await again.identity() == IDENTITY
            assert await again.state("mu") == "0.25"
            after = await find(again, "kafka", axis(0))
            assert after.keyword == pytest.approx(before.keyword)
            assert after.vector == pytest.approx(before.vector)
            assert after.documents == before.documents
            assert set(after.documents) == {"one", "waits", "page#2"}
            parent = await again.parent("page")
            assert parent is not None
            assert parent.documents == 1
            assert (await again.stats(READER)).tags == {"a": 1}
            await stored(again, write("new", "kafka"))
            assert await again.epoch() != epoch
            assert (await find(again, "kafka", axis(0))).vector_ids == {"one", "page#2", "new"}
        finally:
            await again.close()

    async def test_close_may_be_called_twice(self, index: KnowledgeIndex) -> None:
        await index.close()
        await index.close()


def typed(value: Any, path: str = "") -> Iterator[tuple[str, str, object]]:
    """Each leaf with its path and kind, in order: 1, 1.0 and true are told apart, and so are two orders of keys."""
    if isinstance(value, dict):
        yield path, "object", len(value)
        for key, inner in value.items():
            yield from typed(inner, f"{path}/{key!r}")
    elif isinstance(value, list):
        yield path, "list", len(value)
        for place, inner in enumerate(value):
            yield from typed(inner, f"{path}/{place}")
    else:
        yield path, type(value).__name__, value
