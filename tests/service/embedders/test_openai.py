from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from knowledge_store.embedders.openai import OpenAIConfig, OpenAIEmbedder, open_embedder
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, InvalidField
from tests.service.embedders.servers import DIMS, OpenAIServer

Open = Callable[..., OpenAIEmbedder]


@pytest.fixture
async def make(openai: OpenAIServer) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> OpenAIEmbedder:
            known = {"url": f"{openai.url}/v1/", "model": "words", "api_key": "secret", "max_tokens": 256}
            embedder = open_embedder(known | settings)
            stack.push_async_callback(embedder.close)
            return embedder

        yield make


async def test_dims_are_measured_at_the_start(make: Open) -> None:
    embedder = make()
    await embedder.open()
    assert (embedder.identity.model, embedder.identity.dims, embedder.max_tokens) == ("words", DIMS, 256)


async def test_fewer_dims_are_asked_for_and_are_another_identity(make: Open) -> None:
    whole, short = make(), make(dims=16)
    await whole.open()
    await short.open()
    assert len((await short.embed(["a"], "query"))[0]) == 4 * 16
    assert not whole.identity.same_as(short.identity)


async def test_dims_that_the_server_cannot_give_are_a_config_error(make: Open) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.dims: 64 were asked for, and words gives 32"):
        await make(dims=64).open()


async def test_vectors_are_put_in_order_by_their_index(make: Open) -> None:
    embedder = make()
    await embedder.open()
    texts = [f"word{number}" for number in range(5)]
    one_by_one = [(await embedder.embed([text], "passage"))[0] for text in texts]
    assert len(set(one_by_one)) > 1
    assert await embedder.embed(texts, "passage") == one_by_one


async def test_batches_of_16(make: Open, openai: OpenAIServer) -> None:
    embedder = make()
    await embedder.open()
    openai.batches.clear()
    await embedder.embed([f"text {number}" for number in range(40)], "passage")
    assert [len(batch) for batch in openai.batches] == [16, 16, 8]


async def test_a_refused_key_is_a_config_error(make: Open) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.api_key: .* refuses it \(401\): Incorrect API key"):
        await make(api_key="wrong").open()


async def test_an_unknown_model_is_a_config_error(make: Open) -> None:
    with pytest.raises(ConfigError, match="has no model nothing"):
        await make(model="nothing").open()


async def test_a_refused_text_is_an_invalid_field(make: Open, openai: OpenAIServer) -> None:
    embedder = make()
    await embedder.open()
    openai.count = lambda text: 1_000
    with pytest.raises(InvalidField, match="maximum context length is 256 tokens"):
        await embedder.embed(["a"], "query")


async def test_a_text_that_may_exceed_the_window_is_never_sent(make: Open, openai: OpenAIServer) -> None:
    embedder = make()
    await embedder.open()
    openai.batches.clear()
    with pytest.raises(InvalidField, match="more than the window of 256"):
        await embedder.embed(["? " * 255], "passage")
    assert openai.batches == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0.5", 0.5), (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True), 30)],
)
async def test_retry_after_is_passed_on(make: Open, openai: OpenAIServer, header: Any, seconds: float) -> None:
    embedder = make()
    await embedder.open()

    async def refuse() -> web.Response:
        return openai.error(429, "Rate limit reached", Retry_After=header() if callable(header) else header)

    openai.before_answer = refuse
    with pytest.raises(BackendUnavailable, match="429: Rate limit reached") as raised:
        await embedder.embed(["a"], "query")
    assert raised.value.retry_after_s == pytest.approx(seconds, abs=1.5)


@pytest.mark.parametrize("body", ["<html>", "{}", '{"data": [{"index": 1, "embedding": [1]}]}', "[]"])
async def test_what_is_no_answer_is_unavailable(make: Open, openai: OpenAIServer, body: str) -> None:
    embedder = make()
    await embedder.open()

    async def nonsense() -> web.Response:
        return web.Response(text=body)

    openai.before_answer = nonsense
    with pytest.raises(BackendUnavailable, match="does not answer as OpenAI does"):
        await embedder.embed(["a"], "query")


async def test_a_server_that_is_gone_is_unavailable(make: Open, openai: OpenAIServer) -> None:
    await openai.stop()
    with pytest.raises(BackendUnavailable, match="does not answer"):
        await make().open()


def test_the_key_does_not_print() -> None:
    assert "hush" not in repr(OpenAIConfig(api_key="hush"))  # type: ignore[arg-type]


def test_unknown_settings_are_refused_when_it_is_constructed() -> None:
    with pytest.raises(ValidationError, match="key"):
        open_embedder({"key": "secret"})
