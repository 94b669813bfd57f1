"""An embedder that is cold, missing, down, hanging, another than the index's; and back again. Times are scaled down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from knowledge_store.embedders.ollama import open_embedder
from knowledge_store.embedding import Embedding, Patience
from knowledge_store_sdk.errors import BackendUnavailable, IdentityMismatch
from knowledge_store_sdk.protocols import EmbedderIdentity
from tests.service.embedders.servers import OllamaServer
from tests.service.embedding.conftest import QUICK, Kept, Make, Watched

BUDGET_S = 0.2
COLD_S = 1.2
THREE = ["one document", "another document", "a third document"]


@pytest.fixture
def around(make: Make, ollama: OllamaServer) -> Callable[..., Embedding]:
    """An embedding around an embedder of the server's."""

    def around(patience: Patience = QUICK, model: str = "words") -> Embedding:
        return make(open_embedder({"url": ollama.url, "model": model}), patience)

    return around


async def until_ready(embedding: Embedding, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while embedding.status.state != "ready":
            await asyncio.sleep(0.01)


def first_answer_after(server: OllamaServer, seconds: float) -> Callable[[], Awaitable[web.Response | None]]:
    """A cold model: who hangs up makes it start over."""
    loaded = False

    async def load() -> None:
        nonlocal loaded
        if not loaded:
            await asyncio.sleep(seconds)
            loaded = True

    return load


async def hang() -> None:
    await asyncio.sleep(3_600)


async def ask(embedding: Embedding) -> str:
    """Why a question has no vector; the empty text where it has one."""
    started = monotonic()
    try:
        await embedding.embed_query("how is a document restarted", BUDGET_S)
    except BackendUnavailable as error:
        return error.detail
    finally:
        assert monotonic() - started < BUDGET_S + 0.3, "a question waits for its budget at most"
    return ""


# (1) refuses connections


async def test_a_server_that_is_down_costs_the_vectors_and_nothing_else(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    await ollama.stop()
    with capture_logs() as logs:
        embedding = around()
        status = await embedding.start(5)
        assert (status.state, status.error) == ("down", None)
        assert "cannot be reached" in await ask(embedding)
        results = await embedding.embed_passages(THREE, deadline_s=5)
        assert [result.vector for result in results] == [None] * 3
        assert all("cannot be reached" in str(result.reason) and not result.refused for result in results)
        await asyncio.sleep(0.5)
    assert [log["event"] for log in logs] == ["embedder_down"], "the cause is logged once"

    await ollama.start()
    await until_ready(embedding)
    assert await ask(embedding) == ""
    assert all(result.vector for result in await embedding.embed_passages(THREE))


async def test_attempts_to_reach_it_grow_apart(make: Make) -> None:
    class Down(Watched):
        at: list[float]

        async def open(self) -> None:
            self.at.append(monotonic())
            raise BackendUnavailable("down")

    down = Down()
    down.at = []
    await make(down).start(5)
    await asyncio.sleep(1.0)
    gaps = [later - earlier for earlier, later in zip(down.at, down.at[1:], strict=False)]
    assert gaps[0] < 0.1 < gaps[2]
    assert 4 <= len(down.at) <= 8


async def test_a_server_that_says_when_to_come_back_is_not_asked_before(make: Make) -> None:
    class Busy(Watched):
        opened = 0

        async def open(self) -> None:
            self.opened += 1
            raise BackendUnavailable("busy", retry_after_s=0.6)

    busy = Busy()
    await make(busy).start(5)
    await asyncio.sleep(0.4)
    assert busy.opened == 1
    await asyncio.sleep(0.4)
    assert busy.opened == 2


async def test_a_server_that_goes_down_later_is_noticed_by_the_first_call_and_comes_back(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    embedding = around()
    await embedding.start(5)
    known = await embedding.embed_query("asked before", 5)
    await ollama.stop()
    with capture_logs() as logs:
        results = await embedding.embed_passages([f"text {number}" for number in range(100)])
        assert {(result.vector, result.refused) for result in results} == {(None, False)}
        assert embedding.status.state == "down"
        assert "cannot be reached" in await ask(embedding)
        assert await embedding.embed_query("asked before", 5) == known, "what is cached needs no embedder"
        await ollama.start()
        await until_ready(embedding)
    assert [log["event"] for log in logs] == ["embedder_down", "embedder_ready"]
    assert await ask(embedding) == ""


# (2) the model is missing


async def test_a_missing_model_is_named_with_the_command_and_not_asked_for_endlessly(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    ollama.model = "another:latest"
    with capture_logs() as logs:
        embedding = around(Patience(mended_s=30))
        status = await embedding.start(5)
        assert status.state == "down"
        assert status.error is not None
        assert "run `ollama pull words`" in str(status.reason)
        asked = len(ollama.requests)
        for _ in range(5):
            assert "ollama pull words" in await ask(embedding)
        assert "ollama pull words" in str((await embedding.embed_passages(THREE))[0].reason)
        await asyncio.sleep(0.3)
    assert len(ollama.requests) == asked
    assert [log["event"] for log in logs] == ["embedder_down"]


async def test_a_model_that_was_pulled_meanwhile_is_found_by_the_next_sync(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    ollama.model = "another:latest"
    embedding = around()
    await embedding.start(5)
    await asyncio.sleep(QUICK.mended_s)
    assert "ollama pull words" in str((await embedding.embed_passages(THREE))[0].reason)
    ollama.model = "words:latest"
    await asyncio.sleep(QUICK.mended_s)
    assert all(result.vector for result in await embedding.embed_passages(THREE))


# (3) a cold model


async def test_one_wait_is_long_enough_for_a_cold_model(around: Callable[..., Embedding], ollama: OllamaServer) -> None:
    ollama.before_answer = first_answer_after(ollama, COLD_S)
    embedding = around()
    started = monotonic()
    assert (await embedding.start(BUDGET_S)).state == "warming"
    assert "loads its model" in await ask(embedding)
    results = await embedding.embed_passages(THREE, deadline_s=BUDGET_S)
    assert all("loads its model" in str(result.reason) for result in results)
    assert len(ollama.batches) == 1, "nobody asks a second time meanwhile"
    await until_ready(embedding)
    assert monotonic() - started < COLD_S + 1
    assert ollama.hung_up == 0
    assert await ask(embedding) == ""
    assert all(result.vector for result in await embedding.embed_passages(THREE))


async def test_a_model_that_was_unloaded_is_loaded_by_the_first_question_and_not_by_each(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    embedding = around()
    await embedding.start(5)
    ollama.batches.clear()
    ollama.before_answer = first_answer_after(ollama, COLD_S)
    assert "may be loading" in await ask(embedding)
    assert embedding.status.state == "warming"
    reasons = await asyncio.gather(*(asyncio.create_task(ask(embedding)) for _ in range(10)))
    assert all("may be loading" in reason for reason in reasons)
    with pytest.raises(BackendUnavailable):
        await embedding.embed_query("a different question", BUDGET_S)
    assert ollama.batches == [["how is a document restarted"]]
    await until_ready(embedding)
    assert ollama.hung_up == 0
    assert await ask(embedding) == ""
    assert ollama.batches == [["how is a document restarted"]], "the long wait's vector is kept"


async def test_passages_that_wait_for_a_cold_model_get_their_vectors(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    ollama.before_answer = first_answer_after(ollama, COLD_S)
    embedding = around()
    await embedding.start(BUDGET_S)
    assert all(result.vector for result in await embedding.embed_passages(THREE))


async def test_an_embedder_that_answers_at_last_that_it_is_busy_no_longer_warms_up(make: Make) -> None:
    async def busy(texts: object) -> None:
        await asyncio.sleep(0.3)
        raise BackendUnavailable("busy", retry_after_s=1)

    watched = Watched()
    embedding = make(watched)
    await embedding.start(5)
    watched.before = busy
    with pytest.raises(BackendUnavailable, match="not answered yet"):
        await embedding.embed_query("a", 0.05)
    assert embedding.status.state == "warming"
    await until_ready(embedding, 1)
    with pytest.raises(BackendUnavailable, match="busy"):
        await embedding.embed_query("a", 1)
    await until_ready(embedding, 0.1)


# (4) hangs


async def test_a_server_that_hangs_is_down_after_the_long_wait_and_comes_back(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    embedding = around(Patience(call_s=0.6, first_retry_s=0.05, longest_retry_s=0.1))
    await embedding.start(5)
    ollama.before_answer = hang
    ollama.batches.clear()
    assert "has not answered yet" in await ask(embedding)
    for _ in range(3):
        assert await ask(embedding)
    results = await embedding.embed_passages(THREE, deadline_s=BUDGET_S)
    assert [result.vector for result in results] == [None] * 3
    assert "did not answer for 0.6 s" in str(embedding.status.reason)
    assert len(ollama.batches) <= 3
    ollama.before_answer = None
    await until_ready(embedding)
    assert await ask(embedding) == ""


async def test_a_server_that_hangs_at_the_start_does_not_hold_up_the_service(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    ollama.before_answer = hang
    embedding = around()
    started = monotonic()
    assert (await embedding.start(BUDGET_S)).state == "warming"
    assert monotonic() - started < BUDGET_S + 0.2
    await embedding.close()
    assert monotonic() - started < BUDGET_S + 1


# another embedder than the index's


async def test_another_embedder_than_the_indexs_is_a_mismatch_and_no_vector_is_made(make: Make, kept: Kept) -> None:
    kept.bound = EmbedderIdentity(model="bge-m3", dims=1024)
    watched = Watched()
    embedding = make(watched)
    with capture_logs() as logs:
        status = await embedding.start(5)
        assert status.state == "mismatch"
        assert isinstance(status.error, IdentityMismatch)
        assert "built with bge-m3" in await ask(embedding)
        assert "built with bge-m3" in str((await embedding.embed_passages(THREE))[0].reason)
        await asyncio.sleep(QUICK.mended_s * 2)
        assert await ask(embedding)
    assert [log["event"] for log in logs] == ["embedder_mismatch"]
    assert watched.calls == []
    assert kept.binds == 1


async def test_other_weights_behind_the_same_name_are_noticed_when_the_server_comes_back(
    around: Callable[..., Embedding], ollama: OllamaServer
) -> None:
    embedding = around()
    await embedding.start(5)
    await ollama.stop()
    await ask(embedding)
    ollama.digest = "e" * 64
    ollama.batches.clear()
    await ollama.start()
    async with asyncio.timeout(5):
        while embedding.status.state != "mismatch":
            await asyncio.sleep(0.01)
    assert ollama.batches == []


async def test_an_index_that_is_down_at_first_is_bound_later(make: Make, kept: Kept) -> None:
    bind, failures = kept.bind, 2

    async def unreliable(identity: EmbedderIdentity) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise BackendUnavailable("Elasticsearch does not answer")
        await bind(identity)

    kept.bind = unreliable  # type: ignore[method-assign]
    embedding = make(Watched())
    assert "Elasticsearch does not answer" in str((await embedding.start(5)).reason)
    await until_ready(embedding)
    assert kept.bound == embedding.identity


def test_before_it_was_reached_nothing_is_known(make: Make) -> None:
    embedding = make(Watched())
    assert (embedding.identity, embedding.mu, embedding.max_tokens) == (None, None, None)
    assert embedding.status.state == "warming"
