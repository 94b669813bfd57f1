"""`doctor` tells what is wrong apart: each has its own exit code and its remedy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from knowledge_store.cli.doctor import Finding, examine
from knowledge_store.configuration import read_configuration
from tests.service.embedders.servers import OllamaServer
from tests.service.serving import serving
from tests.service.test_identity import DOCUMENTS, Model


@pytest.fixture
async def embedder() -> AsyncIterator[OllamaServer]:
    server = OllamaServer()
    await server.start()
    yield server
    await server.stop()


async def wrong(tmp_path: Path, settings: dict[str, Any]) -> list[Finding]:
    """What doctor finds wrong, after it was asked about these settings."""
    file = tmp_path / "doctor.yaml"
    whole = {"embedder": {"provider": "hashing"}, "http": {"port": 0}, **settings}
    file.write_text(yaml.safe_dump(whole))
    given = await asyncio.to_thread(read_configuration, file, {})
    return [one for one in await examine(given) if one.exit_code]


async def test_nothing_is_wrong(tmp_path: Path, store: dict[str, Any]) -> None:
    assert await wrong(tmp_path, store) == []


async def test_a_node_that_is_down(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    (found,) = await wrong(tmp_path, {"backend": "elasticsearch", "elasticsearch": {"url": url}})
    assert found.exit_code == 10
    assert url in found.told
    assert "start it" in found.told


async def answering(status: int, body: dict[str, Any]) -> tuple[web.AppRunner, str]:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body, status=status, headers={"X-Elastic-Product": "Elasticsearch"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (200, {"version": {"number": "8.17.0", "build_flavor": "default"}, "tagline": "x"}, 11, "8.17.0"),
        (401, {"error": {"type": "security_exception", "reason": "no"}, "status": 401}, 12, "elasticsearch."),
    ],
    ids=["wrong version", "wrong credentials"],
)
async def test_a_server_that_cannot_be_used(
    tmp_path: Path, status: int, body: dict[str, Any], code: int, told: str
) -> None:
    runner, url = await answering(status, body)
    try:
        (found,) = await wrong(tmp_path, {"backend": "elasticsearch", "elasticsearch": {"url": url}})
    finally:
        await runner.cleanup()
    assert found.exit_code == code
    assert told in found.told


async def test_an_index_of_another_embedder(tmp_path: Path, store: dict[str, Any]) -> None:
    async with serving(store, embedder=Model("m", 8)) as service:
        await service.client.bulk_upsert(DOCUMENTS)
    (found,) = await wrong(tmp_path, store)
    assert found.exit_code == 13
    assert "m (8 dims" in found.told
    assert "hashing (64 dims" in found.told
    assert "reindex" in found.told


async def test_a_model_that_is_missing(tmp_path: Path, embedded_store: dict[str, Any], embedder: OllamaServer) -> None:
    settings = {"embedder": {"provider": "ollama", "url": embedder.url, "model": "absent"}}
    (found,) = await wrong(tmp_path, {**embedded_store, **settings})
    assert found.exit_code == 14
    assert "ollama pull absent" in found.told


async def test_an_embedder_that_is_down(tmp_path: Path, embedded_store: dict[str, Any]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    (found,) = await wrong(tmp_path, {**embedded_store, "embedder": {"provider": "ollama", "url": url}})
    assert found.exit_code == 15
    assert url in found.told


async def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "knowledge.db"
    (found,) = await wrong(tmp_path, {"embedded": {"path": str(path)}})
    assert found.exit_code == 16
    assert str(path) in found.told
    assert "embedded.path" in found.told


async def test_a_port_that_another_program_has(tmp_path: Path, embedded_store: dict[str, Any]) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (found,) = await wrong(tmp_path, {**embedded_store, "http": {"port": taken.getsockname()[1]}})
    assert found.exit_code == 17
    assert "http.port" in found.told


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
