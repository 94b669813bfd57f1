"""The store from end to end: what goes in, what each reader gets, and what vanishes when."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from knowledge_store_sdk import KnowledgeClient, KnowledgeDocument, KnowledgeTag, RetrievalLimits, chunk_text
from tests.service.serving import Service

EMPLOYEES = [
    KnowledgeDocument(
        id="employee:ada@example.test",
        content="Ada Nguyen, chief finance officer. Email: ada@example.test.",
        tags=[KnowledgeTag.EMPLOYEE, KnowledgeTag.EXECUTIVE],
        metadata={"email": "ada@example.test"},
        source="people",
    ),
    KnowledgeDocument(
        id="employee:bo@example.test",
        content="Bo Okafor, accountant in the finance department. Email: bo@example.test.",
        tags=[KnowledgeTag.EMPLOYEE, KnowledgeTag.FINANCE],
        source="people",
    ),
    KnowledgeDocument(
        id="employee:cy@example.test",
        content="Cy Lindqvist, director of engineering. Email: cy@example.test.",
        tags=["director"],
        source="people",
    ),
]
WIKI = "Invoices are paid on Fridays.\n\n" + "A second person approves every payment above the limit.\n\n" * 20
POLICY = KnowledgeDocument(
    id="policy:travel",
    content="Travel is booked through the portal; a manager approves flights in advance.",
    tags=[KnowledgeTag.POLICY],
    source="policies",
)


async def deposit(service: Service) -> int:
    chunks = chunk_text(WIKI, max_chars=400, overlap=40)
    assert len(chunks) > 2
    page = [
        KnowledgeDocument(
            id=f"wiki:7#{at}", content=chunk, tags=[KnowledgeTag.WIKI_PAGE], metadata={"parent_id": "wiki:7"}
        )
        for at, chunk in enumerate(chunks)
    ]
    people = await service.client.bulk_upsert(EMPLOYEES, refresh=True)
    assert (people.stored, people.failed) == (3, 0)
    replaced = await service.client.replace("wiki:7", page, source="wiki", refresh=True)
    assert replaced.stored == len(page)
    assert (await service.client.upsert(POLICY, refresh=True)).state == "stored"
    return len(page)


async def found(service: Service, tags: str | None) -> set[str]:
    passages = await service.client.fetch(tags=tags, text="who approves the payment of invoices?", top_k=100)
    return {passage.id for passage in passages}


async def test_each_expression_returns_exactly_what_it_should(service: Service) -> None:
    pages = await deposit(service)
    people = {one.id for one in EMPLOYEES}
    wiki = {f"wiki:7#{at}" for at in range(pages)}
    assert await found(service, "employee") == {"employee:ada@example.test", "employee:bo@example.test"}
    assert await found(service, "employee+executive") == {"employee:ada@example.test"}
    assert await found(service, "wiki_page|policy") == wiki | {POLICY.id}
    assert await found(service, "employee+executive|director") == {
        "employee:ada@example.test",
        "employee:cy@example.test",
    }
    assert await found(service, None) == people | wiki | {POLICY.id}
    assert await found(service, "nobody") == set()


async def test_every_passage_leads_back_to_its_place(service: Service) -> None:
    await deposit(service)
    (ada,) = await service.client.fetch(tags="employee+executive", text="who is the finance officer?", top_k=1)
    stored = await service.client.get(ada.id)
    assert ada.citation.uri == "knowledge://people/employee:ada@example.test"
    assert ada.citation.content_hash == stored.content_hash
    assert ada.citation.revision == stored.content_hash
    assert ada.metadata == {"email": "ada@example.test"}


async def test_an_expired_document_vanishes_at_once_and_leaves_the_index_with_the_clean_up(service: Service) -> None:
    await deposit(service)
    expiring = POLICY.model_copy(
        update={"id": "policy:old", "expires_at": service.clock() + timedelta(hours=1), "tags": ("policy",)}
    )
    await service.client.upsert(expiring, refresh=True)
    assert await found(service, "policy") == {POLICY.id, "policy:old"}
    assert await found(service, "policy") == {POLICY.id, "policy:old"}  # from the cache now
    service.clock.ahead = timedelta(hours=2)
    assert await found(service, "policy") == {POLICY.id}
    assert (await service.client.stats(tags="policy")).total == 1
    before = await service.metric("knowledge_docs_total")
    assert await service.services.maintenance.clean_up() == 1
    await asyncio.sleep(1.1)
    assert await service.metric("knowledge_docs_total") == before - 1
    assert await service.metric("knowledge_cleanup_deleted_total") == 1


async def test_metrics_move_by_the_right_amounts(service: Service) -> None:
    pages = await deposit(service)
    assert await service.metric("knowledge_upserts_total", source="people") == 3
    assert await service.metric("knowledge_upserts_total", source="wiki") == pages
    assert await service.metric("knowledge_docs_total") == pages + 4
    assert await service.metric("knowledge_vectors_pending") == 0
    labels = {"cache_hit": "false", "has_tag_filter": "true"}
    misses = await service.metric("knowledge_embed_cache_misses_total")
    assert await service.metric("knowledge_query_duration_seconds_count", **labels) == 0
    await found(service, "employee")
    assert await service.metric("knowledge_query_duration_seconds_count", **labels) == 1
    assert await service.metric("knowledge_embed_cache_misses_total") == misses + 1
    await found(service, "employee")
    labels["cache_hit"] = "true"
    assert await service.metric("knowledge_query_duration_seconds_count", **labels) == 1
    assert await service.metric("knowledge_embed_cache_misses_total") == misses + 1


async def test_a_cap_of_one_yields_one_document_for_a_caller_that_asked_for_three(service: Service) -> None:
    await deposit(service)
    capped = KnowledgeClient(service.url, retrieval_limits=RetrievalLimits(max_top_k=1))
    async with capped:
        assert len(await capped.fetch(tags="employee|director", text="finance", top_k=3)) == 1
    assert len(await service.client.fetch(tags="employee|director", text="finance", top_k=3)) == 3


async def test_what_one_service_deletes_is_gone_from_the_cache_of_another_within_two_seconds(
    elasticsearch_store: dict[str, object],
) -> None:
    from tests.service.serving import serving

    async with serving(elasticsearch_store) as one, serving(elasticsearch_store) as other:
        await one.client.upsert(POLICY, refresh=True)
        await asyncio.sleep(2)
        assert await found(other, "policy") == {POLICY.id}
        assert (await other.ask(text="travel", tags="policy"))["cache_hit"] is False
        assert (await other.ask(text="travel", tags="policy"))["cache_hit"] is True
        await one.client.delete(POLICY.id)
        await asyncio.sleep(2)
        assert await found(other, "policy") == set()
        assert (await other.ask(text="travel", tags="policy"))["documents"] == []


async def test_twenty_questions_share_round_trips_and_answer_like_one(service: Service) -> None:
    await deposit(service)
    questions = [{"text": text, "tags": tags} for text in ("finance", "travel") for tags in ("employee", "policy", "")]
    single = [await service.ask(**question) for question in questions]
    async with service.http.post("/api/v1/knowledge/query-batch", json={"queries": questions}) as response:
        batch = (await response.json())["results"]
    assert [[one["id"] for one in answer["documents"]] for answer in batch] == [
        [one["id"] for one in answer["documents"]] for answer in single
    ]
    assert any(answer["documents"] for answer in batch)
