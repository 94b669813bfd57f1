"""The client of one analysis: where it asks, what with, and how much."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from knowledge_store_sdk._payload import read_payload, tighter
from knowledge_store_sdk.client import KnowledgeClient
from knowledge_store_sdk.errors import ConfigError, InvalidField, InvalidRequest
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.models import MAX_QUESTION_CHARS
from tests.sdk.roles import Service, answers

FOUND = {"documents": [], "took_ms": 1}


async def test_for_analysis_asks_where_the_environment_says_with_what_the_payload_says() -> None:
    async with Service([answers(200, FOUND)]) as service:
        environ = {"KNOWLEDGE_URL": service.url + "api/v1/knowledge/", "KNOWLEDGE_API_KEY": "k"}
        payload = {"body": "who is Alice?", "retrieval_limits": {"max_top_k": 1, "min_score_floor": 0.3}}
        async with KnowledgeClient.for_analysis(payload, environ=environ) as client:
            await client.fetch("employee", top_k=3, min_score=0.1)
            await client.fetch("employee", "another", min_score=0.5)
            await client.fetch("employee", "")
        first, second, third = service.seen
    assert first.headers["X-API-Key"] == "k"
    assert (first.json["text"], first.json["top_k"], first.json["min_score"]) == ("who is Alice?", 1, 0.3)
    assert (second.json["text"], second.json["top_k"], second.json["min_score"]) == ("another", 1, 0.5)
    assert (third.json["text"], third.json["top_k"], third.json["min_score"]) == ("", 1, 0.0)


async def test_nothing_is_sent_for_a_payload_without_text() -> None:
    async with Service([answers(200, FOUND)]) as service:
        async with KnowledgeClient.for_analysis({}, environ={"KNOWLEDGE_URL": service.url}) as client:
            assert await client.fetch("employee") == []
            assert await client.fetch_many([{"tags": "a"}, {}]) == [[], []]
            with pytest.raises(InvalidField):
                await client.fetch(top_k=0)
        assert service.seen == []


async def test_nothing_is_sent_where_there_is_no_payload() -> None:
    async with Service([answers(200, FOUND)]) as service:
        async with KnowledgeClient(service.url) as client:
            for asked in (client.fetch(), client.fetch("a"), client.fetch_many([{"text": "x"}, {"tags": "a"}])):
                with pytest.raises(InvalidRequest, match="payload"):
                    await asked
        assert service.seen == []


async def test_limits_of_the_client_hold_without_a_payload() -> None:
    async with Service([answers(200, FOUND)]) as service:
        async with KnowledgeClient(service.url, None, RetrievalLimits(max_top_k=2)) as client:
            await client.fetch("a", "x")
            await client.fetch("a", "x", 1)
        assert [one.json["top_k"] for one in service.seen] == [2, 1]


@pytest.mark.parametrize("environ", [{}, {"KNOWLEDGE_URL": ""}])
def test_without_an_address_the_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="KNOWLEDGE_URL"):
        KnowledgeClient.for_analysis({"body": "x"}, environ=environ)


def test_an_empty_key_is_none() -> None:
    KnowledgeClient.for_analysis({}, environ={"KNOWLEDGE_URL": "http://h", "KNOWLEDGE_API_KEY": ""})


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_URL", "http://from-the-environment")
    assert "from-the-environment" in repr(KnowledgeClient.for_analysis({}))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"text": "a"}, "a"),
        ({"body": "b"}, "b"),
        ({"text": "a", "body": "b"}, "a"),
        ({"text": " ", "body": "b"}, "b"),
        ({"text": None}, ""),
        ({}, ""),
        ({"text": "\n\t"}, ""),
        (SimpleNamespace(body="b"), "b"),
        (SimpleNamespace(text=None, retrieval_limits=None), ""),
        (MappingProxyType({"text": "a"}), "a"),
        ({"text": "broken \ud83d half"}, "broken ? half"),
        ({"text": "x" * (MAX_QUESTION_CHARS + 1)}, "x" * MAX_QUESTION_CHARS),
    ],
    ids=range(12),
)
def test_the_text_of_a_payload(payload: object, text: str) -> None:
    assert read_payload(payload).text == text


@pytest.mark.parametrize("payload", ["just a text", b"bytes", None, 5, object()])
def test_what_has_no_text_and_no_body_is_no_payload(payload: object) -> None:
    with pytest.raises(InvalidField):
        read_payload(payload)


@pytest.mark.parametrize("member", ["text", "body"])
@pytest.mark.parametrize("value", [b"bytes", ["x"], 5])
def test_a_text_of_another_type_is_named(member: str, value: object) -> None:
    with pytest.raises(InvalidField) as caught:
        read_payload({member: value})
    assert list(caught.value.fields) == [f"payload.{member}"]


@pytest.mark.parametrize(
    "limits",
    [
        {"max_top_k": 2, "min_score_floor": 0.5},
        MappingProxyType({"max_top_k": 2, "min_score_floor": 0.5}),
        SimpleNamespace(max_top_k=2, min_score_floor=0.5),
        RetrievalLimits(max_top_k=2, min_score_floor=0.5),
    ],
)
def test_limits_are_read_from_a_mapping_or_an_object(limits: object) -> None:
    assert read_payload({"retrieval_limits": limits}).limits == RetrievalLimits(max_top_k=2, min_score_floor=0.5)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"max_top_k": 0}, "max_top_k"),
        ({"max_top_k": "many"}, "max_top_k"),
        ({"min_score_floor": 2}, "min_score_floor"),
        ({"min_score_floor": float("nan")}, "min_score_floor"),
        (5, ""),
        ([], ""),
    ],
)
def test_limits_that_cannot_be_are_named_and_never_passed_over(limits: Any, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_payload({"retrieval_limits": limits})
    assert [name.startswith(f"payload.retrieval_limits.{field}".rstrip(".")) for name in caught.value.fields] == [True]


def test_the_tighter_of_two_limits_counts() -> None:
    one, other = RetrievalLimits(max_top_k=3, min_score_floor=0.2), RetrievalLimits(max_top_k=5, min_score_floor=0.4)
    assert tighter(one, other) == tighter(other, one) == RetrievalLimits(max_top_k=3, min_score_floor=0.4)
    assert tighter(one, RetrievalLimits()) == tighter(RetrievalLimits(), one) == one
