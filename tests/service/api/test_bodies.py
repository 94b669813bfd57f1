"""Field case 9.1: question texts and request bodies as people send them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from knowledge_store_sdk import KnowledgeDocument
from knowledge_store_sdk.errors import InvalidField, TooLarge
from tests.service.serving import Service, serving

QUERY = "/api/v1/knowledge/query"
UPSERT = "/api/v1/knowledge/upsert"
PLAIN_WORDS = [
    "C:\\logs (error",
    'a/b "x',
    "AND OR NOT",
    "*",
    "field:value",
    "title:[1 TO",
    "\N{FIRE}",
    "errors " * 2_857,
    "x" * 40_000,
    "error\0log",
    "-error +log ~2 ^3 /re.*/ {a TO b}",
]


async def problem(service: Service, method: str, path: str, **request: Any) -> dict[str, Any]:
    async with service.http.request(method, path, **request) as response:
        assert 400 <= response.status < 500, await response.text()
        assert response.content_type == "application/problem+json"
        body: dict[str, Any] = await response.json()
        assert body["status"] == response.status
        assert {"type", "title", "status", "detail", "code", "request_id"} <= set(body)
        assert "Traceback" not in body["detail"]
        return body


@pytest.mark.parametrize("text", PLAIN_WORDS, ids=lambda text: text[:16])
async def test_a_question_is_plain_words(service: Service, text: str) -> None:
    await service.client.upsert(KnowledgeDocument(id="a", content="an error in the log", title="value"), refresh=True)
    for mode in ("hybrid", "keyword"):
        body = await service.ask(text=text, mode=mode)
        assert body["degraded"] == []


async def test_no_operator_has_any_effect(service: Service) -> None:
    await service.client.upsert(KnowledgeDocument(id="a", content="alpha"), refresh=True)
    await service.client.upsert(KnowledgeDocument(id="b", content="bravo", source="alpha"), refresh=True)

    async def ids(text: str) -> set[str]:
        return {one["id"] for one in (await service.ask(text=text, mode="keyword"))["documents"]}

    assert await ids("alpha NOT bravo") == {"a", "b"}
    assert await ids("-alpha") == {"a"}
    assert await ids("alp*") == set()
    assert await ids('"alpha bravo"') == {"a", "b"}
    assert "b" not in await ids("source:alpha")
    assert await ids("source: alpha") == {"a"}
    assert await ids("alpha AND bravo") == {"a", "b"}


@pytest.mark.parametrize("text", ["", "   ", "\t\n", "\0"])
async def test_a_blank_question_without_a_tag_filter_is_400(embedded_service: Service, text: str) -> None:
    body = await problem(embedded_service, "POST", QUERY, json={"text": text})
    assert (body["status"], body["code"]) == (400, "invalid_request")


async def test_a_question_beyond_all_measure_is_refused(embedded_service: Service) -> None:
    body = await problem(embedded_service, "POST", QUERY, json={"text": "x" * 65_537})
    assert body["status"] == 422
    assert body["fields"][0]["field"] == "text"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"text": ', 400, "invalid_request"),
        (b'{"text": NaN}', 400, "invalid_request"),
        (b'{"min_score": Infinity, "text": "a"}', 400, "invalid_request"),
        (b"[1, 2]", 400, "invalid_request"),
        (b'"text"', 400, "invalid_request"),
        (b"null", 400, "invalid_request"),
        (b"", 400, "invalid_request"),
        (b"[" * 100_000, 400, "invalid_request"),
        ('{"text": "a"}'.encode("utf-16"), 400, "invalid_request"),
        (b'{"text": "\xff"}', 400, "invalid_request"),
        (b'{"text": "a", "colour": "red"}', 422, "invalid_field"),
        (b'{"text": "a", "top_k": 0}', 422, "invalid_field"),
        (b'{"text": "a", "top_k": 101}', 422, "invalid_field"),
        (b'{"text": "a", "top_k": "5"}', 422, "invalid_field"),
        (b'{"text": "a", "top_k": true}', 422, "invalid_field"),
        (b'{"text": "a", "mode": "magic"}', 422, "invalid_field"),
        (b'{"text": "a", "tags": "a b"}', 400, "invalid_tag_expression"),
        (b'{"text": "\\ud800"}', 422, "invalid_field"),
        (b'{"text": 7}', 422, "invalid_field"),
    ],
)
async def test_a_body_that_is_wrong_says_how(embedded_service: Service, body: bytes, status: int, code: str) -> None:
    headers = {"Content-Type": "application/json"}
    told = await problem(embedded_service, "POST", QUERY, data=body, headers=headers)
    assert (told["status"], told["code"]) == (status, code)


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "application/json; charset=utf-16"])
async def test_another_media_type_is_415(embedded_service: Service, media_type: str) -> None:
    told = await problem(embedded_service, "POST", QUERY, data=b"{}", headers={"Content-Type": media_type})
    assert told["code"] == "unsupported_media_type"


async def test_a_body_beyond_the_limit_is_413_with_or_without_a_length(embedded_store: dict[str, Any]) -> None:
    async with serving({**embedded_store, "http": {"max_body_bytes": 1024 * 1024}}) as service:
        body = b'{"text": "' + b"x" * (1024 * 1024 + 1 - 12) + b'"}'
        assert len(body) == 1_048_577

        async def parts() -> Any:
            for at in range(0, len(body), 65_536):
                yield body[at : at + 65_536]

        headers = {"Content-Type": "application/json"}
        for data in (io.BytesIO(body), parts()):
            told = await problem(service, "POST", UPSERT, data=data, headers=headers)
            assert told["code"] == "too_large"
        with pytest.raises(TooLarge):
            await service.client.replace("p", [KnowledgeDocument(id=f"d{n}", content="x" * 65_000) for n in range(20)])


async def test_the_default_limit_is_larger_than_what_the_sdk_sends(embedded_service: Service) -> None:
    documents = [KnowledgeDocument(id=f"d{n}", content="\u0001" * 30_000, tags=["big"]) for n in range(200)]
    result = await embedded_service.client.bulk_upsert(documents)
    assert (result.stored, result.failed) == (200, 0)


async def test_chunked_transfer_and_odd_header_names_are_understood(embedded_service: Service) -> None:
    async def parts() -> Any:
        yield b'{"id": "a", '
        yield b'"content": "alpha"}'

    headers = {"cOnTeNt-TyPe": "application/json"}
    async with embedded_service.http.post(UPSERT, data=parts(), headers=headers) as response:
        assert response.status == 200
    assert (await embedded_service.client.get("a")).content == "alpha"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", "\ud800"),
        ("content", "a\0b"),
        ("content", ""),
        ("content", "x" * 65_537),
        ("id", "x" * 2_049),
        ("id", ""),
        ("id", "a\0"),
        ("tags", ["a b"]),
        ("tags", [f"t{n}" for n in range(1_001)]),
        ("metadata", {"a": "\0"}),
        ("metadata", {"a": {"b": ["\udfff"]}}),
        ("metadata", {"n": 2**64}),
        ("metadata", {"x": "y" * 262_144}),
        ("metadata", ["no", "object"]),
        ("updated_at", "2026-01-01T00:00:00"),
        ("expires_at", 1_700_000_000),
        ("principals", ["staff"]),
        ("locator", {"type": "pdf", "page": 0}),
        ("colour", "red"),
    ],
    ids=lambda value: str(value)[:20].encode("ascii", "replace").decode(),
)
async def test_a_wrong_field_is_refused_by_name_and_nothing_is_stored(
    embedded_service: Service, field: str, value: object
) -> None:
    import json

    body = json.dumps({"id": "refused", "content": "text", field: value})
    headers = {"Content-Type": "application/json"}
    told = await problem(embedded_service, "POST", UPSERT, data=body, headers=headers)
    assert told["status"] == 422
    assert any(one["field"].startswith(field) for one in told["fields"]), told
    assert (await embedded_service.client.stats()).total == 0


async def test_the_sdk_raises_its_own_error_for_a_refusal(embedded_service: Service) -> None:
    wrong = KnowledgeDocument.model_construct(id="a", content="")
    with pytest.raises(InvalidField) as caught:
        await embedded_service.client.upsert(wrong)
    assert "content" in caught.value.fields


async def test_an_unknown_route_and_method_are_problems_too(embedded_service: Service) -> None:
    assert (await problem(embedded_service, "GET", "/api/v2/nothing"))["code"] == "not_found"
    assert (await problem(embedded_service, "PATCH", QUERY))["code"] == "method_not_allowed"


@pytest.mark.allow_blocking  # a traceback for the log reads the source files: for a defect only
async def test_a_defect_shows_no_trace(embedded_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(queries: object) -> object:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(embedded_service.services.queries, "answer", broken)
    async with embedded_service.http.post(QUERY, json={"text": "a"}) as response:
        assert response.status == 500
        text = await response.text()
    assert "secret detail" not in text
    assert "internal_error" in text


async def test_too_many_questions_at_once_are_refused_at_once(embedded_service: Service) -> None:
    embedded_service.services.queries_in_flight = embedded_service.services.http.max_queries_in_flight
    told = await problem(embedded_service, "POST", QUERY, json={"text": "a"})
    assert told["code"] == "rate_limited"
