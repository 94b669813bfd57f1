"""Field cases 1.1 and 1.2 through the whole service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from knowledge_store_sdk import KnowledgeDocument
from tests.service.serving import Service

NEAR = "blue engine failure in the pump room"
FAR = "quarterly invoice approval"


async def ids(service: Service, **query: Any) -> set[str]:
    return {one["id"] for one in (await service.ask(text=NEAR, top_k=5, **query))["documents"]}


async def deposit(service: Service) -> None:
    blue = [
        KnowledgeDocument(id=f"blue-{n}", content=NEAR, tags=["blue"], source="blue", project_id="blue")
        for n in range(8)
    ]
    red = [KnowledgeDocument(id=f"red-{n}", content=FAR, tags=["red"], source="red") for n in range(2)]
    both = [one.model_copy(update={"id": f"{one.id}-global", "project_id": None}) for one in blue]
    assert (await service.client.bulk_upsert([*blue, *red, *both], refresh=True)).failed == 0


@pytest.mark.parametrize(
    "narrowing", [{"tags": "red"}, {"sources": ["red"]}, {"tags": "red", "sources": ["red"]}], ids=str
)
@pytest.mark.parametrize(
    ("mode", "found"), [("keyword", set()), ("vector", {"red-0", "red-1"}), ("hybrid", {"red-0", "red-1"})]
)
async def test_a_filter_binds_every_mode(service: Service, narrowing: Any, mode: str, found: set[str]) -> None:
    await deposit(service)
    assert await ids(service, mode=mode, **narrowing) == found


async def test_scope_and_expiry_bind_every_mode(service: Service) -> None:
    await deposit(service)
    for mode in ("keyword", "vector", "hybrid"):
        assert not any("global" not in id for id in await ids(service, mode=mode, tags="blue"))
        own = await ids(service, mode=mode, tags="blue", project_id="blue", include_global=False)
        assert own
        assert not any("global" in id for id in own)
    soon = service.clock() + timedelta(minutes=1)
    going = KnowledgeDocument(id="going", content=NEAR, tags=["going"], expires_at=soon)
    await service.client.upsert(going, refresh=True)
    assert await ids(service, tags="going") == {"going"}
    service.clock.ahead = timedelta(minutes=2)
    for mode in ("keyword", "vector", "hybrid"):
        assert await ids(service, mode=mode, tags="going") == set()


async def test_a_filter_that_nothing_matches_is_an_empty_answer(service: Service) -> None:
    await deposit(service)
    for mode in ("keyword", "vector", "hybrid"):
        assert await ids(service, mode=mode, tags="green") == set()


async def test_a_raw_plus_in_a_query_string_is_and(service: Service) -> None:
    for id, tags in {"1": ["a"], "2": ["b"], "4": ["a", "b"]}.items():
        await service.client.upsert(KnowledgeDocument(id=id, content="text", tags=tags), refresh=True)
    for path in ("tags=a+b", "tags=a%2Bb", "tags=a%20b"):
        async with service.http.get(f"/api/v1/knowledge/documents?{path}") as response:
            assert [one["id"] for one in (await response.json())["documents"]] == ["4"], path
        async with service.http.get(f"/api/v1/knowledge/stats?{path}") as response:
            assert (await response.json())["total"] == 1, path
    for path in ("tags=a++b", "tags=+a", "tags=a|", "tags=|", "tags=%20", "tags=a+%2Bb"):
        for method in ("GET", "DELETE"):
            url = f"/api/v1/knowledge/documents?{path}&expect=3"
            async with service.http.request(method, url if method == "DELETE" else url.partition("&")[0]) as response:
                assert response.status == 400, (method, path)
                assert "position" in await response.json()
    assert (await service.client.stats()).total == 3


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
async def test_a_document_that_left_the_filter_is_out_before_the_engine_refreshes(service: Service, mode: str) -> None:
    was = KnowledgeDocument(id="moved", content=NEAR, tags=["red"], source="red")
    await service.client.upsert(was, refresh=True)
    assert await ids(service, mode=mode, tags="red") == {"moved"}
    for change in ({"tags": ("blue",)}, {"project_id": "secret"}, {"expires_at": service.clock()}):
        await service.client.upsert(was, refresh=True)
        await service.client.upsert(was.model_copy(update=change))  # no refresh: searches still find the one before
        assert await ids(service, mode=mode, tags="red") == set(), change
