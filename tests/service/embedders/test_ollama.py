from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from aiohttp import web
from pydantic import ValidationError

from knowledge_store.embedders.ollama import OllamaEmbedder, open_embedder
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, InvalidField
from tests.service.embedders.servers import DIMS, OllamaServer

Open = Callable[..., OllamaEmbedder]


@pytest.fixture
async def make(ollama: OllamaServer) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def make(**settings: str) -> OllamaEmbedder:
            embedder = open_embedder({"url": ollama.url, "model": "words"} | settings)
            stack.push_async_callback(embedder.close)
            return embedder

        yield make


async def test_dims_digest_and_window_are_the_servers(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()
    assert (embedder.identity.dims, embedder.identity.digest, embedder.max_tokens) == (DIMS, ollama.digest, 256)
    assert ollama.batches == [], "a cold model is not loaded for that"


async def test_a_smaller_num_ctx_of_the_model_is_the_window(make: Open, ollama: OllamaServer) -> None:
    ollama.parameters = 'stop                           "x"\nnum_ctx                        128'
    embedder = make()
    await embedder.open()
    assert embedder.max_tokens == 128


async def test_no_more_than_8192_tokens_are_reserved(make: Open, ollama: OllamaServer) -> None:
    ollama.window = 40_960
    embedder = make()
    await embedder.open()
    assert embedder.max_tokens == 8_192


async def test_dims_that_the_server_does_not_tell_are_measured(make: Open, ollama: OllamaServer) -> None:
    ollama.dims_in_info = 0
    embedder = make()
    await embedder.open()
    assert embedder.identity.dims == DIMS


async def test_a_second_spelling_of_a_model_is_the_same_model(make: Open) -> None:
    one, other = make(model="words"), make(model="words:latest")
    await one.open()
    await other.open()
    assert one.identity.same_as(other.identity)
    assert one.identity.key == other.identity.key


async def test_batches_of_16_with_the_window_asked_for_and_no_cutting(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()
    await embedder.embed([f"text {number}" for number in range(40)], "passage")
    assert [len(batch) for batch in ollama.batches] == [16, 16, 8]
    assert {(body["truncate"], body["options"]["num_ctx"]) for body in ollama.bodies} == {(False, 256)}


async def test_each_role_has_its_prefix(make: Open, ollama: OllamaServer) -> None:
    embedder = make(query_prefix="ask: ", passage_prefix="told: ")
    await embedder.open()
    await embedder.embed(["a"], "query")
    await embedder.embed(["a"], "passage")
    assert ollama.texts == ["ask: a", "told: a"]


async def test_a_missing_model_is_a_config_error_with_the_command_to_get_it(make: Open) -> None:
    with pytest.raises(ConfigError, match="no model nothing: run `ollama pull nothing`"):
        await make(model="nothing").open()


async def test_a_model_that_is_removed_while_it_runs_is_a_config_error(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()
    ollama.model = "another:latest"
    with pytest.raises(ConfigError, match="ollama pull words"):
        await embedder.embed(["a"], "query")


async def test_a_server_that_refuses_connections_is_unavailable(make: Open, ollama: OllamaServer) -> None:
    await ollama.stop()
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await make().open()


async def test_a_server_error_is_unavailable(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()

    async def fail() -> web.Response:
        return web.json_response({"error": "llama runner process has terminated"}, status=500)

    ollama.before_answer = fail
    with pytest.raises(BackendUnavailable, match="500: llama runner process has terminated"):
        await embedder.embed(["a"], "query")


async def test_a_dropped_connection_is_unavailable(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()
    ollama.long, ollama.count = "drop", lambda text: 1_000
    with pytest.raises(BackendUnavailable, match="does not answer"):
        await embedder.embed(["a"], "query")


@pytest.mark.parametrize("status", [400, 500])
async def test_a_text_that_is_too_long_for_the_server_is_an_invalid_field(
    make: Open, ollama: OllamaServer, status: int
) -> None:
    embedder = make()
    await embedder.open()

    async def refuse() -> web.Response:
        return web.json_response({"error": "the input length exceeds the context length"}, status=status)

    ollama.before_answer = refuse
    with pytest.raises(InvalidField, match="exceeds the context length"):
        await embedder.embed(["a"], "query")


async def test_a_text_that_may_exceed_the_window_is_never_sent(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()
    with pytest.raises(InvalidField, match="more than the window of 256") as raised:
        await embedder.embed(["short", "? " * 255], "passage")
    assert list(raised.value.fields) == ["texts[1]"]
    assert ollama.texts == []


async def test_vectors_of_other_dims_than_announced_are_a_config_error(make: Open, ollama: OllamaServer) -> None:
    ollama.dims_in_info = 64
    embedder = make()
    await embedder.open()
    with pytest.raises(ConfigError, match="had 64 dims, and now have 32"):
        await embedder.embed(["a"], "passage")


async def test_another_server_at_that_address_is_told_apart(make: Open, ollama: OllamaServer) -> None:
    async def page() -> web.Response:
        return web.Response(text="<html>It works!</html>", content_type="text/html")

    embedder = make()
    await embedder.open()
    ollama.before_answer = page
    with pytest.raises(BackendUnavailable, match="is not Ollama"):
        await embedder.embed(["a"], "query")


async def test_opening_again_leaves_calls_under_way_alone(make: Open, ollama: OllamaServer) -> None:
    embedder = make()
    await embedder.open()

    async def slowly() -> None:
        await asyncio.sleep(0.2)

    ollama.before_answer = slowly
    call = asyncio.create_task(embedder.embed(["a"], "query"))
    await asyncio.sleep(0.05)
    await embedder.open()
    assert len(await call) == 1
    assert ollama.hung_up == 0


def test_wrong_settings_are_refused_when_it_is_constructed() -> None:
    with pytest.raises(ValidationError, match="url"):
        open_embedder({"url": "localhost:11434"})
    with pytest.raises(ValidationError, match="modle"):
        open_embedder({"modle": "bge-m3"})


def test_bge_m3_on_this_machine_is_the_default() -> None:
    embedder = open_embedder({})
    assert (embedder._config.model, embedder._config.url) == ("bge-m3", "http://127.0.0.1:11434")
