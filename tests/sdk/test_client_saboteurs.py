"""The client's suite notices what it is for: each saboteur, a fake with one defect, fails the test named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from knowledge_store_sdk._wire import Encoded, Narrowing
from knowledge_store_sdk.models import BulkResult, DeleteResult, DocumentPage, KnowledgeDocument, Query, QueryResult
from knowledge_store_sdk.testing import FakeKnowledgeClient
from knowledge_store_sdk.testing._memory import MemoryStore
from knowledge_store_sdk.testing.client_cases import Own
from knowledge_store_sdk.testing.client_suite import KnowledgeClientSuite


def now() -> datetime:
    return datetime.now().astimezone()


class NoFilter(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        return await super().query(query.model_copy(update={"tags": None}) if query.text else query)


class NoFilterInLists(MemoryStore):
    async def documents(self, which: Narrowing, *, cursor: str | None, limit: int) -> DocumentPage:
        return await super().documents(replace(which, tags=None), cursor=cursor, limit=limit)


class DeletesTooMuch(MemoryStore):
    async def delete_matching(self, which: Narrowing, expect: int, *, refresh: bool) -> DeleteResult:
        deleted = await super().delete_matching(which, expect, refresh=refresh)
        for id in list(self._kept):
            await self.delete(id, refresh=refresh)
        return deleted


class AlwaysEmpty(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        return QueryResult(documents=(), took_ms=0)


class ExpiryIgnored(MemoryStore):
    def _is_live(self, one: Any) -> bool:
        return True


class DeletedKept(MemoryStore):
    async def delete(self, id: str, *, refresh: bool) -> DeleteResult:
        await self.get(id)
        return DeleteResult(deleted=1)


class IdsCut(MemoryStore):
    def keep(self, document: Encoded) -> Any:
        one = KnowledgeDocument.model_validate_json(document.json)
        cut = one.model_copy(update={"id": one.id[:512]})
        return super().keep(Encoded(cut.id, cut.model_dump_json().encode()))


class ScoresBeyondOne(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        found = await super().query(query)
        beyond = tuple(one.model_copy(update={"score": (one.score or 0) * 10}) for one in found.documents)
        return found.model_copy(update={"documents": beyond})


class TopKIgnored(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        return await super().query(query.model_copy(update={"top_k": 100}))


class MinScoreIgnored(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        return await super().query(query.model_copy(update={"min_score": 0.0}))


class BatchOutOfOrder(MemoryStore):
    async def query_batch(self, queries: Sequence[Query]) -> Sequence[QueryResult]:
        return list(reversed(list(await super().query_batch(queries))))


class OneBadItemFailsAll(MemoryStore):
    async def bulk_upsert(self, documents: Sequence[Encoded], *, refresh: bool) -> BulkResult:
        for document in documents:
            KnowledgeDocument.model_validate_json(document.json)
        return await super().bulk_upsert(documents, refresh=refresh)


class OldPartsKept(MemoryStore):
    def _belongs(self, id: str, parent_id: str) -> bool:
        return False


class SweepsEverything(MemoryStore):
    async def sweep(self, source: str, not_seen_since: datetime, expect: int | None, *, refresh: bool) -> DeleteResult:
        return await super().sweep(source, now(), None, refresh=refresh)


class PagesEndEarly(MemoryStore):
    async def documents(self, which: Narrowing, *, cursor: str | None, limit: int) -> DocumentPage:
        page = await super().documents(which, cursor=cursor, limit=limit)
        return page.model_copy(update={"cursor": None})


class ProjectsIgnored(MemoryStore):
    async def query(self, query: Query) -> QueryResult:
        everything = [one.document for one in self._kept.values()]
        for one in everything:
            self._keep(one.model_copy(update={"project_id": None}), None)
        return await super().query(query)


class LimitsIgnored(FakeKnowledgeClient):
    def _take(self, payload: object) -> None:
        limits = self._limits
        super()._take(payload)
        self._limits = limits


CAUGHT: list[tuple[type[MemoryStore], str, dict[str, Any]]] = [
    (NoFilter, "test_search_list_and_count_read_an_expression_alike", {"expression": "a+b|c"}),
    (NoFilterInLists, "test_search_list_and_count_read_an_expression_alike", {"expression": "a+b+c"}),
    (DeletesTooMuch, "test_delete_reads_an_expression_as_search_does", {"expression": "a|b+c"}),
    (AlwaysEmpty, "test_hits_are_ordered_by_a_score_of_0_to_1", {}),
    (ExpiryIgnored, "test_an_expired_document_is_never_returned", {}),
    (DeletedKept, "test_any_id_comes_back_as_it_was_sent", {"name": "stats"}),
    (IdsCut, "test_any_id_comes_back_as_it_was_sent", {"name": "x" * 2000}),
    (ScoresBeyondOne, "test_hits_are_ordered_by_a_score_of_0_to_1", {}),
    (TopKIgnored, "test_top_k_is_the_most_that_is_returned", {}),
    (MinScoreIgnored, "test_min_score_is_a_floor", {}),
    (BatchOutOfOrder, "test_many_questions_are_answered_in_order", {}),
    (OneBadItemFailsAll, "test_one_bad_item_fails_alone", {}),
    (OldPartsKept, "test_a_replacement_becomes_the_whole_set", {}),
    (SweepsEverything, "test_a_sweep_removes_what_was_not_written_since", {}),
    (PagesEndEarly, "test_listing_goes_through_all_pages_newest_first", {}),
    (ProjectsIgnored, "test_a_project_sees_its_own_and_the_global_documents", {}),
]


@pytest.mark.parametrize(
    ("saboteur", "test", "arguments"), CAUGHT, ids=[f"{one[0].__name__}-{one[1]}" for one in CAUGHT]
)
async def test_a_saboteur_is_caught_and_an_honest_client_is_not(
    saboteur: type[MemoryStore], test: str, arguments: dict[str, Any]
) -> None:
    run = getattr(KnowledgeClientSuite(), test)
    await run(FakeKnowledgeClient(), Own(), **arguments)
    sabotaged = FakeKnowledgeClient()
    sabotaged._wire = saboteur(now)
    with pytest.raises((Exception, pytest.fail.Exception)):
        await run(sabotaged, Own(), **arguments)


async def test_limits_that_are_ignored_are_caught() -> None:
    for test in (
        "test_limits_shrink_what_is_asked_and_never_widen_it",
        "test_the_floor_of_the_limits_is_for_scored_hits",
    ):
        with pytest.raises(AssertionError):
            await getattr(KnowledgeClientSuite(), test)(LimitsIgnored(), Own())
