"""The suite notices each of these mistakes, by the test named beside it."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Sequence

import pytest

from knowledge_store.embedders.hashing import HashingConfig, HashingEmbedder
from knowledge_store_sdk.protocols import Embedder, EmbedderIdentity, Role
from knowledge_store_sdk.testing.embedder_suite import EmbedderSuite
from knowledge_store_sdk.vectors import Vector, pack, unpack


class Right(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__(HashingConfig())


class WrongOrder(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return (await super().embed(texts, role))[::-1]


class OneMissing(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return (await super().embed(texts, role))[:16]


class Unnormalised(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        vectors = await super().embed(texts, role)
        for_each = (unpack(vector) for vector in vectors)
        doubled = [type(values)("f", [2 * value for value in values]) for values in for_each]
        return [values.tobytes() for values in doubled]


class CutsInSilence(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return await super().embed([" ".join(text.split()[: self.max_tokens // 2]) or text for text in texts], role)


class Random(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return [pack(byte - 127.5 for byte in os.urandom(self.identity.dims)) for _ in texts]


class TheSameForAll(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return await super().embed(["text"] * len(texts), role)


class OtherDims(Right):
    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(model="hashing", dims=128)


class DropsTheLastWindow(Right):
    def windows(self, text: str, role: Role) -> list[str]:
        windows = super().windows(text, role)
        return windows[:-1] if len(windows) > 1 else windows


class NoWindows(Right):
    def windows(self, text: str, role: Role) -> list[str]:
        return [text]


class BlocksTheLoop(Right):
    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        time.sleep(0.4)
        return await super().embed(texts, role)


class OpensAsAnother(Right):
    opened = 0

    async def open(self) -> None:
        self.opened += 1

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(model=f"hashing-{self.opened}", dims=64)


CAUGHT_BY = {
    WrongOrder: "test_each_text_gets_its_own_vector_in_order_whatever_else_is_in_the_call",
    OneMissing: "test_each_text_gets_its_own_vector_in_order_whatever_else_is_in_the_call",
    Unnormalised: "test_a_vector_is_float32_of_the_dims_of_the_identity_and_of_length_1",
    CutsInSilence: "test_what_stands_at_the_end_of_a_window_counts",
    Random: "test_calls_at_the_same_time_do_not_mix",
    TheSameForAll: "test_a_text_that_shares_words_with_the_question_is_nearer",
    OtherDims: "test_a_vector_is_float32_of_the_dims_of_the_identity_and_of_length_1",
    DropsTheLastWindow: "test_windows_cover_all_of_a_text_in_order_and_none_is_blank",
    NoWindows: "test_windows_cover_all_of_a_text_in_order_and_none_is_blank",
    BlocksTheLoop: "test_the_event_loop_goes_on_while_texts_are_embedded",
    OpensAsAnother: "test_opening_again_changes_nothing",
}


TESTS = dict(inspect.getmembers(EmbedderSuite(), inspect.iscoroutinefunction))


async def run(name: str, embedder: Embedder) -> None:
    """One test of the suite, with this embedder."""
    wants_role = "role" in inspect.signature(TESTS[name]).parameters
    await (TESTS[name](embedder, "passage") if wants_role else TESTS[name](embedder))


@pytest.mark.parametrize("name", TESTS)
async def test_an_embedder_without_a_mistake_passes(name: str) -> None:
    await run(name, Right())


# one of them sleeps on the event loop on purpose
@pytest.mark.allow_blocking
@pytest.mark.parametrize("saboteur", CAUGHT_BY, ids=lambda saboteur: saboteur.__name__)
async def test_the_suite_notices(saboteur: type[Right]) -> None:
    with pytest.raises((AssertionError, IndexError)):
        await run(CAUGHT_BY[saboteur], saboteur())
