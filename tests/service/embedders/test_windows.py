from __future__ import annotations

import base64
import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_store.embedders.onnx import _VOCABULARY, _tokenizer
from knowledge_store.embedders.windows import Piece, estimated_tokens, estimated_windows, even_windows

SENTENCE = "The broker left the in-sync replica set, because its disk was slow. "
NATURAL = {
    "english": SENTENCE * 5,
    "german": "Der Vermittler hat die Menge der synchronen Repliken verlassen, weil seine Festplatte langsam war. " * 5,
    "russian": "Брокер покинул набор синхронных реплик, потому что его диск работал медленно. " * 5,
    "arabic": "غادر الوسيط مجموعة النسخ المتزامنة لأن قرصه كان بطيئا. " * 5,
    "japanese": "ブローカーはディスクが遅いため、同期レプリカのセットから外れました。" * 5,
    "chinese": "由于磁盘速度慢，代理离开了同步副本集。" * 5,
    "korean": "디스크가 느려서 브로커가 동기화된 복제본 집합에서 나갔습니다. " * 5,
    "hindi": "डिस्क धीमी होने के कारण ब्रोकर ने प्रतिकृति समूह छोड़ दिया। " * 5,
    "emoji": "👩‍👩‍👧‍👦🔥🚀 ok 🏳️‍🌈 " * 5,
}
CODE = "def f(x_1: dict[str, int]) -> None:\n    return {k: v**2 for k, v in x_1.items() if k != '_tmp'}\n" * 5
NOISE = {
    "hexadecimal": hashlib.sha512(b"a").hexdigest() * 3,
    "base64": base64.b64encode(random.Random(1).randbytes(400)).decode(),
    "numbers": " ".join(str(7**n) for n in range(30)),
    "punctuation": "-=|+*#<>{}[]();:!?/\\" * 10,
    "uuids": "3f2b8c1e-9d4a-4b7e-8f10-2a6c5d9e7b13 " * 8,
    "log": "2026-05-01T08:00:00.123Z WARN [ReplicaFetcher-0-1] o.a.k.s.ReplicaManager - isr=[1,2] hw=993811 " * 4,
}


@pytest.mark.parametrize("text", [*NATURAL.values(), CODE, *NOISE.values()], ids=[*NATURAL, "code", *NOISE])
def test_the_estimate_is_not_below_what_a_word_piece_tokenizer_counts(text: str) -> None:
    # in words of at most 60 characters: longer ones become one unknown token in this vocabulary
    spaced = " ".join(word[at : at + 60] for word in text.split() for at in range(0, len(word), 60))
    real = len(_tokenizer(_VOCABULARY).encode(spaced, add_special_tokens=False).ids)
    assert real <= estimated_tokens(spaced)


def test_the_estimate_of_plain_english_is_below_twice_the_count() -> None:
    real = len(_tokenizer(_VOCABULARY).encode(NATURAL["english"], add_special_tokens=False).ids)
    assert estimated_tokens(NATURAL["english"]) < 2 * real


@settings(deadline=None)
@given(st.text(max_size=600), st.integers(4, 40))
def test_windows_are_the_text_again_within_the_budget_and_not_blank(text: str, budget: int) -> None:
    windows = estimated_windows(text, budget)
    assert "".join(windows) == text
    assert all(window.strip() for window in windows) or len(windows) == 1
    # the longest piece, 24 letters in a row, may be more than the smallest budgets
    assert all(estimated_tokens(window) <= max(budget, 24) for window in windows)


def test_a_text_within_the_budget_is_one_window() -> None:
    assert estimated_windows(SENTENCE, estimated_tokens(SENTENCE)) == [SENTENCE]


def test_a_text_a_little_beyond_the_budget_is_cut_in_the_middle() -> None:
    words = [Piece(position * 2, 1) for position in range(110)]
    windows = even_windows("a " * 110, words, 100)
    assert [len(window.split()) for window in windows] == [55, 55]


def test_a_window_ends_where_a_sentence_ends() -> None:
    windows = estimated_windows(SENTENCE * 20, 100)
    assert len(windows) > 2
    assert all(window == SENTENCE * (len(window) // len(SENTENCE)) for window in windows)


def test_a_window_ends_where_a_word_ends_if_no_sentence_does() -> None:
    windows = estimated_windows("broker " * 200, 50)
    assert all(window.startswith("broker") and window.endswith(" ") for window in windows)


def test_a_word_without_end_is_cut() -> None:
    windows = estimated_windows("x9" * 5_000, 64)
    assert all(estimated_tokens(window) <= 64 for window in windows)
