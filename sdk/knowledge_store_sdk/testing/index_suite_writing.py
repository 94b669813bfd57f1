"""Writing: single documents, the versions that guard them, their vectors, and what every write changes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from knowledge_store_sdk.protocols import Filter, KnowledgeIndex
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
from knowledge_store_sdk.testing.index_suite_finding import assert_same_vector
from knowledge_store_sdk.vectors import pack


class WritingRules(IndexRules):
    """Each document stands by itself, and no write goes over one that it did not know of."""

    async def test_a_new_index_is_empty(self, store: KnowledgeIndex) -> None:
        assert await store.count(ALL) == 0
        assert await store.get("one") is None
        assert await store.lookup(["one"]) == {}
        assert await store.vectors(["0" * 64]) == {}
        assert await store.delete(["one"], refresh=True) == 0

    async def test_no_writes_do_nothing(self, store: KnowledgeIndex) -> None:
        assert await store.upsert([]) == []
        assert await store.lookup([]) == {}
        assert await store.delete([]) == 0
        assert await store.set_vectors({}) == 0
        assert await store.vectors([]) == {}

    async def test_outcomes_come_in_the_order_of_the_writes(self, store: KnowledgeIndex) -> None:
        ids = [f"d{n}" for n in (3, 1, 2, 10, 0)]
        outcomes = await store.upsert([write(id) for id in ids], refresh=True)
        assert [(one.id, one.state) for one in outcomes] == [(id, "stored") for id in ids]

    async def test_a_write_is_read_at_once(self, store: KnowledgeIndex) -> None:
        one = write("one", project_id="apollo")
        await store.upsert([one])
        kept = await store.get("one")
        assert kept is not None
        assert (kept.document, kept.pending, kept.text_hash) == (one.document, False, one.text_hash)
        existing = await store.lookup(["unknown", "one"])
        assert set(existing) == {"one"}
        found = existing["one"]
        assert (found.id, found.source, found.text_hash) == ("one", "suite", one.text_hash)
        assert (found.version, found.member_of, found.project_id) == (kept.version, None, "apollo")

    async def test_a_write_is_found_within_a_second(self, store: KnowledgeIndex) -> None:
        await store.upsert([write("one", "kafka")])

        async def found() -> bool:
            return (await find(store, "kafka", axis(0))).vector_ids == {"one"}

        async def counted() -> bool:
            return await store.count(ALL) == 1 and len(await scanned(store)) == 1

        await soon(found, "candidates find it")
        await soon(counted, "scan and count have it")

    async def test_an_upsert_replaces_the_whole_document(self, store: KnowledgeIndex) -> None:
        first = write("one", "kafka lag", tags=("a",), metadata={"k": 1}, title="Old", expires_at=NOW + timedelta(1))
        await stored(store, first)
        second = write("one", "zebra", vector=axis(3), tags=("b",), expect=await version_of(store, "one"))
        await stored(store, second)
        found = await find(store, "kafka lag old zebra", axis(3))
        assert found.documents["one"].document == second.document
        assert await store.count(ALL) == 1
        assert (await find(store, "kafka lag old")).keyword == {}
        assert found.vector == pytest.approx({"one": 1.0}, abs=0.003)
        assert (await store.stats(ALL)).tags == {"b": 1}

    async def test_an_id_that_is_not_as_expected_is_a_conflict_and_stays(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka"))
        old = await version_of(store, "one")
        await stored(store, write("one", "zebra", expect=old))
        current = await version_of(store, "one")
        assert current != old
        outcomes = await store.upsert(
            [
                write("one", "stale", expect=old),
                write("new", "new", expect=None),
                write("gone", "gone", expect=old),
            ],
            refresh=True,
        )
        assert [one.state for one in outcomes] == ["conflict", "stored", "conflict"]
        [blind] = await store.upsert([write("one", "blind", expect=None)], refresh=True)
        assert blind.state == "conflict"
        kept = await store.get("one")
        assert kept is not None
        assert (kept.document.content, kept.version) == ("zebra", current)
        assert await store.get("gone") is None

    async def test_of_concurrent_writes_of_one_new_id_one_is_stored(self, store: KnowledgeIndex) -> None:
        outcomes = await asyncio.gather(*[store.upsert([write("one", f"text {n}")]) for n in range(5)])
        states = sorted(state.state for [state] in outcomes)
        assert states == ["conflict"] * 4 + ["stored"]
        winner = next(n for n, [one] in enumerate(outcomes) if one.state == "stored")
        kept = await store.get("one")
        assert kept is not None
        assert kept.document.content == f"text {winner}"

    async def test_one_bad_item_fails_alone(self, store: KnowledgeIndex) -> None:
        wrong_dims = pack([1.0] * (DIMS + 1))
        writes = [write("one", "kafka"), write("bad", "kafka", vector=wrong_dims), write("two", "kafka")]
        outcomes = await store.upsert(writes, refresh=True)
        assert [(one.id, one.state) for one in outcomes] == [("one", "stored"), ("bad", "failed"), ("two", "stored")]
        assert outcomes[1].reason
        assert not outcomes[1].retryable
        assert await store.get("bad") is None
        assert (await find(store, "kafka", axis(0))).keyword_ids == {"one", "two"}

    async def test_a_thousand_documents_go_in_one_call(self, store: KnowledgeIndex) -> None:
        writes = [write(f"d{n}", f"kafka word{n}", vector=at_cosine(n / 1000)) for n in range(1000)]
        await stored(store, *writes)
        assert await store.count(ALL) == 1000
        assert (await find(store, "word777")).keyword_ids == {"d777"}
        assert len(await store.lookup([one.document.id for one in writes])) == 1000
        assert len(await store.vectors([one.text_hash for one in writes])) == 1000

    async def test_waiting_documents_get_their_vectors(self, store: KnowledgeIndex) -> None:
        await stored(store, write("waits", "kafka", vector=None), write("still", "kafka", vector=None))
        before = await store.get("waits")
        assert before is not None
        assert await store.set_vectors({"waits": (before.version, axis(2)), "unknown": (before.version, axis(2))}) == 1
        after = await store.get("waits")
        assert after is not None
        assert (after.pending, after.document) == (False, before.document)

        async def found() -> bool:
            return (await find(store, "kafka", axis(2))).vector_ids == {"waits"}

        await soon(found, "the vector leg finds it")
        assert (await find(store, "kafka")).keyword_ids == {"waits", "still"}

    async def test_a_vector_is_skipped_after_a_newer_write(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka", vector=None))
        old = await version_of(store, "one")
        await stored(store, write("one", "zebra", vector=None, expect=old))
        assert await store.set_vectors({"one": (old, axis(2))}) == 0
        kept = await store.get("one")
        assert kept is not None
        assert kept.pending
        assert (await find(store, None, axis(2))).vector == {}

    async def test_vectors_are_found_by_what_was_embedded(self, store: KnowledgeIndex) -> None:
        ready, same, waits = (
            write("one", "kafka", vector=at_cosine(0.3)),
            write("two", "kafka", vector=None),
            write("three", "zebra", vector=None),
        )
        await stored(store, ready, waits)
        await stored(store, same)
        assert ready.text_hash == same.text_hash
        found = await store.vectors([waits.text_hash, ready.text_hash, "f" * 64])
        assert set(found) == {ready.text_hash}
        assert_same_vector(found[ready.text_hash], at_cosine(0.3))

    async def test_deleted_documents_are_gone_everywhere(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(f"d{n}", "kafka", tags=("a",)) for n in range(3)])
        await store.replace(parent_write("page"), [write(f"page#{n}", "kafka") for n in range(3)], refresh=True)
        assert await store.delete(["d0", "unknown", "page#1"], refresh=True) == 2
        left = {"d1", "d2", "page#0", "page#2"}
        found = await find(store, "kafka", axis(0))
        assert (found.keyword_ids, found.vector_ids) == (left, left)
        assert {one.document.id for one in await scanned(store)} == left
        assert await store.count(ALL) == 4
        assert (await store.stats(ALL)).tags == {"a": 2}
        assert set(await store.lookup(["d0", "d1", "page#0", "page#1"])) == {"d1", "page#0"}
        assert await store.get("d0") is None
        assert await store.get("page#1") is None
        assert await store.delete(["d0", "page#1"], refresh=True) == 0

    async def test_a_deleted_id_can_be_written_again(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka"))
        await store.delete(["one"], refresh=True)
        await stored(store, write("one", "zebra"))
        assert (await find(store, "kafka zebra", axis(0))).documents["one"].document.content == "zebra"

    async def test_delete_spares_a_document_of_another_version(self, store: KnowledgeIndex) -> None:
        await stored(store, write("moved", "kafka"), write("same", "kafka"))
        versions = {id: one.version for id, one in (await store.lookup(["moved", "same"])).items()}
        await stored(store, write("moved", "zebra", expect=versions["moved"]))
        assert await store.delete(["moved", "same"], versions=versions, refresh=True) == 1
        assert {one.document.id for one in await scanned(store)} == {"moved"}

    async def test_the_epoch_changes_with_every_kind_of_write(self, store: KnowledgeIndex) -> None:
        epochs = [await store.epoch()]

        async def changed_by(what: str) -> None:
            async def moved() -> bool:
                return await store.epoch() not in epochs

            await soon(moved, f"the epoch changes with {what}")
            epochs.append(await store.epoch())

        await store.upsert([write("one", vector=None)], refresh=True)
        await changed_by("a new document")
        version = await version_of(store, "one")
        await store.upsert([write("one", "other", vector=None, expect=version)], refresh=True)
        await changed_by("a changed document")
        await store.set_vectors({"one": (await version_of(store, "one"), axis(0))})
        await changed_by("a vector")
        await store.replace(parent_write("page"), [write("page#0")], refresh=True)
        await changed_by("a new set")
        await store.replace(parent_write("page"), [write("page#1")], refresh=True)
        await changed_by("a replaced set")
        await store.delete(["one"], refresh=True)
        await changed_by("a deletion")
        await store.replace(parent_write("page"), [], refresh=True)
        await changed_by("a set that goes")

    async def test_the_epoch_stays_while_nothing_is_written(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka"))
        await store.replace(parent_write("page"), [write("page#0", "kafka")], refresh=True)
        await asyncio.sleep(0.05)
        epoch = await store.epoch()
        await find(store, "kafka", axis(0))
        await scanned(store, READER)
        await store.get("one")
        await store.lookup(["one"])
        await store.parents("suite", limit=10)
        await store.stats(Filter())
        await store.delete(["unknown"])
        assert await store.epoch() == epoch
