"""The whole service in the test's own event loop, on a free loopback port, on either backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from knowledge_store.api.services import Services
from knowledge_store.app import listening, running
from knowledge_store.configuration import Configuration
from knowledge_store.settings import Settings
from knowledge_store_sdk import KnowledgeClient
from knowledge_store_sdk.protocols import Embedder


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Service:
    """A running service, its inside, and two ways to speak to it."""

    url: str
    services: Services
    client: KnowledgeClient
    http: aiohttp.ClientSession
    clock: Clock

    async def metric(self, name: str, **labels: str) -> float:
        """The value of a metric now; 0 before it has one."""
        await (await self.http.get("/metrics")).read()
        return self.services.metrics.registry.get_sample_value(name, labels) or 0.0

    async def ask(self, **query: Any) -> dict[str, Any]:
        """The JSON answer to a question that must succeed."""
        async with self.http.post("/api/v1/knowledge/query", json=query) as response:
            body: dict[str, Any] = await response.json()
            assert response.status == 200, body
            return body


@asynccontextmanager
async def serving(
    settings: dict[str, Any], *, embedder: Embedder | None = None, api_key: str | None = None
) -> AsyncIterator[Service]:
    """The service under these settings; the embedder is `hashing`, where nothing else is said."""
    whole = {"embedder": {"provider": "hashing"}, "log": {"level": "warning"}, **settings}
    whole["http"] = {"port": 0, **whole.get("http", {})}
    configuration = Configuration(Settings(**whole))
    clock = Clock()
    headers = {"X-API-Key": api_key} if api_key else {}
    async with (
        running(configuration, embedder=embedder, clock=clock) as services,
        listening(services, configuration.settings.http.host, 0) as url,
        KnowledgeClient(url, api_key) as client,
        aiohttp.ClientSession(url, headers=headers) as http,
    ):
        yield Service(url, services, client, http, clock)


@pytest.fixture(params=["embedded", "elasticsearch"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of an empty store, for each backend."""
    return _settings(request, request.param)


@pytest.fixture
def embedded_store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of an empty embedded store."""
    return _settings(request, "embedded")


@pytest.fixture
def elasticsearch_store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of an empty store in Elasticsearch."""
    return _settings(request, "elasticsearch")


@pytest.fixture
async def service(store: dict[str, Any]) -> AsyncIterator[Service]:
    """A service on each backend."""
    async with serving(store) as running_service:
        yield running_service


@pytest.fixture
async def embedded_service(embedded_store: dict[str, Any]) -> AsyncIterator[Service]:
    """A service on the embedded backend, for what does not depend on one."""
    async with serving(embedded_store) as running_service:
        yield running_service


def _settings(request: pytest.FixtureRequest, backend: str) -> dict[str, Any]:
    if backend == "embedded":
        folder: Path = request.getfixturevalue("tmp_path")
        return {"backend": "embedded", "embedded": {"path": str(folder / "knowledge.db")}}
    url = request.getfixturevalue("elasticsearch_url")
    prefix = request.getfixturevalue("index_prefix")
    return {"backend": "elasticsearch", "elasticsearch": {"url": url, "index_prefix": prefix}}
