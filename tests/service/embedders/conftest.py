"""The stand-ins for embedding servers, listening."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.service.embedders.servers import OllamaServer, OpenAIServer


@pytest.fixture
async def ollama() -> AsyncIterator[OllamaServer]:
    server = OllamaServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def openai() -> AsyncIterator[OpenAIServer]:
    server = OpenAIServer()
    await server.start()
    yield server
    await server.stop()
