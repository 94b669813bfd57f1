"""Every embedder passes the suite of its seam."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge_store.embedders import hashing, ollama, onnx, openai
from knowledge_store_sdk.protocols import Embedder
from knowledge_store_sdk.testing.embedder_suite import EmbedderSuite
from tests.service.embedders.servers import OllamaServer, OpenAIServer


class TestBundled(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        embedder = onnx.open_bundled({})
        yield embedder
        await embedder.close()


class TestHashing(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        embedder = hashing.open_embedder({})
        yield embedder
        await embedder.close()


class TestOllama(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, ollama: OllamaServer) -> AsyncIterator[Embedder]:
        embedder = open_ollama({"url": ollama.url, "model": "words"})
        yield embedder
        await embedder.close()


class TestOllamaWithPrefixes(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, ollama: OllamaServer) -> AsyncIterator[Embedder]:
        prefixes = {"query_prefix": "search_query: ", "passage_prefix": "search_document: "}
        embedder = open_ollama({"url": ollama.url, "model": "words"} | prefixes)
        yield embedder
        await embedder.close()


class TestOpenAI(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, openai: OpenAIServer) -> AsyncIterator[Embedder]:
        embedder = open_openai(
            {"url": f"{openai.url}/v1", "model": "words", "api_key": "secret", "max_tokens": openai.window}
        )
        yield embedder
        await embedder.close()


open_ollama, open_openai = ollama.open_embedder, openai.open_embedder  # the fixtures have the modules' names
