"""The conformance suite of the seam `Embedder`: an implementation is one when it passes.

    class TestMyEmbedder(EmbedderSuite):
        @pytest_asyncio.fixture
        async def embedder(self):
            embedder = open_embedder({"url": "http://127.0.0.1:9000"})
            yield embedder
            await embedder.close()

The fixture yields an embedder that was not opened yet. It runs with pytest and pytest-asyncio. What is asked of meaning
is little, so that an embedder that knows words only passes too: texts that share words are nearer than others.
"""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.protocols import Embedder, Role
from knowledge_store_sdk.vectors import Vector, unpack

ROLES: tuple[Role, Role] = ("query", "passage")
RESTART = "Restart the kafka broker after the disk was replaced."
PAYROLL = "Salaries are paid on the last working day of a month."
CANTEEN = "The canteen serves vegetable soup and fresh bread."
ODD_TEXTS = (
    "a",
    "?",
    "[CLS] [SEP] [MASK] <s> </s> <|endoftext|>",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "مرحبا بالعالم",
    "日本語の文章です。",
    "tab\tand\nline\r\nand \x07 bell",
    "e\u0301\u0301\u0301",
    "x" * 300,
)
_CLOSE = 0.999  # a server may add numbers in another order in another batch


def cosine(one: Vector, other: Vector) -> float:
    """Of two vectors of length 1."""
    return math.fsum(a * b for a, b in zip(unpack(one), unpack(other), strict=True))


def long_text(embedder: Embedder, windows: int = 3) -> str:
    """Sentences, each another, that fill more than so many windows."""
    sentences: list[str] = []
    words = 0
    while words < windows * embedder.max_tokens:
        sentences.append(f"Step {len(sentences)} restarts the broker, waits for its replicas and checks the log.")
        words += 13
    return " ".join(sentences)


@pytest.mark.asyncio
class EmbedderSuite:
    """Subclass it under a name that starts with `Test`, and override the fixture `embedder`."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("override the fixture `embedder`")

    @pytest.mark.parametrize("role", ROLES)
    async def test_a_vector_is_float32_of_the_dims_of_the_identity_and_of_length_1(
        self, embedder: Embedder, role: Role
    ) -> None:
        await embedder.open()
        for vector in await embedder.embed([RESTART, PAYROLL], role):
            assert len(vector) == 4 * embedder.identity.dims
            assert math.sqrt(math.fsum(value * value for value in unpack(vector))) == pytest.approx(1, abs=1e-4)

    async def test_no_text_gives_no_vector(self, embedder: Embedder) -> None:
        await embedder.open()
        assert await embedder.embed([], "passage") == []

    @pytest.mark.parametrize("role", ROLES)
    async def test_each_text_gets_its_own_vector_in_order_whatever_else_is_in_the_call(
        self, embedder: Embedder, role: Role
    ) -> None:
        await embedder.open()
        texts = [RESTART, PAYROLL, CANTEEN] + [f"Host {number} is in rack {number % 7}." for number in range(40)]
        together = await embedder.embed(texts, role)
        assert len(together) == len(texts)
        for place in (0, 1, 2, 15, 16, 17, 42):
            [alone] = await embedder.embed([texts[place]], role)
            assert cosine(alone, together[place]) > _CLOSE, f"the vector at {place} is not the one of its text"
        assert cosine(together[0], together[1]) < _CLOSE
        assert cosine(together[1], together[2]) < _CLOSE

    async def test_calls_at_the_same_time_do_not_mix(self, embedder: Embedder) -> None:
        await embedder.open()
        texts = [RESTART, PAYROLL, CANTEEN, "Backups are kept for ninety days."]
        one_by_one = [(await embedder.embed([text], "passage"))[0] for text in texts]
        at_once = await asyncio.gather(*(embedder.embed([text], "passage") for text in texts))
        for expected, [vector] in zip(one_by_one, at_once, strict=True):
            assert cosine(expected, vector) > _CLOSE

    async def test_a_text_that_shares_words_with_the_question_is_nearer(self, embedder: Embedder) -> None:
        await embedder.open()
        [question] = await embedder.embed(["How do I restart the kafka broker?"], "query")
        near, far, farther = await embedder.embed([RESTART, PAYROLL, CANTEEN], "passage")
        assert cosine(question, near) > cosine(question, far)
        assert cosine(question, near) > cosine(question, farther)

    @pytest.mark.parametrize("role", ROLES)
    async def test_a_text_within_the_window_is_its_only_window(self, embedder: Embedder, role: Role) -> None:
        await embedder.open()
        assert embedder.max_tokens > 0
        assert embedder.windows(RESTART, role) == [RESTART]

    @pytest.mark.parametrize("role", ROLES)
    async def test_windows_cover_all_of_a_text_in_order_and_none_is_blank(self, embedder: Embedder, role: Role) -> None:
        await embedder.open()
        japanese = "".join(f"手順{number}では再起動する。" for number in range(2 * embedder.max_tokens))
        for text in (long_text(embedder), "  \n" + long_text(embedder) + " \n\n ", japanese):
            windows = embedder.windows(text, role)
            assert len(windows) > 1
            assert all(window.strip() for window in windows)
            position = 0
            for window in windows:
                found = text.find(window, position if position == 0 else max(0, position - len(window)))
                assert found >= 0, "a window is no part of the text"
                assert not text[position:found].strip(), f"{text[position:found][:80]!r} is in no window"
                position = max(position, found + len(window))
            assert not text[position:].strip(), f"{text[position:][:80]!r} is in no window"

    @pytest.mark.parametrize("role", ROLES)
    async def test_every_window_is_embedded_without_complaint(self, embedder: Embedder, role: Role) -> None:
        await embedder.open()
        windows = embedder.windows(long_text(embedder, windows=2), role)[:4]
        assert len(await embedder.embed(windows, role)) == len(windows)

    async def test_what_stands_at_the_end_of_a_window_counts(self, embedder: Embedder) -> None:
        await embedder.open()
        window = embedder.windows(long_text(embedder, windows=2), "passage")[0]
        words = window.split()
        other = " ".join([*words[:-4], "soup", "bread", "salad", "cheese"])
        one, two = await embedder.embed([window, other], "passage")
        assert cosine(one, two) < 1 - 1e-6, "the last words of a window change nothing: it was cut"

    async def test_a_text_beyond_the_window_is_refused_or_embedded_whole_never_cut(self, embedder: Embedder) -> None:
        await embedder.open()
        head = long_text(embedder, windows=4)
        tails = [" ".join([tail] * 20) for tail in ("restart broker", "vegetable soup")]
        try:
            one, two = await embedder.embed([f"{head} {tail}" for tail in tails], "passage")
        except InvalidField:
            return
        assert cosine(one, two) < 1 - 1e-6, "the end of a long text changes nothing: it was cut in silence"

    async def test_odd_texts_have_vectors(self, embedder: Embedder) -> None:
        await embedder.open()
        texts = [window for text in ODD_TEXTS for window in embedder.windows(text, "passage")]
        vectors = await embedder.embed(texts, "passage")
        assert len(vectors) == len(texts)
        assert all(math.isfinite(value) for vector in vectors for value in unpack(vector))

    async def test_the_event_loop_goes_on_while_texts_are_embedded(self, embedder: Embedder) -> None:
        await embedder.open()
        texts = embedder.windows(long_text(embedder, windows=4), "passage")
        longest_s = 0.0

        async def watch() -> None:
            nonlocal longest_s
            while True:
                started = time.monotonic()
                await asyncio.sleep(0.005)
                longest_s = max(longest_s, time.monotonic() - started)

        watcher = asyncio.create_task(watch())
        await asyncio.sleep(0)
        started = time.monotonic()
        await embedder.embed(texts, "passage")
        took_s = time.monotonic() - started
        await asyncio.sleep(0.02)
        watcher.cancel()
        assert longest_s < max(0.3, took_s / 2), f"the loop stood still for {longest_s:.2f} s of {took_s:.2f} s"

    async def test_opening_again_changes_nothing(self, embedder: Embedder) -> None:
        await embedder.open()
        identity, window = embedder.identity, embedder.max_tokens
        [before] = await embedder.embed([RESTART], "passage")
        await embedder.open()
        [after] = await embedder.embed([RESTART], "passage")
        assert (embedder.identity, embedder.max_tokens) == (identity, window)
        assert cosine(before, after) > _CLOSE

    async def test_it_may_be_closed_twice_and_unopened(self, embedder: Embedder) -> None:
        await embedder.close()
        await embedder.open()
        await embedder.close()
        await embedder.close()
