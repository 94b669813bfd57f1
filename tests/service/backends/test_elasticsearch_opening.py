"""Connecting: what is installed, what is upgraded, what is refused and how."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import ValidationError

from knowledge_store.backends.elasticsearch import ElasticsearchConfig, open_backend, schema
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, IdentityMismatch, WrongCredentials, WrongVersion
from knowledge_store_sdk.testing.index_cases import ALL, IDENTITY, stored, write
from tests.servers.rest import call
from tests.service.backends.elasticsearch_proxy import Proxy, proxied


@pytest_asyncio.fixture
async def proxy(elasticsearch_url: str) -> AsyncIterator[Proxy]:
    async with proxied(elasticsearch_url) as proxy:
        yield proxy


async def opened(settings: dict[str, Any]) -> None:
    index = open_backend(settings)
    try:
        await index.open()
    finally:
        await index.close()


async def test_opening_installs_templates_and_indices_behind_aliases(elasticsearch_url: str, index_prefix: str) -> None:
    await opened({"url": elasticsearch_url, "index_prefix": index_prefix, "shards": 2})
    for kind in ("documents", "parents", "state"):
        name = f"{index_prefix}-{kind}"
        [template] = call("GET", elasticsearch_url, f"/_index_template/{name}").body["index_templates"]
        assert template["index_template"]["version"] == 1
        assert template["index_template"]["_meta"]["version"] == 1
        [(index, one)] = call("GET", elasticsearch_url, f"/{name}").body.items()
        assert index == f"{name}-000001"
        assert one["mappings"]["dynamic"] == "strict"
        assert one["settings"]["index"]["refresh_interval"] == "1s"
        assert one["settings"]["index"]["auto_expand_replicas"] == "0-1"
    settings = call("GET", elasticsearch_url, f"/{index_prefix}-documents/_settings").body
    assert settings[f"{index_prefix}-documents-000001"]["settings"]["index"]["number_of_shards"] == "2"


async def test_vectors_are_quantised_as_said_and_not_as_the_server_prefers(
    elasticsearch_url: str, index_prefix: str
) -> None:
    index = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
    await index.open()
    await index.bind(IDENTITY.model_copy(update={"dims": 384}))
    await index.close()
    mapping = call("GET", elasticsearch_url, f"/{index_prefix}-documents/_mapping").body
    vector = mapping[f"{index_prefix}-documents-000001"]["mappings"]["properties"]["embedding"]
    assert vector["index_options"] == {"type": "int8_hnsw", "m": 16, "ef_construction": 100}
    assert (vector["dims"], vector["similarity"]) == (384, "dot_product")


async def test_several_services_may_open_at_once(elasticsearch_url: str, index_prefix: str) -> None:
    settings = {"url": elasticsearch_url, "index_prefix": index_prefix}
    await asyncio.gather(*(opened(settings) for _ in range(4)))
    indices = call("GET", elasticsearch_url, f"/{index_prefix}-*/_settings").body
    assert len(indices) == 3


async def test_of_two_embedders_bound_at_once_one_is_bound(elasticsearch_url: str, index_prefix: str) -> None:
    settings = {"url": elasticsearch_url, "index_prefix": index_prefix}
    indices = [open_backend(settings) for _ in range(2)]
    await indices[0].open()
    await indices[1].open()
    others = [IDENTITY.model_copy(update={"model": f"model-{n}"}) for n in range(2)]
    bound = await asyncio.gather(*(i.bind(o) for i, o in zip(indices, others, strict=True)), return_exceptions=True)
    assert sorted(type(one) for one in bound if one is not None) == [IdentityMismatch]
    kept = await indices[0].identity()
    assert kept in others
    assert kept == await indices[1].identity()
    for index in indices:
        await index.close()


async def test_an_older_index_gets_the_new_fields_and_keeps_its_documents(
    elasticsearch_url: str, index_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = await asyncio.to_thread(schema.load_templates)
    older = json.loads(json.dumps(templates))
    older["documents"]["version"] = 0
    del older["documents"]["template"]["mappings"]["properties"]["section"]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "load_templates", lambda: older)
        index = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
        await index.open()
        await index.upsert([write("old", "kafka", vector=None)], refresh=True)
        await index.close()
    index = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
    await index.open()
    await stored(index, write("new", "kafka", vector=None, section="Recovery"))
    assert await index.count(ALL) == 2
    await index.close()
    mapping = call("GET", elasticsearch_url, f"/{index_prefix}-documents/_mapping").body
    assert mapping[f"{index_prefix}-documents-000001"]["mappings"]["_meta"]["version"] == 1
    [template] = call("GET", elasticsearch_url, f"/_index_template/{index_prefix}-documents").body["index_templates"]
    assert template["index_template"]["version"] == 1


async def test_an_index_of_a_newer_service_is_refused(
    elasticsearch_url: str, index_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = await asyncio.to_thread(schema.load_templates)
    newer["parents"]["version"] = 2
    settings = {"url": elasticsearch_url, "index_prefix": index_prefix}
    with monkeypatch.context() as patch:
        patch.setattr(schema, "load_templates", lambda: newer)
        await opened(settings)
    with pytest.raises(WrongVersion, match="version 2 and this service knows 1"):
        await opened(settings)
    call("DELETE", elasticsearch_url, f"/_index_template/{index_prefix}-parents")
    with pytest.raises(WrongVersion, match="parents-000001 has version 2"):
        await opened(settings)


async def test_another_analyzer_than_the_index_has_is_refused(elasticsearch_url: str, index_prefix: str) -> None:
    settings = {"url": elasticsearch_url, "index_prefix": index_prefix}
    await opened(settings)
    with pytest.raises(ConfigError, match=r"analyzer.*english.*standard"):
        await opened({**settings, "analyzer": "standard"})


async def test_an_unknown_analyzer_is_refused(elasticsearch_url: str, index_prefix: str) -> None:
    settings = {"url": elasticsearch_url, "index_prefix": index_prefix, "analyzer": "nonsense"}
    with pytest.raises(ConfigError, match="nonsense"):
        await opened(settings)


@pytest.mark.parametrize("number", ["8.19.3", "9.1.4", "10.0.0", "nonsense"])
async def test_another_server_version_is_refused_by_both_names(proxy: Proxy, index_prefix: str, number: str) -> None:
    proxy.answers = lambda method, path: (200, {"version": {"number": number}}) if path == "/" else None
    with pytest.raises(WrongVersion, match=rf"Elasticsearch {number}.*needs 9\.2"):
        await opened({"url": proxy.address, "index_prefix": index_prefix})


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_are_a_matter_of_configuration_at_the_start(
    proxy: Proxy, index_prefix: str, status: int
) -> None:
    told = {"error": {"type": "security_exception", "reason": "no"}, "status": status}
    proxy.answers = lambda method, path: (status, told)
    with pytest.raises(WrongCredentials, match=r"elasticsearch\.api_key"):
        await opened({"url": proxy.address, "index_prefix": index_prefix})


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_refused_later_are_an_outage(proxy: Proxy, index_prefix: str, status: int) -> None:
    index = open_backend({"url": proxy.address, "index_prefix": index_prefix})
    await index.open()
    proxy.answers = lambda method, path: (status, {"error": {"type": "security_exception", "reason": "no"}})
    with pytest.raises(BackendUnavailable):
        await index.ping()
    await index.close()


async def test_a_server_that_is_down_is_unavailable(index_prefix: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await opened({"url": f"http://127.0.0.1:{port}", "index_prefix": index_prefix})


async def test_of_several_nodes_one_that_is_down_is_passed_over(elasticsearch_url: str, index_prefix: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{free.getsockname()[1]}"
    index = open_backend({"url": [down, elasticsearch_url], "index_prefix": index_prefix})
    await index.open()
    for _ in range(4):
        await index.ping()
    await index.close()


async def test_certificates_that_are_not_there_are_a_matter_of_configuration(index_prefix: str, tmp_path: Path) -> None:
    settings = {"url": "https://localhost:1", "ca_certs": str(tmp_path / "none.pem"), "index_prefix": index_prefix}
    with pytest.raises(ConfigError, match=r"elasticsearch\.ca_certs"):
        await opened(settings)


async def test_a_closed_index_asks_nothing_more(elasticsearch_url: str, index_prefix: str) -> None:
    index = open_backend({"url": elasticsearch_url, "index_prefix": index_prefix})
    await index.open()
    await index.close()
    with pytest.raises(BackendUnavailable, match="not open"):
        await index.ping()


def test_secrets_do_not_print() -> None:
    keyed = ElasticsearchConfig(url=("https://es.example.test",), api_key="c2VjcmV0")  # type: ignore[arg-type]
    named = ElasticsearchConfig(username="elastic", password="hunter2")  # type: ignore[arg-type]
    assert "c2VjcmV0" not in repr(keyed)
    assert "hunter2" not in repr(named)
    assert "hunter2" not in str(named)


@pytest.mark.parametrize(
    "settings",
    [
        {"username": "elastic"},
        {"password": "x"},
        {"api_key": "x", "username": "elastic", "password": "x"},
        {"url": "localhost:9200"},
        {"url": []},
        {"index_prefix": "Upper"},
        {"index_prefix": ""},
        {"shards": 0},
        {"unknown": 1},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        open_backend(settings)


def test_urls_are_a_list_or_separated_by_commas() -> None:
    both = ("http://a:9200", "http://b:9200")
    assert ElasticsearchConfig.model_validate({"url": "http://a:9200, http://b:9200"}).url == both
    assert ElasticsearchConfig.model_validate({"url": list(both)}).url == both


def test_every_setting_has_its_help_text() -> None:
    assert all(field.description for field in ElasticsearchConfig.model_fields.values())
