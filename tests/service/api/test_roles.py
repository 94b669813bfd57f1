"""Keys and roles through the routes: who may do what, and whose sources."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from knowledge_store.api.auth import key_hash, new_key
from knowledge_store.app import OPERATIONS
from knowledge_store_sdk import KnowledgeClient, KnowledgeDocument
from knowledge_store_sdk.errors import PermissionDenied, Unauthenticated
from tests.service.serving import serving

KEYS = {role: new_key() for role in ("reader", "writer", "admin")}
RANK = {"open": 0, "query": 0, "reader": 1, "writer": 2, "admin": 3}


def secured(store: dict[str, Any], **http: Any) -> dict[str, Any]:
    keys = [
        {"name": role, "role": role, "hash": key_hash(key), "sources": ["wiki"] if role == "writer" else []}
        for role, key in KEYS.items()
    ]
    return {**store, "keys": keys, "http": http}


@pytest.mark.parametrize("role", ["none", *KEYS])
async def test_every_operation_asks_for_its_role(embedded_store: dict[str, Any], role: str) -> None:
    async with serving(secured(embedded_store), api_key=KEYS.get(role)) as service:
        for operation in OPERATIONS:
            path = operation.path.replace("{source}", "wiki").replace("{id}", "x")
            body = {} if operation.request else None
            async with service.http.request(operation.method, path, json=body) as response:
                allowed = RANK.get(role, 0) >= RANK[operation.access]
                refused = response.status in (401, 403)
                assert refused != allowed, (operation.name, response.status)
                if refused:
                    assert response.status == (401 if role == "none" else 403)


async def test_a_question_needs_a_key_where_the_configuration_says_so(embedded_store: dict[str, Any]) -> None:
    async with serving(secured(embedded_store, open_query=False)) as service:
        with pytest.raises(Unauthenticated):
            await service.client.fetch(text="anything")


async def test_an_unknown_key_is_refused_even_where_none_is_needed(embedded_store: dict[str, Any]) -> None:
    async with serving(secured(embedded_store)) as service:
        headers = {"Authorization": "Bearer ks_wrong"}
        async with service.http.post("/api/v1/knowledge/query", json={"text": "a"}, headers=headers) as response:
            assert response.status == 401


async def test_a_writer_touches_its_own_sources_only(store: dict[str, Any]) -> None:
    async with (
        serving(secured(store), api_key=KEYS["admin"]) as service,
        KnowledgeClient(service.url, KEYS["writer"]) as writer,
    ):
        admin = service.client
        await admin.upsert(KnowledgeDocument(id="hr:1", content="pay bands", source="hr"), refresh=True)
        part = KnowledgeDocument(id="hr:page#0", content="pay bands, in parts")
        await admin.replace("hr:page", [part], source="hr", refresh=True)

        own = await writer.upsert(KnowledgeDocument(id="w:1", content="wiki text"), refresh=True)
        assert own.state == "stored"
        assert (await writer.get("w:1")).source == "wiki"
        with pytest.raises(PermissionDenied):
            await writer.upsert(KnowledgeDocument(id="hr:2", content="x", source="hr"))
        with pytest.raises(PermissionDenied):
            await writer.upsert(KnowledgeDocument(id="hr:1", content="x", source="wiki"))
        with pytest.raises(PermissionDenied):
            await writer.delete("hr:1")
        with pytest.raises(PermissionDenied):
            await writer.delete("hr:page#0")
        with pytest.raises(PermissionDenied):
            await writer.replace("hr:page", [], source="wiki")
        with pytest.raises(PermissionDenied):
            await writer.replace("w:page", [KnowledgeDocument(id="hr:page#0", content="x")], source="wiki")
        with pytest.raises(PermissionDenied):
            await writer.sweep("hr", service.clock())
        with pytest.raises(PermissionDenied):
            await writer.delete_by_tags("anything", expect=0)
        mixed = await writer.bulk_upsert(
            [
                KnowledgeDocument(id="w:2", content="y"),
                KnowledgeDocument(id="hr:1", content="taken over"),
                KnowledgeDocument(id="hr:page#0", content="taken over"),
            ],
            refresh=True,
        )
        assert [one.state for one in mixed.results] == ["stored", "failed", "failed"]
        assert {one.error.code for one in mixed.results if one.error} == {"permission_denied"}
        assert (await admin.get("hr:1")).content == "pay bands"
        assert (await admin.get("hr:page#0")).content == "pay bands, in parts"


async def test_a_stray_of_another_source_survives_a_replacement(store: dict[str, Any]) -> None:
    async with (
        serving(secured(store), api_key=KEYS["admin"]) as service,
        KnowledgeClient(service.url, KEYS["writer"]) as writer,
    ):
        stray = KnowledgeDocument(id="hr:stray", content="x", source="hr", metadata={"parent_id": "page"})
        await service.client.upsert(stray, refresh=True)
        await writer.replace("page", [KnowledgeDocument(id="page#0", content="text")], refresh=True)
        assert (await service.client.get("hr:stray")).source == "hr"


async def test_without_keys_a_page_of_another_name_is_refused(embedded_store: dict[str, Any]) -> None:
    async with serving(embedded_store) as service, aiohttp.ClientSession() as session:
        headers = {"Host": "attacker.example.test"}
        async with session.get(f"{service.url}/api/v1/knowledge/stats", headers=headers) as response:
            assert response.status == 401
