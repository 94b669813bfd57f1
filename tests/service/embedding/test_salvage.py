from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_store.embedding.salvage import Refusal, halves, salvage
from knowledge_store_sdk.errors import BackendUnavailable, InvalidField, KnowledgeStoreError
from knowledge_store_sdk.vectors import Vector


class Picky:
    """Takes texts of at most so many characters, and fails a call with a longer one."""

    def __init__(self, longest: int, error: KnowledgeStoreError, alive: bool = True) -> None:
        self.longest = longest
        self.error = error
        self.is_alive = alive
        self.calls: list[list[str]] = []

    async def call(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        if any(len(text) > self.longest for text in texts):
            raise self.error
        return [text.encode() for text in texts]

    async def alive(self, error: KnowledgeStoreError) -> bool:
        assert error is self.error
        return self.is_alive


REFUSED = InvalidField("too long")
DROPPED = BackendUnavailable("connection reset")
LONG = "one two three four five six seven eight"


async def test_a_batch_that_is_taken_is_one_call() -> None:
    embedder = Picky(100, REFUSED)
    assert await salvage(["a", "b"], embedder.call, embedder.alive) == [[b"a"], [b"b"]]
    assert embedder.calls == [["a", "b"]]


@pytest.mark.parametrize("error", [REFUSED, DROPPED])
async def test_the_others_of_a_batch_get_their_vectors_and_the_culprit_is_divided(error: KnowledgeStoreError) -> None:
    embedder = Picky(len(LONG) // 2 + 3, error)
    results = await salvage(["a", LONG, "b"], embedder.call, embedder.alive)
    assert results == [[b"a"], [b"one two three four", b" five six seven eight"], [b"b"]]


@pytest.mark.parametrize("error", [REFUSED, DROPPED])
async def test_a_culprit_is_sent_twice_as_a_whole_and_each_part_once_then_reported(error: KnowledgeStoreError) -> None:
    embedder = Picky(1, error)
    results = await salvage(["a", LONG, "b"], embedder.call, embedder.alive)
    assert results == [[b"a"], Refusal(error.detail), [b"b"]]
    sent = [text for call in embedder.calls for text in call if len(text) > 1]
    assert sent.count(LONG) == 2
    assert len(sent) == len(set(sent)) + 1
    assert len(sent) <= 5


async def test_a_text_alone_is_sent_once_as_a_whole() -> None:
    embedder = Picky(1, REFUSED)
    assert await salvage([LONG], embedder.call, embedder.alive) == [Refusal("too long")]
    assert embedder.calls.count([LONG]) == 1


async def test_nothing_is_divided_where_the_embedder_is_down() -> None:
    embedder = Picky(1, DROPPED, alive=False)
    with pytest.raises(BackendUnavailable, match="connection reset"):
        await salvage(["a", LONG], embedder.call, embedder.alive)
    assert len(embedder.calls) == 1


@given(st.text())
def test_halves_are_the_text_again_and_neither_is_blank(text: str) -> None:
    parts = halves(text)
    if parts:
        assert "".join(parts) == text
        assert all(part.strip() for part in parts)
    else:
        assert len(text.strip()) < 2


def test_halves_of_a_word_are_cut_in_the_middle() -> None:
    assert halves("abcdef") == ["abc", "def"]
    assert halves("ab    ") == ["a", "b    "]
    assert halves("a") == []
