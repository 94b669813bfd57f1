"""Field case 7.2 through the whole service: the embedder is down, has no model, is cold, hangs, and works again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from knowledge_store_sdk import KnowledgeDocument
from tests.service.embedders.servers import OllamaServer
from tests.service.serving import Service, serving

DOCUMENTS = [KnowledgeDocument(id=f"d{n}", content=f"broker number {n} lost its disk", tags=["t"]) for n in range(3)]
ANSWERS_WITHIN_S = 5.0


@pytest.fixture
async def embedder() -> AsyncIterator[OllamaServer]:
    server = OllamaServer()
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def beside(embedder: OllamaServer, store: dict[str, Any]) -> AsyncIterator[Service]:
    settings = {
        "provider": "ollama",
        "url": embedder.url,
        "model": "words",
        "query_timeout_s": 0.5,
        "write_timeout_s": 0.5,
    }
    async with serving({**store, "embedder": settings}) as service:
        yield service


async def state_of(service: Service) -> dict[str, Any]:
    async with service.http.get("/ready") as response:
        assert response.status == 200
        embedder: dict[str, Any] = (await response.json())["embedder"]
        return embedder


async def assert_it_serves_without_vectors(service: Service) -> str:
    """One write, one hybrid and one vector question, one health check; the reason that is given."""
    result = await service.client.bulk_upsert(DOCUMENTS, refresh=True)
    assert result.stored == 3
    assert {one.vectors for one in result.results} == {"pending"}
    started = time.perf_counter()
    answer = await service.ask(text="which broker lost its disk?")
    assert time.perf_counter() - started < ANSWERS_WITHIN_S
    assert len(answer["documents"]) == 3
    assert {tuple(one["scored_by"]) for one in answer["documents"]} == {("keyword",)}
    ((degraded),) = answer["degraded"]
    assert degraded["leg"] == "vector"
    async with service.http.post("/api/v1/knowledge/query", json={"text": "broker", "mode": "vector"}) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) >= 1
        assert (await response.json())["code"] == "backend_unavailable"
    async with service.http.get("/health") as response:
        assert response.status == 200
    state = await state_of(service)
    assert state["state"] != "ready"
    assert (await service.client.stats()).pending_vectors == 3
    reason: str = degraded["reason"]
    return reason


async def assert_vectors_come_by_themselves(service: Service, within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while (await service.client.stats()).pending_vectors:
        assert time.monotonic() < deadline, await state_of(service)
        await asyncio.sleep(0.2)
    answer = await service.ask(text="broker disk", mode="vector")
    assert len(answer["documents"]) == 3
    assert answer["degraded"] == []


async def test_down_at_the_start_and_back_later(embedder: OllamaServer, store: dict[str, Any]) -> None:
    await embedder.stop()
    async with beside(embedder, store) as service:
        assert await assert_it_serves_without_vectors(service)
        await embedder.start()
        await assert_vectors_come_by_themselves(service)
        assert (await state_of(service))["state"] == "ready"


async def test_a_missing_model_is_named_with_the_way_to_get_it(
    embedder: OllamaServer, embedded_store: dict[str, Any]
) -> None:
    embedder.model = "something-else"
    async with beside(embedder, embedded_store) as service:
        reason = await assert_it_serves_without_vectors(service)
        assert "words" in reason
        assert "ollama pull words" in reason
        before = len(embedder.requests)
        await asyncio.sleep(3)
        assert len(embedder.requests) - before < 10  # it does not ask without end


async def test_one_wait_is_long_enough_for_a_cold_model(embedder: OllamaServer, embedded_store: dict[str, Any]) -> None:
    loaded = asyncio.Event()

    async def load() -> web.Response | None:
        await loaded.wait()  # a real one starts over if its caller hangs up
        return None

    embedder.before_answer = load
    async with beside(embedder, embedded_store) as service:
        await assert_it_serves_without_vectors(service)
        loaded.set()
        await assert_vectors_come_by_themselves(service)
    assert embedder.hung_up == 0


async def test_hanging_in_mid_service_and_back_again(embedder: OllamaServer, embedded_store: dict[str, Any]) -> None:
    async with beside(embedder, embedded_store) as service:
        assert (await state_of(service))["state"] == "ready"
        released = asyncio.Event()

        async def hang() -> web.Response | None:
            await released.wait()
            return None

        embedder.before_answer = hang
        await assert_it_serves_without_vectors(service)
        started = time.perf_counter()
        for n in range(5):
            await service.ask(text=f"another question {n} about a broker")
        assert time.perf_counter() - started < ANSWERS_WITHIN_S  # they do not queue behind one another
        released.set()
        embedder.before_answer = None
        await assert_vectors_come_by_themselves(service)


async def test_a_later_write_is_not_undone_by_a_vector_of_the_earlier_one(
    embedder: OllamaServer, store: dict[str, Any]
) -> None:
    await embedder.stop()
    async with beside(embedder, store) as service:
        await service.client.upsert(DOCUMENTS[0], refresh=True)
        newer = DOCUMENTS[0].model_copy(update={"content": "the broker was repaired"})
        await service.client.upsert(newer, refresh=True)
        await embedder.start()
        deadline = time.monotonic() + 30
        while (await service.client.stats()).pending_vectors:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        assert (await service.client.get("d0")).content == "the broker was repaired"


async def test_a_text_whose_vector_is_in_the_store_is_not_embedded_again(
    embedder: OllamaServer, store: dict[str, Any]
) -> None:
    async with beside(embedder, store) as service:
        await service.client.bulk_upsert(DOCUMENTS, refresh=True)
    embedder.batches.clear()
    async with beside(embedder, store) as service:
        again = [document.model_copy(update={"tags": ("other",)}) for document in DOCUMENTS]
        result = await service.client.bulk_upsert(again, refresh=True)
        assert {one.vectors for one in result.results} == {"ready"}
        copy = DOCUMENTS[0].model_copy(update={"id": "copy"})
        assert (await service.client.upsert(copy, refresh=True)).vectors == "ready"
        sent = set(embedder.texts)
        assert not sent & {document.content for document in DOCUMENTS}
        assert len((await service.ask(text="broker disk", mode="vector"))["documents"]) == 4


async def test_a_refused_text_is_tried_at_growing_distances_and_shown(
    embedder: OllamaServer, embedded_store: dict[str, Any]
) -> None:
    embedder.count = lambda text: 999 if text in "poison" else 1  # and so is each part of it
    async with beside(embedder, embedded_store) as service:
        result = await service.client.bulk_upsert(
            [*DOCUMENTS, KnowledgeDocument(id="bad", content="poison")], refresh=True
        )
        assert [one.vectors for one in result.results] == ["ready", "ready", "ready", "pending"]
        for attempts, minutes in ((1, 0), (2, 2), (3, 5)):
            service.clock.ahead = timedelta(minutes=minutes)
            deadline = time.monotonic() + 10
            while True:
                async with service.http.get("/debug/refused-texts") as response:
                    shown = (await response.json())["documents"]
                if shown and shown[0]["attempts"] == attempts:
                    break
                assert time.monotonic() < deadline, shown
                await asyncio.sleep(0.2)
            assert shown[0]["id"] == "bad"
            assert "context length" in shown[0]["reason"]
        await asyncio.sleep(2.5)  # two more runs, none of them due
        async with service.http.get("/debug/refused-texts") as response:
            assert (await response.json())["documents"][0]["attempts"] == 3
        assert len([text for text in embedder.texts if "poison" in text]) < 10
        assert (await service.client.stats()).pending_vectors == 1
        assert (await service.ask(text="poison", mode="keyword"))["documents"][0]["id"] == "bad"
