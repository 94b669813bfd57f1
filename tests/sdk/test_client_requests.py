"""What the client sends: addresses, keys, ids, bodies; and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_store_sdk import errors
from knowledge_store_sdk._http import base_address
from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import (
    ConfigError,
)
from knowledge_store_sdk.models import KnowledgeDocument, Query
from tests.sdk.roles import answers

STATS = {"total": 1, "pending_vectors": 0, "tags": {"a": 1}, "sources": {"s": 1}}
FOUND = {"documents": [], "took_ms": 1.0}
DOCUMENT = KnowledgeDocument(id="x", content="text")


@pytest.mark.parametrize("tail", ["", "/", "/api/v1", "/api/v1/", "/api/v1/knowledge", "/api/v1/knowledge/"])
@pytest.mark.parametrize("base", ["http://h:8080", "https://h/some/where"])
def test_an_address_is_taken_with_or_without_the_routes(base: str, tail: str) -> None:
    assert base_address(base + tail) == f"{base}/api/v1/knowledge"


@pytest.mark.parametrize("url", ["", "h:8080", "ftp://h", "http://", "http://h?x=1", "http://h#x", "http://u:secret@h"])
def test_what_is_no_address_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KnowledgeClient(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\n", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KnowledgeClient("http://h", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("options", [{"query_timeout_s": 0}, {"connect_timeout_s": -1}, {"retries": -1}])
def test_timeouts_and_retries_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        KnowledgeClient("http://h", **options)


async def test_the_key_goes_in_its_header_and_is_never_printed(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, STATS), api_key="key-123")
    await client.stats()
    assert service.seen[0].headers["X-API-Key"] == "key-123"
    assert "key-123" not in repr(client) + str(client) + repr(client.with_payload({}))
    assert "key-123" not in repr(vars(client))


async def test_the_key_does_not_follow_a_redirect(start: Callable[..., Any]) -> None:
    elsewhere, _ = await start(answers(200, STATS))
    service, client = await start(answers(307, {}, headers={"Location": elsewhere.url}), api_key="key-123")
    with pytest.raises(ConfigError, match=elsewhere.url):
        await client.stats()
    assert (len(service.seen), len(elsewhere.seen)) == (1, 0)


@pytest.mark.parametrize("id", ["a/../b", "a+b c", "100%", "%2F", "?x=1&tags=y#z", "é\n👩‍👩‍👧", "a" * 2048])
async def test_an_id_arrives_as_it_was_given(start: Callable[..., Any], id: str) -> None:
    service, client = await start(answers(200, {"deleted": 1}))
    await client.delete(id)
    assert service.seen[0].path == "/api/v1/knowledge/documents"
    assert service.seen[0].query == {"id": id}


async def test_a_tag_expression_arrives_with_its_plus(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, STATS))
    await client.stats("a+b|c")
    assert service.seen[0].query == {"tags": "a+b|c"}


@pytest.mark.parametrize("tags", ["a b", "a|", " "])
async def test_a_malformed_expression_is_never_sent(start: Callable[..., Any], tags: str) -> None:
    service, client = await start(answers(200, {}))
    for attempt in (
        client.stats(tags),
        client.list(tags=tags).__anext__(),
        client.delete_by_tags(tags, 1),
        client.fetch(tags, "x"),
        client.query(Query(text="x", tags=tags)),
        client.fetch_many([Query(text="x", tags=tags)]),
    ):
        with pytest.raises(errors.InvalidTagExpression):
            await attempt
    assert service.seen == []


async def test_a_document_is_sent_without_what_it_does_not_say(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"id": "x", "state": "stored"}))
    document = DOCUMENT.model_copy(update={"metadata": {"kept": None}, "score": 0.5})
    await client.upsert(document, refresh=True)
    assert service.seen[0].json == {
        "id": "x", "content": "text", "tags": [], "metadata": {"kept": None}, "principals": []
    }  # fmt: skip
    assert service.seen[0].query == {"refresh": "wait_for"}
    assert service.seen[0].headers["Content-Type"] == "application/json"


async def test_a_replacement_is_one_put(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"id": "p", "stored": 1, "removed": 0, "vectors": "ready"}))
    await client.replace("p/1", [DOCUMENT], revision="r", title='"', source="s")
    [seen] = service.seen
    assert (seen.method, seen.path, seen.query) == ("PUT", "/api/v1/knowledge/parents", {"id": "p/1"})
    assert {name: seen.json[name] for name in ("revision", "title", "source")} == {
        "revision": "r", "title": '"', "source": "s"
    }  # fmt: skip
    assert [one["id"] for one in seen.json["documents"]] == ["x"]


async def test_a_sweep_says_since_when_with_its_zone(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"deleted": 0}))
    since = datetime(2026, 5, 1, 8, tzinfo=UTC)
    await client.sweep("wiki", since, 0)
    assert service.seen[0].path == "/api/v1/knowledge/sources/wiki/sweep"
    assert datetime.fromisoformat(service.seen[0].json["not_seen_since"]) == since
    assert service.seen[0].json["expect"] == 0


async def test_fields_of_a_newer_service_are_passed_over(start: Callable[..., Any]) -> None:
    document = {"id": "x", "content": "c", "mood": "good", "metadata": {"mood": 1}}
    _, client = await start(answers(200, {"documents": [document], "cursor": None, "more": 1}))
    [found] = [one async for one in client.list()]
    assert (found.content, found.metadata) == ("c", {"mood": 1})


async def test_twenty_questions_go_in_one_request(start: Callable[..., Any]) -> None:
    service, client = await start(answers(200, {"results": [FOUND] * 20}), answers(200, {"results": [FOUND] * 5}))
    assert len(await client.query_batch([Query(text=str(at)) for at in range(25)])) == 25
    assert [len(one.json["queries"]) for one in service.seen] == [20, 5]


# a life


async def test_a_closed_client_says_so(start: Callable[..., Any]) -> None:
    _, client = await start(answers(200, STATS))
    await client.stats()
    await client.close()
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.stats()


async def test_a_client_with_a_payload_leaves_the_connections_open(start: Callable[..., Any]) -> None:
    _, client = await start(answers(200, STATS))
    async with client.with_payload({"body": "x"}) as asking:
        await asking.stats()
    assert (await client.stats()).total == 1
