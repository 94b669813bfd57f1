"""What a client keeps: single documents, many at once, sets, sweeps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import Conflict, InvalidField, NotFound
from knowledge_store_sdk.testing.client_cases import AWKWARD_IDS, LONG, QUESTION, Own


class KeepingSuite:
    """A part of `KnowledgeClientSuite`."""

    # single documents

    @pytest.mark.parametrize("name", [*AWKWARD_IDS, *LONG], ids=range(len(AWKWARD_IDS) + len(LONG)))
    async def test_any_id_comes_back_as_it_was_sent(self, client: KnowledgeClient, own: Own, name: str) -> None:
        id = f"{name}{own.mark}{name}"[:2048]
        await client.upsert(own.document("x").model_copy(update={"id": id}), refresh=True)
        assert (await client.get(id)).id == id
        assert [one.id for one in await client.fetch(own.tag("a"), QUESTION)] == [id]
        assert (await client.delete(id, refresh=True)).deleted == 1
        with pytest.raises(NotFound):
            await client.get(id)

    async def test_a_document_called_stats_is_a_document(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("x").model_copy(update={"id": "stats"}), refresh=True)
        assert (await client.get("stats")).source == own.source
        assert (await client.delete("stats", refresh=True)).deleted == 1

    async def test_an_unknown_id_is_not_found(self, client: KnowledgeClient, own: Own) -> None:
        with pytest.raises(NotFound):
            await client.get(own.id("nowhere"))
        with pytest.raises(NotFound):
            await client.delete(own.id("nowhere"))

    @pytest.mark.parametrize("id", ["", "x" * 2049, "a\0b"], ids=["empty", "too long", "with NUL"])
    async def test_an_id_that_cannot_be_is_refused(self, client: KnowledgeClient, id: str) -> None:
        with pytest.raises(InvalidField):
            await client.get(id)
        with pytest.raises(InvalidField):
            await client.delete(id)

    async def test_a_document_comes_back_unchanged(self, client: KnowledgeClient, own: Own) -> None:
        metadata: dict[str, Any] = {
            "none": None,
            "n": 123456789012345,
            "f": 0.1,
            "deep": [{"a": [True, "\u202eאב"]}],
            "": {},
        }
        content = "  \x01 leading and trailing \r\n\t👩🏽‍🚒 \u0000".rstrip("\0") + "é" * 1000 + " \n"
        document = own.document("one", content, tags=["a", "b"], metadata=metadata, context="C", title=" T ")
        await client.upsert(document, refresh=True)
        for found in (await client.get(document.id), (await client.fetch(own.tag("a"), "leading"))[0]):
            assert (found.content, found.metadata, found.tags) == (content, metadata, document.tags)
            assert (found.context, found.title) == ("C", " T ")

    async def test_an_upsert_replaces_the_whole_document(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("one", "old text", metadata={"old": 1}, title="Old"), refresh=True)
        result = await client.upsert(own.document("one", "new text", tags=["b"]), refresh=True)
        assert (result.id, result.state, result.error) == (own.id("one"), "stored", None)
        found = await client.get(own.id("one"))
        assert (found.content, found.metadata, found.title) == ("new text", {}, None)
        assert await client.fetch(own.tag("a"), "text") == []
        assert (await client.stats(own.tag("b"))).total == 1

    async def test_a_found_passage_can_be_written_back(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("one"), refresh=True)
        [found] = await client.fetch(own.tag("a"), QUESTION)
        await client.upsert(found.model_copy(update={"title": "Renamed"}), refresh=True)
        assert (await client.get(found.id)).title == "Renamed"

    async def test_a_wrong_field_of_a_document_is_named(self, client: KnowledgeClient, own: Own) -> None:
        unchecked = own.document("one").model_copy(update={"tags": ("two words",)})
        with pytest.raises(InvalidField) as caught:
            await client.upsert(unchecked)
        assert any("tags" in name for name in caught.value.fields)
        with pytest.raises(NotFound):
            await client.get(own.id("one"))

    # many documents

    async def test_one_bad_item_fails_alone(self, client: KnowledgeClient, own: Own) -> None:
        documents = [own.document(str(at)) for at in range(4)]
        documents[2] = documents[2].model_copy(update={"content": ""})
        result = await client.bulk_upsert(documents, refresh=True)
        assert (result.stored, result.failed) == (3, 1)
        assert [one.id for one in result.results] == [one.id for one in documents]
        assert [one.state for one in result.results] == ["stored", "stored", "failed", "stored"]
        error = result.results[2].error
        assert error is not None
        assert not error.retryable
        assert "content" in error.detail
        assert set(own.names([one async for one in client.list(source=own.source)])) == {"0", "1", "3"}

    async def test_of_two_with_one_id_the_later_counts(self, client: KnowledgeClient, own: Own) -> None:
        result = await client.bulk_upsert([own.document("x", "first"), own.document("x", "second")], refresh=True)
        assert (result.stored, result.failed) == (2, 0)
        assert (await client.get(own.id("x"))).content == "second"

    async def test_no_documents_are_no_error(self, client: KnowledgeClient) -> None:
        result = await client.bulk_upsert([])
        assert (result.stored, result.failed, result.results) == (0, 0, ())

    async def test_listing_goes_through_all_pages_newest_first(self, client: KnowledgeClient, own: Own) -> None:
        day = datetime(2026, 1, 1, tzinfo=UTC)
        written = [own.document(f"{at:04}", str(at), updated_at=day + timedelta(minutes=at)) for at in range(450)]
        await client.bulk_upsert(written, refresh=True)
        newest_first = [f"{at:04}" for at in reversed(range(450))]
        assert own.names([one async for one in client.list(tags=own.tag("a"))]) == newest_first
        assert own.names([one async for one in client.list(source=own.source, limit=201)]) == newest_first[:201]
        assert own.names([one async for one in client.list(source=f"{own.source}.2")]) == []

    async def test_stats_count_per_tag_and_source(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document("one", tags="ab"), own.document("two", tags="a")], refresh=True)
        stats = await client.stats(own.tag("a"))
        assert (stats.total, stats.sources) == (2, {own.source: 2})
        assert stats.tags == {own.tag("a"): 2, own.tag("b"): 1}

    # sets

    async def test_a_replacement_becomes_the_whole_set(self, client: KnowledgeClient, own: Own) -> None:
        parent = own.id("page")
        first = await client.replace(
            parent, [own.document(f"1.{at}") for at in range(3)], revision="1", source=own.source, refresh=True
        )
        assert (first.id, first.stored, first.removed) == (parent, 3, 0)
        second = await client.replace(
            parent, [own.document(name) for name in ("1.0", "2.0")], revision="2", source=own.source, refresh=True
        )
        assert (second.stored, second.removed) == (2, 2)
        assert set(own.names(await client.fetch(own.tag("a"), QUESTION))) == {"1.0", "2.0"}
        parts = [one async for one in client.list(parent_id=parent)]
        assert set(own.names(parts)) == {"1.0", "2.0"}
        assert {one.parent_id for one in parts} == {parent}
        [told] = [one async for one in client.parents(own.source)]
        assert (told.id, told.source, told.revision, told.documents) == (parent, own.source, "2", 2)

    async def test_replacing_by_nothing_removes_the_parent(self, client: KnowledgeClient, own: Own) -> None:
        parent = own.id("page")
        await client.replace(parent, [own.document("1")], source=own.source, refresh=True)
        result = await client.replace(parent, [], source=own.source, refresh=True)
        assert (result.stored, result.removed) == (0, 1)
        assert [one async for one in client.parents(own.source)] == []
        assert [one async for one in client.list(source=own.source)] == []

    async def test_a_set_takes_no_document_of_another_set(self, client: KnowledgeClient, own: Own) -> None:
        await client.replace(own.id("page"), [own.document("1")], source=own.source, refresh=True)
        with pytest.raises(Conflict) as caught:
            await client.replace(own.id("other"), [own.document("1")], source=own.source)
        assert own.id("1") in caught.value.ids

    async def test_a_part_of_a_set_is_not_upserted_alone(self, client: KnowledgeClient, own: Own) -> None:
        await client.replace(own.id("page"), [own.document("1")], source=own.source, refresh=True)
        with pytest.raises(Conflict):
            await client.upsert(own.document("1", "changed"))
        assert (await client.get(own.id("1"))).content == QUESTION

    async def test_a_wrong_part_is_named_and_the_old_set_stays(self, client: KnowledgeClient, own: Own) -> None:
        parent = own.id("page")
        await client.replace(parent, [own.document("1")], source=own.source, refresh=True)
        bad = own.document("2").model_copy(update={"tags": ("two words",)})
        with pytest.raises(InvalidField) as caught:
            await client.replace(parent, [own.document("3"), bad], source=own.source)
        assert any(name.startswith("documents[1].tags") for name in caught.value.fields)
        with pytest.raises(InvalidField):
            await client.replace(parent, [own.document("3"), own.document("3")], source=own.source)
        assert own.names([one async for one in client.list(source=own.source)]) == ["1"]

    async def test_a_sweep_removes_what_was_not_written_since(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document("old"), own.document("again")], refresh=True)
        await client.replace(own.id("page"), [own.document("part")], source=own.source, refresh=True)
        await asyncio.sleep(0.05)
        since = datetime.now(UTC)
        await asyncio.sleep(0.05)
        await client.bulk_upsert([own.document("again"), own.document("new")], refresh=True)
        with pytest.raises(Conflict):
            await client.sweep(own.source, since, 1)
        assert (await client.sweep(own.source, since, 2, refresh=True)).deleted == 2
        assert set(own.names([one async for one in client.list(source=own.source)])) == {"again", "new"}
        assert [one async for one in client.parents(own.source)] == []
        assert (await client.sweep(own.source, since)).deleted == 0

    async def test_a_sweep_needs_a_time_with_a_zone(self, client: KnowledgeClient, own: Own) -> None:
        with pytest.raises(InvalidField):
            await client.sweep(own.source, datetime(2026, 1, 1))  # noqa: DTZ001 - the point of the test
