"""A text longer than the model takes, on servers that refuse it, cut it, or go down over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from knowledge_store.embedders import ollama as ollama_embedder
from knowledge_store.embedders import openai as openai_embedder
from knowledge_store.embedding import Embedding
from knowledge_store_sdk.protocols import Embedder
from knowledge_store_sdk.testing.embedder_suite import cosine
from tests.service.embedders.servers import EmbeddingServer, Long, OllamaServer, OpenAIServer
from tests.service.embedding.conftest import Make

CHUNKS = [f"Chunk {number} tells how a broker is restarted." for number in range(40)]
END = "zanzibar quokka"
THREE_HUNDRED = "x " * 298 + END  # 300 words, short in characters


@pytest.fixture(params=["ollama", "openai"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddingServer]:
    server = {"ollama": OllamaServer, "openai": OpenAIServer}[request.param]()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def embedding(server: EmbeddingServer, make: Make) -> Embedding:
    """Around the server's embedder, ready; the server has seen nothing yet."""
    embedding = make(embedder_for(server))
    assert (await embedding.start(5)).state == "ready"
    server.batches.clear()
    return embedding


def embedder_for(server: EmbeddingServer) -> Embedder:
    if isinstance(server, OllamaServer):
        return ollama_embedder.open_embedder({"url": server.url, "model": "words"})
    settings = {"url": f"{server.url}/v1", "model": "words", "api_key": "secret", "max_tokens": server.window}
    return openai_embedder.open_embedder(settings)


def with_seventh(text: str) -> list[str]:
    return [*CHUNKS[:7], text, *CHUNKS[8:]]


def denser(text: str) -> int:
    """A tokenizer that finds many more tokens than any estimate in words that hold a q."""
    return sum(40 if "q" in word else 1 for word in text.split())


SEVENTH_DENSE = "quorum quota queue quorum quota queue quorum quota"  # 320 tokens by that count, 8 words


@pytest.mark.parametrize("long", ["refuse", "cut", "drop"])
async def test_no_text_beyond_the_window_is_sent_and_every_chunk_gets_its_vector(
    embedding: Embedding, server: EmbeddingServer, long: Long
) -> None:
    server.long = long
    results = await embedding.embed_passages(with_seventh(THREE_HUNDRED))
    assert all(result.vector for result in results)
    assert max(server.count(text) for text in server.texts) <= server.window
    assert max(len(batch) for batch in server.batches) <= 16
    assert "".join(text for text in server.texts if text not in CHUNKS) == THREE_HUNDRED


async def test_what_stands_only_at_the_end_of_a_long_chunk_is_found(
    embedding: Embedding, server: EmbeddingServer
) -> None:
    server.long = "cut"
    results = await embedding.embed_passages(with_seventh(THREE_HUNDRED))
    question = await embedding.embed_query(END, 5)
    near = [cosine(question, result.vector) for result in results if result.vector]
    without = await embedding.embed_passages(["x " * 300])
    assert without[0].vector
    assert near[7] > cosine(question, without[0].vector)


@pytest.mark.parametrize("long", ["refuse", "drop"])
async def test_a_chunk_that_the_server_finds_too_long_after_all_is_divided(
    embedding: Embedding, server: EmbeddingServer, long: Long
) -> None:
    server.long, server.count = long, denser
    results = await embedding.embed_passages(with_seventh(SEVENTH_DENSE))
    assert all(result.vector for result in results)
    assert server.texts.count(SEVENTH_DENSE) == 2, "once in its batch, once alone"
    assert embedding.status.state == "ready"


@pytest.mark.parametrize("long", ["refuse", "drop"])
async def test_a_chunk_that_cannot_be_divided_enough_is_reported_and_the_39_others_have_vectors(
    embedding: Embedding, server: EmbeddingServer, long: Long
) -> None:
    def hopeless(text: str) -> int:
        return 1_000 if "q" in text else 1

    server.long, server.count = long, hopeless
    chunks = with_seventh("The quorum is lost.")
    results = await embedding.embed_passages(chunks)
    assert [place for place, result in enumerate(results) if result.vector is None] == [7]
    assert results[7].refused
    assert ("context length" in str(results[7].reason)) == (long == "refuse")
    tries = [text for text in server.texts if "q" in text]
    assert tries.count("The quorum is lost.") == 2
    assert len(tries) <= 5
    assert embedding.status.state == "ready"

    server.batches.clear()
    again = await embedding.embed_passages(chunks)
    assert server.batches == [], "the next run does not repeat the failure"
    assert again == results


@pytest.mark.parametrize("busy", [1, 3])
async def test_a_server_that_is_busy_is_asked_again_when_it_said(openai: OpenAIServer, make: Make, busy: int) -> None:
    embedding = make(embedder_for(openai))
    await embedding.start(5)
    openai.batches.clear()
    openai.before_answer = refuse_first(openai, busy)
    results = await embedding.embed_passages(["a", "b"])
    assert all(result.vector for result in results)
    assert openai.batches == [["a", "b"]] * (busy + 1)
    assert embedding.status.state == "ready"


async def test_a_server_that_stays_busy_is_given_up_for_now(openai: OpenAIServer, make: Make) -> None:
    embedding = make(embedder_for(openai))
    await embedding.start(5)
    openai.batches.clear()
    openai.before_answer = refuse_first(openai, 1_000)
    results = await embedding.embed_passages([f"text {number}" for number in range(160)])
    assert {(result.vector, result.refused) for result in results} == {(None, False)}
    assert "429" in str(results[0].reason)
    assert len(openai.batches) <= 8, "two batches, four attempts each"


def refuse_first(server: OpenAIServer, times: int) -> Callable[[], Awaitable[web.Response | None]]:
    left = times

    async def refuse() -> web.Response | None:
        nonlocal left
        left -= 1
        return server.error(429, "Rate limit reached", Retry_After="0.05") if left >= 0 else None

    return refuse
