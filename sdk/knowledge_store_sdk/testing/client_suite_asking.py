"""What a client finds: tag expressions, scores, limits, payloads, expiry."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import Conflict, InvalidField, InvalidRequest, InvalidTagExpression, NotFound
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.locators import CodeLocator
from knowledge_store_sdk.models import Query
from knowledge_store_sdk.testing.client_cases import EXPRESSIONS, MALFORMED, QUESTION, SIX, Own, score


class AskingSuite:
    """A part of `KnowledgeClientSuite`."""

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
        scores = [score(one) for one in found]
        assert 1 >= scores[0] > scores[1] >= 0

    async def test_min_score_is_a_floor(self, client: KnowledgeClient, own: Own) -> None:
        near, far = own.document("near"), own.document("far", "the timetable of another place altogether, in short")
        await client.bulk_upsert([far, near], refresh=True)
        high, low = [score(one) for one in await client.fetch(own.tag("a"), QUESTION)]
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
        high, low = [score(one) for one in await client.fetch(own.tag("a"), QUESTION)]
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
