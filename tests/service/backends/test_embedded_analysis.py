"""Words are cut, stopped and stemmed as Elasticsearch's `english` analyzer does it.

The expectations were read from `_analyze` of a real node; the congruence test of the backends asks one again.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_store.backends.embedded.analysis import MAX_WORD_UNITS, STOP_WORDS, terms_of, words_of
from knowledge_store.backends.embedded.porter import stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title:kafka a:b foo.bar 3.14 1,000", ["title:kafka", "a:b", "foo.bar", "3.14", "1,000"]),
        ("a,b 3,a a;b", ["a", "b", "3", "a", "a", "b"]),
        ("can't it's node.js kube_pod_x _x_ __ a__b", ["can't", "it's", "node.js", "kube_pod_x", "_x_", "a__b"]),
        ("c++ 1:2 1.2.3 v1.2 x.1 1.x a.b.c. 'q'", ["c", "1", "2", "1.2.3", "v1.2", "x", "1", "1", "x", "a.b.c", "q"]),
        ("can’t l·l ½ x² ª Ⓐ №5", ["can’t", "l·l", "x", "ª", "Ⓐ", "5"]),
        ("日本語 ひらがな カタカナー ｶﾀｶﾅ 한국어", [*"日本語", *"ひらがな", "カタカナー", "ｶﾀｶﾅ", "한국어"]),
        ("abc漢字 ภาษาไทย ภาษา123", ["abc", "漢", "字", "ภาษาไทย", "ภาษา", "123"]),
        ("カabc カ_abc abc1カ", ["カ", "abc", "カ_abc", "abc1", "カ"]),
        ("🙂 👍🏽 🇩🇪🇫🇷 ☺ © ™ ❤ 🙂🙂 a🙂b", ["🙂", "👍🏽", "🇩🇪", "🇫🇷", "☺", "©", "™", "❤", "🙂", "🙂", "a", "🙂", "b"]),
        ("👩\u200d👩\u200d👧 1\ufe0f\u20e3 #\ufe0f\u20e3", ["👩\u200d👩\u200d👧", "1\ufe0f\u20e3", "#\ufe0f\u20e3"]),
        ("e\u0301x a\u200db a\u00adb \u0301x", ["e\u0301x", "a\u200db", "a\u00adb", "x"]),
        ("a\u200bb مرحبا हिन्दी", ["a", "b", "مرحبا", "हिन्दी"]),
        ("", []),
        (" \n\t.,;:!?'\"()[]{}<>#*@$%^&|\\~`", []),
    ],
)  # fmt: skip
def test_words_are_cut_at_unicodes_boundaries(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "lengths"), [("x" * 300, [255, 45]), ("a." * 200, [255, 143]), ("\U0001d518" * 200, [127, 73])]
)
def test_a_word_is_cut_at_255_units_of_utf16(text: str, lengths: list[int]) -> None:
    assert [len(word) for word in words_of(f"before {text} after")[1:-1]] == lengths


@given(st.text())
def test_every_word_stands_in_the_text_in_order_and_is_short(text: str) -> None:
    place = 0
    for word in words_of(text):
        place = text.index(word, place) + len(word)
        assert 0 < len(word.encode("utf-16-le", errors="surrogatepass")) <= 2 * MAX_WORD_UNITS


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("cats", "cat"), ("feed", "feed"),
        ("agreed", "agre"), ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"),
        ("conflated", "conflat"), ("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"), ("fizzed", "fizz"),
        ("filing", "file"), ("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("conditional", "condit"),
        ("digitizer", "digit"), ("possibly", "possibl"), ("operator", "oper"), ("hopefulness", "hope"),
        ("sensibiliti", "sensibl"), ("analogi", "analog"), ("triplicate", "triplic"), ("electrical", "electr"),
        ("goodness", "good"), ("revival", "reviv"), ("adjustment", "adjust"), ("adoption", "adopt"),
        ("homologous", "homolog"), ("probate", "probat"), ("rate", "rate"), ("controll", "control"),
        ("roll", "roll"), ("partitions", "partit"), ("shrinking", "shrink"), ("replicas", "replica"), ("yyx", "yyx"),
        ("as", "as"), ("größe", "größe"), ("3.14", "3.14"),
    ],
)  # fmt: skip
def test_stems_are_porters(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_stop_words_are_no_part_of_the_text() -> None:
    assert terms_of(" ".join(STOP_WORDS)) == {}
    assert terms_of("the Broker's brokers OF it").total() == 2


@pytest.mark.parametrize("same", ["broker", "Brokers", "BROKER'S", "broker’s", "brokers"])
def test_possessives_cases_and_plurals_are_one_term(same: str) -> None:
    assert terms_of(same) == terms_of("broker")


@given(st.text(), st.text())
def test_the_terms_of_two_lines_are_those_of_each(one: str, other: str) -> None:
    assert terms_of(f"{one}\n\n{other}") == terms_of(one) + terms_of(other)


@pytest.mark.parametrize("text", ["\u0001", "_", "_\u0301", "_!", "a.", "1,", "#", "\u200d", " 。"], ids=ascii)
def test_a_text_that_is_one_run_of_anything_ends_soon(text: str) -> None:
    started = time.perf_counter()
    words_of(text * (64 * 1024 // len(text.encode())))
    assert (
        time.perf_counter() - started < 5
    )  # as fast as prose it takes 0.05 s, and read again from each character 80 s
