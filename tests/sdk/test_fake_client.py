"""The fake passes what the real client passes, and can be set up by its tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge_store_sdk.cache import KnowledgeCache
from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.testing import FakeKnowledgeClient
from knowledge_store_sdk.testing.client_suite import KnowledgeClientSuite


class TestFakeClient(KnowledgeClientSuite):
    @pytest.fixture
    def client(self) -> FakeKnowledgeClient:
        return FakeKnowledgeClient()


class TestFakeClientWithACache(KnowledgeClientSuite):
    @pytest.fixture
    def client(self) -> FakeKnowledgeClient:
        return FakeKnowledgeClient(cache=KnowledgeCache())


ALICE = KnowledgeDocument(id="alice", content="Alice is the CFO", tags=("employee",))


async def test_the_fake_starts_with_the_documents_given() -> None:
    client = FakeKnowledgeClient([ALICE])
    assert [one.id for one in await client.fetch("employee", "who is the CFO?")] == ["alice"]


async def test_for_analysis_needs_no_environment() -> None:
    client = FakeKnowledgeClient.for_analysis({"body": "the CFO"}, environ={}, documents=[ALICE])
    assert [one.id for one in await client.fetch("employee")] == ["alice"]


async def test_for_analysis_keeps_to_both_limits() -> None:
    documents = [ALICE.model_copy(update={"id": str(at)}) for at in range(5)]
    payload = {"text": "the CFO", "retrieval_limits": {"max_top_k": 3}}
    for own, expected in ((None, 3), ({"max_top_k": 2}, 2), ({"max_top_k": 4}, 3)):
        client = FakeKnowledgeClient.for_analysis(payload, documents=documents, retrieval_limits=own)
        assert len(await client.fetch("employee")) == expected


async def test_documents_expire_by_the_clock_given() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    expiring = ALICE.model_copy(update={"expires_at": now[0] + timedelta(days=1)})
    client = FakeKnowledgeClient([expiring], now=lambda: now[0])
    assert await client.fetch("employee", "")
    now[0] += timedelta(days=1)
    assert await client.fetch("employee", "") == []


async def test_what_a_caller_does_to_an_answer_changes_nothing_stored() -> None:
    client = FakeKnowledgeClient([ALICE.model_copy(update={"metadata": {"list": [1]}})])
    for found in ((await client.fetch("employee", ""))[0], await client.get("alice")):
        found.metadata["list"].append(2)
    assert (await client.get("alice")).metadata == {"list": [1]}
