"""Sets: the documents of one parent are written as one, and no reader sees two versions of it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from knowledge_store_sdk.errors import Conflict
from knowledge_store_sdk.protocols import FetchRequest, Filter, KnowledgeIndex, Question, Replaced, Write
from knowledge_store_sdk.testing.index_cases import (
    ALL,
    DIMS,
    NOW,
    READER,
    IndexRules,
    at_cosine,
    axis,
    find,
    parent_write,
    scanned,
    soon,
    stored,
    version_of,
    write,
)
from knowledge_store_sdk.vectors import pack

_HOUR = timedelta(hours=1)


def chunks(revision: str, numbers: Sequence[int], *, page: str = "page") -> list[Write]:
    """A version of a page; chunks of equal number have the same id in every version."""
    return [
        write(
            f"{page}#{n}",
            f"kafka {revision} chunk{n}",
            vector=at_cosine(0.9 - n / 100),
            revision=revision,
            metadata={"parent_id": page},
        )
        for n in numbers
    ]


class SetRules(IndexRules):
    """`replace` is whole or nothing."""

    async def test_the_writes_become_the_whole_set(self, store: KnowledgeIndex) -> None:
        assert await store.replace(parent_write("page"), chunks("v1", [0, 1, 2]), refresh=True) == Replaced(3, 0)
        assert await store.replace(parent_write("page"), chunks("v2", [0, 3]), refresh=True) == Replaced(2, 2)
        await assert_set(store, {"page#0": "v2", "page#3": "v2"})

    async def test_any_order_gives_the_same_set(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1, 2, 3]), refresh=True)
        await store.replace(parent_write("page"), chunks("v1", [3, 1, 0, 2]), refresh=True)
        await assert_set(store, {f"page#{n}": "v1" for n in range(4)})

    async def test_the_same_set_again_changes_nothing(self, store: KnowledgeIndex) -> None:
        for _ in range(3):
            assert (await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)).stored == 2
        await assert_set(store, {"page#0": "v1", "page#1": "v1"})

    async def test_an_empty_set_removes_the_parent(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)
        assert await store.replace(parent_write("page"), [], refresh=True) == Replaced(0, 2)
        await assert_set(store, {})
        assert await store.parent("page") is None
        assert await store.parents("suite", limit=10) == ([], None)
        assert await store.replace(parent_write("page"), [], refresh=True) == Replaced(0, 0)

    async def test_sets_do_not_touch_each_other(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)
        await store.replace(parent_write("page2"), chunks("v1", [0, 1], page="page2"), refresh=True)
        await store.replace(parent_write("page"), chunks("v2", [0]), refresh=True)
        await assert_set(store, {"page#0": "v2", "page2#0": "v1", "page2#1": "v1"})

    async def test_unchanged_siblings_stay(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1, 2]), refresh=True)
        writes = chunks("v1", [0, 1, 2])
        writes[1] = write("page#1", "zebra", vector=axis(4), revision="v2", metadata={"parent_id": "page"})
        await store.replace(parent_write("page"), writes, refresh=True)
        await assert_set(store, {"page#0": "v1", "page#1": "v2", "page#2": "v1"})
        assert (await find(store, "chunk0 chunk1 chunk2")).keyword_ids == {"page#0", "page#2"}
        assert (await find(store, None, axis(4), window=1)).vector_ids == {"page#1"}

    async def test_stray_singles_of_the_parent_leave_with_the_old_set(self, store: KnowledgeIndex) -> None:
        strays = [write(f"stray{n}", "kafka", metadata={"parent_id": "page"}) for n in range(2)]
        other = write("other-source", "kafka", source="wiki", metadata={"parent_id": "page"})
        sibling = write("sibling", "kafka", metadata={"parent_id": "page2"})
        await stored(store, *strays, other, sibling, write("alone", "kafka"))
        assert await store.replace(parent_write("page"), chunks("v1", [0]), refresh=True) == Replaced(1, 2)
        assert {one.document.id for one in await scanned(store)} == {"page#0", "other-source", "sibling", "alone"}
        assert set(await store.lookup(["stray0", "stray1", "other-source", "page#0"])) == {"other-source", "page#0"}

    async def test_a_single_with_the_id_of_a_member_becomes_that_member(self, store: KnowledgeIndex) -> None:
        await stored(store, write("page#0", "zebra", metadata={"parent_id": "page"}))
        assert (await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)).stored == 2
        await assert_set(store, {"page#0": "v1", "page#1": "v1"})

    async def test_members_say_so(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0]), refresh=True)
        existing = (await store.lookup(["page#0"]))["page#0"]
        assert (existing.member_of, existing.source) == ("page", "suite")
        kept = await store.get("page#0")
        assert kept is not None
        assert (kept.member_of, kept.version) == ("page", existing.version)
        assert (await find(store, "kafka")).documents["page#0"].member_of == "page"

    async def test_members_are_found_by_their_parent_id(self, store: KnowledgeIndex) -> None:
        plain = [write("m0", "kafka"), write("m1", "kafka")]
        await store.replace(parent_write("page"), plain, refresh=True)
        await stored(store, write("other", "kafka"))
        found = await find(store, "kafka", axis(0), Filter(parent_id="page"))
        assert (found.keyword_ids, found.vector_ids) == ({"m0", "m1"}, {"m0", "m1"})
        assert await store.count(Filter(parent_id="page")) == 2

    async def test_waiting_members_get_their_vectors(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), [write("page#0", vector=None), write("page#1")], refresh=True)
        assert [one.document.id for one in await scanned(store, Filter(pending=True))] == ["page#0"]
        version = await version_of(store, "page#0")
        assert await store.set_vectors({"page#0": (version, axis(2))}) == 1
        kept = await store.get("page#0")
        assert kept is not None
        assert not kept.pending
        await store.replace(parent_write("page"), [write("page#0", vector=None)], refresh=True)
        assert await store.set_vectors({"page#0": (version, axis(3))}) == 0

    async def test_a_refused_member_leaves_the_old_set(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)
        writes = chunks("v2", [0, 1, 2])
        writes[1] = write("page#1", "kafka", vector=pack([1.0] * (DIMS + 1)), revision="v2")
        with pytest.raises(Conflict) as refused:
            await store.replace(parent_write("page"), writes, refresh=True)
        assert refused.value.ids == ("page#1",)

        async def counted() -> bool:
            return await store.count(ALL) == 2

        # A refused write has no `refresh` to give; what it took back may be counted for a second.
        await soon(counted, "only the old set is counted")
        await assert_set(store, {"page#0": "v1", "page#1": "v1"})

    async def test_a_set_that_was_seen_later_is_left_alone(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page", seen_at=NOW), chunks("v1", [0]), refresh=True)
        for limit in (NOW, NOW - _HOUR):
            assert await store.replace(parent_write("page"), [], refresh=True, seen_before=limit) == Replaced(0, 0)
            await assert_set(store, {"page#0": "v1"})
        after = NOW + timedelta(milliseconds=1)
        assert await store.replace(parent_write("page"), [], refresh=True, seen_before=after) == Replaced(0, 1)
        await assert_set(store, {})

    async def test_candidates_of_a_replaced_set_never_mix_with_the_new_one(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1, 2]), refresh=True)
        question = Question("kafka", axis(0), READER, 100)
        [before] = await store.candidates([question])
        await store.replace(parent_write("page"), chunks("v2", [0, 1, 2, 3, 4]), refresh=True)
        [after] = await store.candidates([question])
        keys = [hit.key for legs in (before, after) for hit in legs.keyword or ()]
        [old] = await store.fetch([FetchRequest([hit.key for hit in before.keyword or ()])])
        assert old.found == {}
        assert old.superseded, "dropped candidates must be told of"
        [both] = await store.fetch([FetchRequest(list(dict.fromkeys(keys)))])
        assert {one.document.revision for one in both.found.values()} <= {"v2"}
        [again] = await store.candidates([Question("kafka", axis(0), READER, 100, old.superseded)])
        [fresh] = await store.fetch([FetchRequest([hit.key for hit in again.keyword or ()])])
        assert {one.document.id for one in fresh.found.values()} == {f"page#{n}" for n in range(5)}
        assert {one.document.revision for one in fresh.found.values()} == {"v2"}

    async def test_a_reader_sees_the_old_set_or_the_new_one(self, store: KnowledgeIndex) -> None:
        versions = {"v1": [0, 1, 2], "v2": [0, 1, 2, 3, 4]}
        await store.replace(parent_write("page"), chunks("v1", versions["v1"]), refresh=True)

        async def write_on() -> None:
            for n in range(12):
                revision = "v2" if n % 2 == 0 else "v1"
                await store.replace(parent_write("page"), chunks(revision, versions[revision]), refresh=True)

        writer = asyncio.create_task(write_on())
        reads = 0
        while not writer.done() or reads < 12:
            found = await find(store, "kafka", axis(0))
            revisions = {one.document.revision or "" for one in found.documents.values()}
            assert len(revisions) == 1, f"a read saw {sorted(revisions)}"
            whole = {f"page#{n}" for n in versions[revisions.pop()]}
            assert (found.keyword_ids, found.vector_ids) == (whole, whole)
            reads += 1
            await asyncio.sleep(0)
        await writer

    async def test_of_two_concurrent_replacements_one_stands_whole(self, store: KnowledgeIndex) -> None:
        for _ in range(5):
            await asyncio.gather(
                store.replace(parent_write("page", revision="v1"), chunks("v1", [0, 1, 2]), refresh=True),
                store.replace(parent_write("page", revision="v2"), chunks("v2", [0, 1, 2, 3, 4]), refresh=True),
            )
            found = await find(store, "kafka", axis(0))
            [revision] = {one.document.revision for one in found.documents.values()}
            await assert_set(store, {f"page#{n}": str(revision) for n in range(3 if revision == "v1" else 5)})
            parent = await store.parent("page")
            assert parent is not None
            assert parent.revision == revision

    async def test_a_parent_is_told_as_it_was_written(self, store: KnowledgeIndex) -> None:
        written = parent_write("page", revision="v7", seen_at=NOW - _HOUR)
        await store.replace(written, chunks("v7", [0, 1]), refresh=True)
        parent = await store.parent("page")
        assert parent is not None
        told = (parent.id, parent.source, parent.uri, parent.title, parent.revision, parent.fingerprint)
        assert told == ("page", "suite", written.uri, written.title, "v7", "f1")
        assert parent.documents == 2
        assert parent.written_at == written.seen_at
        assert await store.parent("Page") is None

    async def test_parents_come_by_id_a_page_at_a_time(self, store: KnowledgeIndex) -> None:
        for name in ("c", "a", "B", "é", "b"):
            await store.replace(parent_write(name), chunks("v1", [0], page=name), refresh=True)
        await store.replace(parent_write("other", source="wiki"), chunks("v1", [0], page="other"), refresh=True)
        ids: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            parents, cursor = await store.parents("suite", limit=2, cursor=cursor)
            ids += [one.id for one in parents]
            pages += 1
            assert len(parents) <= 2
        assert ids == ["B", "a", "b", "c", "é"]
        assert ids == sorted(ids)

    async def test_parents_seen_before_a_time_are_told_apart(self, store: KnowledgeIndex) -> None:
        for n in range(3):
            await store.replace(parent_write(f"p{n}", seen_at=NOW + n * _HOUR), chunks("v1", [n]), refresh=True)
        parents, _ = await store.parents("suite", limit=10, seen_before=NOW + _HOUR)
        assert [one.id for one in parents] == ["p0"]

    async def test_there_is_nothing_to_purge_after_whole_replacements(self, store: KnowledgeIndex) -> None:
        await store.replace(parent_write("page"), chunks("v1", [0, 1]), refresh=True)
        await store.replace(parent_write("page"), chunks("v2", [0, 1, 2]), refresh=True)
        await stored(store, write("alone", "kafka"))
        assert await store.purge() == 0
        assert await store.count(ALL) == 4


async def assert_set(store: KnowledgeIndex, revisions: dict[str, str]) -> None:
    """The index holds exactly these ids, each in this revision, by every road."""
    found = await find(store, "kafka zebra", axis(0))
    told = {id: one.document.revision for id, one in found.documents.items()}
    assert told == revisions
    assert found.vector_ids == set(revisions)
    assert {one.document.id: one.document.revision for one in await scanned(store)} == revisions
    assert await store.count(ALL) == len(revisions)
    assert set(await store.lookup(list(revisions))) == set(revisions)
    for id, revision in revisions.items():
        kept = await store.get(id)
        assert kept is not None
        assert kept.document.revision == revision
