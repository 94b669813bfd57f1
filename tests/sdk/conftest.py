"""A service that plays roles, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from knowledge_store_sdk.client import KnowledgeClient
from tests.sdk.roles import Role, Service


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """start(role, …, **client options) -> the service that plays them, and a client for it."""
    opened: list[Any] = []

    async def start_(*roles: Role, **options: Any) -> tuple[Service, KnowledgeClient]:
        service = await Service(list(roles)).__aenter__()
        client = KnowledgeClient(service.url, **options)
        opened.extend((service, client))
        return service, client

    yield start_
    for one in reversed(opened):
        await one.__aexit__(None, None, None)
