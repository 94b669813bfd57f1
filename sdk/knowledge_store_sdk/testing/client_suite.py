"""What every client of a Knowledge Store does, whatever answers it.

    class TestMyClient(KnowledgeClientSuite):
        @pytest.fixture
        async def client(self) -> AsyncIterator[KnowledgeClient]:
            async with KnowledgeClient(url, api_key=admin_key) as client:
                yield client

The store need not be empty: each test writes under tags, ids and a source of its own. The key must be an admin's.
Documents that a question is to find share words with it, so that a store with a test's embedder passes too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import Conflict, InvalidField, InvalidRequest, InvalidTagExpression, NotFound
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.locators import CodeLocator
from knowledge_store_sdk.models import KnowledgeDocument, Passage, Query

SIX: Final = {"D1": "a", "D2": "b", "D3": "c", "D4": "ab", "D5": "bc", "D6": "ac"}
EXPRESSIONS: Final = {
    "a+b|c": {"D3", "D4", "D5", "D6"},
    "c|a+b": {"D3", "D4", "D5", "D6"},
    "a|b+c": {"D1", "D4", "D5", "D6"},
    "a+b+c": set(),
}
MALFORMED: Final = {"a++b": 2, "+a": 0, "a|": 2, "|": 0, " ": 0, "a b": 1}
AWKWARD_IDS: Final = (
    "stats",
    "a/b/../c",
    "/",
    "q?x=1&y#z",
    "100%",
    "%2F",
    "two  spaces ",
    "a+b",
    "naïve\n\u2066👩‍👩‍👧\t.",
)
LONG: Final = ("/#% é" * 500, "\U0001f469" * 2048)  # a query string takes 12 bytes for each of the latter
QUESTION: Final = "granite harbour timetable"


class Own:
    """Names that belong to one test alone."""

    def __init__(self) -> None:
        self.mark = uuid4().hex[:12]
        self.source = f"source-{self.mark}"

    def tag(self, name: str) -> str:
        return f"{self.mark}.{name}"

    def tags(self, expression: str) -> str:
        """The expression with each of its one-letter tags made this test's own."""
        return "".join(self.tag(one) if one.isalpha() else one for one in expression)

    def id(self, name: str) -> str:
        return f"{self.mark}/{name}"

    def document(
        self, name: str, content: str = QUESTION, tags: Iterable[str] = ("a",), **fields: Any
    ) -> KnowledgeDocument:
        """A document of this test, under its source and its own tags."""
        return KnowledgeDocument(
            id=self.id(name), content=content, tags=tuple(self.tag(one) for one in tags), source=self.source, **fields
        )

    def names(self, documents: Iterable[KnowledgeDocument]) -> list[str]:
        """The names that the ids were made of."""
        return [one.id.removeprefix(f"{self.mark}/") for one in documents]


@pytest.mark.asyncio
class KnowledgeClientSuite:
    """Subclass it and give it a fixture `client`: a KnowledgeClient, or what has its methods."""

    @pytest.fixture
    def own(self) -> Own:
        return Own()

    # tags

    @pytest.mark.parametrize("expression", EXPRESSIONS)
    async def test_search_list_and_count_read_an_expression_alike(
        self, client: KnowledgeClient, own: Own, expression: str
    ) -> None:
        await client.bulk_upsert([own.document(name, tags=tags) for name, tags in SIX.items()], refresh=True)
        tags, expected = own.tags(expression), EXPRESSIONS[expression]
        for mode in ("hybrid", "keyword"):
            assert set(own.names(await client.fetch(tags, QUESTION, 100, mode=mode))) == expected
        assert set(own.names(await client.fetch(tags, "", 100))) == expected
        assert set(own.names([one async for one in client.list(tags=tags)])) == expected
        assert (await client.stats(tags)).total == len(expected)

    @pytest.mark.parametrize("expression", EXPRESSIONS)
    async def test_delete_reads_an_expression_as_search_does(
        self, client: KnowledgeClient, own: Own, expression: str
    ) -> None:
        await client.bulk_upsert([own.document(name, tags=tags) for name, tags in SIX.items()], refresh=True)
        expected = EXPRESSIONS[expression]
        deleted = await client.delete_by_tags(own.tags(expression), len(expected), refresh=True)
        assert deleted.deleted == len(expected)
        left = [one async for one in client.list(source=own.source)]
        assert set(own.names(left)) == set(SIX) - expected

    @pytest.mark.parametrize("expression", MALFORMED)
    async def test_a_malformed_expression_is_refused_with_its_position(
        self, client: KnowledgeClient, own: Own, expression: str
    ) -> None:
        await client.upsert(own.document("kept"), refresh=True)
        attempts = (
            client.fetch(expression, QUESTION),
            client.query(Query(text=QUESTION, tags=expression)),
            client.query_batch([Query(text=QUESTION), Query(text=QUESTION, tags=expression)]),
            client.stats(expression),
            client.list(tags=expression).__anext__(),
            client.delete_by_tags(expression, 1),
        )
        for attempt in attempts:
            with pytest.raises(InvalidTagExpression) as caught:
                await attempt
            assert caught.value.position == MALFORMED[expression]
        assert own.names([await client.get(own.id("kept"))]) == ["kept"]

    async def test_deleting_by_no_expression_is_refused(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("kept"), refresh=True)
        with pytest.raises(InvalidRequest):
            await client.delete_by_tags("", 1)
        assert (await client.get(own.id("kept"))).content == QUESTION

    async def test_deleting_another_number_than_expected_is_a_conflict(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document("one"), own.document("two")], refresh=True)
        with pytest.raises(Conflict):
            await client.delete_by_tags(own.tag("a"), 1)
        assert (await client.stats(own.tag("a"))).total == 2

    async def test_tags_are_case_sensitive(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("one", tags=["Tag"]), refresh=True)
        assert await client.fetch(own.tag("tag"), QUESTION) == []
        assert own.names(await client.fetch(own.tag("Tag"), QUESTION)) == ["one"]

    # asking

    async def test_hits_are_ordered_by_a_score_of_0_to_1(self, client: KnowledgeClient, own: Own) -> None:
        near, far = own.document("near"), own.document("far", "the timetable of another place altogether, in short")
        await client.bulk_upsert([far, near], refresh=True)
        found = await client.fetch(own.tag("a"), QUESTION)
        assert own.names(found) == ["near", "far"]
        scores = [_score(one) for one in found]
        assert 1 >= scores[0] > scores[1] >= 0

    async def test_min_score_is_a_floor(self, client: KnowledgeClient, own: Own) -> None:
        near, far = own.document("near"), own.document("far", "the timetable of another place altogether, in short")
        await client.bulk_upsert([far, near], refresh=True)
        high, low = [_score(one) for one in await client.fetch(own.tag("a"), QUESTION)]
        found = await client.fetch(own.tag("a"), QUESTION, 5, (high + low) / 2)
        assert own.names(found) == ["near"]

    async def test_top_k_is_the_most_that_is_returned(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document(str(at)) for at in range(8)], refresh=True)
        assert len(await client.fetch(own.tag("a"), QUESTION)) == 5
        assert len(await client.fetch(own.tag("a"), QUESTION, 2)) == 2
        assert len(await client.fetch(own.tag("a"), QUESTION, 100)) == 8
        assert len(await client.fetch(own.tag("a"), QUESTION, 3, 0.0, "diverse")) == 3

    async def test_an_empty_text_with_tags_lists_newest_first_without_scores(
        self, client: KnowledgeClient, own: Own
    ) -> None:
        day = datetime(2026, 1, 1, tzinfo=UTC)
        documents = [own.document(str(at), updated_at=day + timedelta(days=at % 3)) for at in range(3)]
        await client.bulk_upsert(documents, refresh=True)
        found = await client.fetch(own.tag("a"), "", 2)
        assert own.names(found) == ["2", "1"]
        assert [one.score for one in found] == [None, None]

    @pytest.mark.parametrize("text", ["", "   "])
    async def test_a_blank_text_without_tags_is_refused(self, client: KnowledgeClient, text: str) -> None:
        with pytest.raises(InvalidRequest):
            await client.fetch(text=text)

    async def test_without_a_text_a_client_without_a_payload_refuses(self, client: KnowledgeClient, own: Own) -> None:
        with pytest.raises(InvalidRequest):
            await client.fetch()
        with pytest.raises(InvalidRequest):
            await client.fetch(own.tag("a"))

    async def test_a_passage_carries_its_citation(self, client: KnowledgeClient, own: Own) -> None:
        locator = CodeLocator(path="a/b.py", start_line=3, end_line=9, symbol="B.c")
        document = own.document("one", title="T", section="S", uri="git://r/a/b.py", revision="r1", locator=locator)
        await client.upsert(document, refresh=True)
        [found] = await client.fetch(own.tag("a"), QUESTION)
        cited = found.citation
        assert (cited.source, cited.uri, cited.title) == (own.source, "git://r/a/b.py", "T")
        assert (cited.section, cited.revision, cited.locator) == ("S", "r1", locator)
        assert cited.content_hash == hashlib.sha256(QUESTION.encode()).hexdigest()

    async def test_what_a_writer_leaves_out_is_filled_in(self, client: KnowledgeClient, own: Own) -> None:
        document = own.document("one")
        await client.upsert(document, refresh=True)
        [found] = await client.fetch(own.tag("a"), QUESTION)
        assert found.uri == f"knowledge://{own.source}/{document.id}"
        assert found.revision == document.content_hash
        assert found.updated_at is not None
        assert abs(found.updated_at - datetime.now(UTC)) < timedelta(minutes=5)

    async def test_only_the_sources_asked_for_answer(self, client: KnowledgeClient, own: Own) -> None:
        other = own.document("other").model_copy(update={"source": f"{own.source}.2"})
        await client.bulk_upsert([own.document("one"), other], refresh=True)
        assert own.names(await client.fetch(own.tag("a"), QUESTION, sources=[own.source])) == ["one"]

    async def test_a_project_sees_its_own_and_the_global_documents(self, client: KnowledgeClient, own: Own) -> None:
        documents = [own.document(name, project_id=name if name != "none" else None) for name in ("p1", "p2", "none")]
        await client.bulk_upsert(documents, refresh=True)
        assert own.names(await client.fetch(own.tag("a"), QUESTION)) == ["none"]
        both = await client.fetch(own.tag("a"), QUESTION, project_id="p1")
        assert set(own.names(both)) == {"p1", "none"}
        alone = await client.fetch(own.tag("a"), QUESTION, project_id="p1", include_global=False)
        assert own.names(alone) == ["p1"]
        assert own.names([one async for one in client.list(tags=own.tag("a"))]) == ["none"]
        listed = [one async for one in client.list(tags=own.tag("a"), project_id="p1")]
        assert set(own.names(listed)) == {"p1", "none"}
        assert (await client.stats(own.tag("a"), project_id="p1", include_global=False)).total == 1
        removed = await client.delete_by_tags(own.tag("a"), 1, project_id="p2", include_global=False, refresh=True)
        assert removed.deleted == 1
        assert own.names([one async for one in client.list(tags=own.tag("a"))]) == ["none"]

    async def test_explain_says_what_each_leg_found(self, client: KnowledgeClient, own: Own) -> None:
        await client.upsert(own.document("one"), refresh=True)
        result = await client.query(Query(text=QUESTION, tags=own.tag("a"), mode="keyword", explain=True))
        [found] = result.documents
        assert found.explain is not None
        assert found.explain["keyword"].rank == 1
        assert found.scored_by == ("keyword",)

    async def test_many_questions_are_answered_in_order(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document(name, tags=[name]) for name in "abc"], refresh=True)
        questions: list[Query | dict[str, Any]] = [
            {"tags": own.tag(name), "text": QUESTION} for name in "abc" for _ in range(8)
        ]
        questions.append(Query(text=QUESTION, tags=own.tag("nowhere")))
        found = await client.fetch_many(questions)
        assert [own.names(one) for one in found] == [["a"]] * 8 + [["b"]] * 8 + [["c"]] * 8 + [[]]
        results = await client.query_batch([Query(text=QUESTION, tags=own.tag(name)) for name in "cab"])
        assert [own.names(one.documents) for one in results] == [["c"], ["a"], ["b"]]

    async def test_no_questions_have_no_answers(self, client: KnowledgeClient) -> None:
        assert await client.fetch_many([]) == []
        assert await client.query_batch([]) == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [("top_k", 0), ("top_k", 101), ("min_score", 1.1), ("mode", "fuzzy"), ("strategy", "random"), ("sources", [])],
    )
    async def test_a_wrong_argument_is_named(self, client: KnowledgeClient, field: str, value: object) -> None:
        with pytest.raises(InvalidField) as caught:
            await client.fetch_many([{"text": QUESTION, field: value}])
        assert any(field in name for name in caught.value.fields)

    async def test_an_unknown_argument_is_refused(self, client: KnowledgeClient) -> None:
        with pytest.raises(InvalidField):
            await client.fetch_many([{"text": QUESTION, "tag": "a"}])

    # payloads and limits

    async def test_the_payload_asks_where_no_text_is_given(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document("one"), own.document("two", "unrelated words")], refresh=True)
        for payload in ({"text": QUESTION}, {"body": QUESTION}, {"text": None, "body": QUESTION}):
            found = await client.with_payload(payload).fetch(own.tag("a"), top_k=1)
            assert own.names(found) == ["one"]

    @pytest.mark.parametrize("payload", [{}, {"body": ""}, {"text": "  \n"}, {"body": None}])
    async def test_a_payload_without_text_finds_nothing(
        self, client: KnowledgeClient, own: Own, payload: dict[str, Any]
    ) -> None:
        await client.upsert(own.document("one"), refresh=True)
        asking = client.with_payload(payload)
        assert await asking.fetch(own.tag("a")) == []
        assert own.names(await asking.fetch(own.tag("a"), QUESTION)) == ["one"]
        assert own.names(await asking.fetch(own.tag("a"), "")) == ["one"]

    async def test_limits_shrink_what_is_asked_and_never_widen_it(self, client: KnowledgeClient, own: Own) -> None:
        await client.bulk_upsert([own.document(str(at)) for at in range(4)], refresh=True)
        asking = client.with_payload({"body": QUESTION, "retrieval_limits": {"max_top_k": 2}})
        tag = own.tag("a")
        assert len(await asking.fetch(tag, top_k=3)) == 2
        assert len(await asking.fetch(tag, top_k=1)) == 1
        assert len(await asking.fetch(tag, "", 3)) == 2
        query = Query(text=QUESTION, tags=tag, top_k=3)
        assert len((await asking.query(query)).documents) == 2
        assert [len(one.documents) for one in await asking.query_batch([query, query])] == [2, 2]
        assert [len(one) for one in await asking.fetch_many([query, {"tags": tag, "top_k": 1}])] == [2, 1]
        assert len(await client.fetch(tag, QUESTION, 3)) == 3

    async def test_the_floor_of_the_limits_is_for_scored_hits(self, client: KnowledgeClient, own: Own) -> None:
        near, far = own.document("near"), own.document("far", "the timetable of another place altogether, in short")
        await client.bulk_upsert([far, near], refresh=True)
        high, low = [_score(one) for one in await client.fetch(own.tag("a"), QUESTION)]
        limits = RetrievalLimits(min_score_floor=(high + low) / 2)
        asking = client.with_payload({"body": QUESTION, "retrieval_limits": limits})
        assert own.names(await asking.fetch(own.tag("a"))) == ["near"]
        assert len(await asking.fetch(own.tag("a"), "")) == 2
        lower = client.with_payload({"retrieval_limits": {"min_score_floor": low / 2}})
        assert own.names(await lower.fetch(own.tag("a"), QUESTION, 5, (high + low) / 2)) == ["near"]

    # expiry

    async def test_an_expired_document_is_never_returned(self, client: KnowledgeClient, own: Own) -> None:
        soon = datetime.now(UTC) + timedelta(seconds=1.5)
        documents = [own.document("short", expires_at=soon), own.document("long", expires_at=soon + timedelta(days=1))]
        await client.bulk_upsert(documents, refresh=True)
        assert set(own.names(await client.fetch(own.tag("a"), QUESTION))) == {"short", "long"}
        await asyncio.sleep((soon - datetime.now(UTC)).total_seconds() + 0.1)
        assert own.names(await client.fetch(own.tag("a"), QUESTION)) == ["long"]
        assert own.names(await client.fetch(own.tag("a"), "")) == ["long"]
        assert own.names([one async for one in client.list(tags=own.tag("a"))]) == ["long"]
        with pytest.raises(NotFound):
            await client.get(own.id("short"))

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


def _score(passage: Passage) -> float:
    assert passage.score is not None
    return passage.score
