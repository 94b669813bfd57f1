"""`chunk_text`: field case 5.1, and what must hold for every text."""

from __future__ import annotations

import base64
import itertools
import random
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_store_sdk.chunking import chunk_spans, chunk_text

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"  # 7 characters, one picture
CLUSTERS = {
    "family": FAMILY,
    "skin tone": "\U0001f44b\U0001f3fd",
    "flag": "\U0001f1e9\U0001f1ea",
    "flag of tags": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "variation selector": "❤️",
    "keycap": "1\ufe0f\u20e3",
    "accents": "e\u0301\u0323",
    "hangul by letters": "\u1112\u1161\u11ab",
    "conjunct": "क्ष",
    "joined heart": "❤️\u200d\U0001f525",
}


def without_blanks(text: str) -> str:
    return "".join(text.split())


def joined_without_overlaps(text: str, spans: list[tuple[int, int]]) -> str:
    """What the spans cover, each position once, in order."""
    covered = 0
    parts = []
    for start, end in spans:
        parts.append(text[max(start, covered) : end])
        covered = end
    return "".join(parts)


def check(text: str, max_chars: int, overlap: int) -> list[tuple[int, int]]:
    """Everything that holds for every accepted call."""
    spans = chunk_spans(text, max_chars, overlap)
    assert chunk_text(text, max_chars, overlap) == [text[start:end] for start, end in spans]
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert end - start <= max_chars
        assert text[start:end].strip()
    for (start, end), (next_start, next_end) in itertools.pairwise(spans):
        assert start < next_start
        assert end < next_end
        assert text[max(end, next_start) : next_end].strip()  # something new that is not blank
        assert end - next_start <= overlap
        assert not text[end:next_start].strip()  # what no chunk has is blank
    assert without_blanks(joined_without_overlaps(text, spans)) == without_blanks(text)
    return spans


@pytest.mark.parametrize(("max_chars", "overlap"), [(4, 4), (4, 5), (0, 0), (-1, 0), (4, -1), (2000, 2000)])
def test_sizes_that_cannot_work_are_refused_at_once(max_chars: int, overlap: int) -> None:
    for text in ("", "abcdefghij"):
        with pytest.raises(ValueError, match=r"max_chars|overlap"):
            chunk_text(text, max_chars, overlap)
        with pytest.raises(ValueError, match=r"max_chars|overlap"):
            chunk_spans(text, max_chars, overlap)


def test_ten_letters_in_chunks_of_four() -> None:
    assert chunk_text("abcdefghij", 4, 1) == ["abcd", "defg", "ghij"]


@pytest.mark.parametrize("text", ["", " ", "\n" * 300, "\u2003\t\r\n" * 100])
def test_a_text_without_text_gives_no_chunk(text: str) -> None:
    assert chunk_text(text, 100, 20) == []


@pytest.mark.parametrize(
    ("text", "max_chars", "overlap"),
    [
        ("\n".join(f"{at:030}" for at in range(500)), 100, 80),
        (base64.b64encode(random.Random(1).randbytes(15_000)).decode(), 100, 20),
        ("https://example.test/" + "a" * 5_000, 100, 20),
        (FAMILY * 500, 100, 20),
        ("a" + "\u0301" * 100_000, 2000, 200),
        ("\U0001f1e9" * 100_001, 2000, 200),
        ("word " * 200_000, 2000, 200),
        ("One sentence. Another!\n\n" * 50_000, 2000, 200),
        ("。" * 300_000, 2000, 200),
        ("x" + " " * 1_000_000 + "y", 100, 20),
        ("\n" * 1_000_000 + "y", 100, 20),
        ("." * 500_000, 2000, 1000),
        (".)" * 250_000, 2000, 1000),
        ("ab " * 10_000, 100, 99),
    ],
    ids=range(14),
)
def test_every_text_ends_within_two_seconds(text: str, max_chars: int, overlap: int) -> None:
    started = time.perf_counter()
    chunk_spans(text, max_chars, overlap)
    assert time.perf_counter() - started < 2
    check(text[:20_000], max_chars, overlap)


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize(("max_chars", "overlap"), [(7, 0), (7, 6), (8, 3), (20, 5)])
def test_a_cluster_that_fits_a_chunk_is_never_cut(name: str, max_chars: int, overlap: int) -> None:
    cluster = CLUSTERS[name]
    for text in (cluster * 50, f"{cluster}a" * 50, f"ab{cluster}" * 50):
        for start, end in check(text, max_chars, overlap):
            for edge in (start, end):
                into = edge % (len(text) // 50)
                first = text.index(cluster)
                assert not first < into < first + len(cluster)


def test_a_cluster_longer_than_a_chunk_is_cut_only_then() -> None:
    assert {len(one) % 7 for one in chunk_text("ab" + FAMILY * 9, 6, 2)[1:]} != {0}
    text = "e" + "\u0301" * 25 + "abc"
    assert "".join(chunk_text(text, 10, 0)) == text


def test_flags_are_cut_between_pairs() -> None:
    assert chunk_text("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\U0001f1e7\U0001f1ea", 3, 0) == [
        "\U0001f1e9\U0001f1ea",
        "\U0001f1eb\U0001f1f7",
        "\U0001f1e7\U0001f1ea",
    ]


def test_a_word_is_whole_where_it_fits() -> None:
    text = " ".join("x" * (1 + at * 7 % 13) for at in range(200))
    for max_chars, overlap in ((13, 0), (13, 12), (20, 15), (40, 10)):
        for start, end in check(text, max_chars, overlap):
            assert start == 0 or text[start - 1] == " "
            assert end == len(text) or text[end] == " "


def test_the_best_boundary_in_the_later_half_is_taken() -> None:
    assert chunk_text("aaaa bbbb\n\ncccc. dddd eeee", 18, 0) == ["aaaa bbbb", "cccc. dddd eeee"]
    assert chunk_text("aaaa bbbb\ncccc. dddd eeee", 18, 0) == ["aaaa bbbb", "cccc. dddd eeee"]
    assert chunk_text("aaaa bbbb ccc. dddd eeee", 20, 0) == ["aaaa bbbb ccc.", "dddd eeee"]
    assert chunk_text("aaaa bbbb cccc dddd", 16, 0) == ["aaaa bbbb cccc", "dddd"]
    assert chunk_text("第一句。第二句。第三句。", 10, 0) == ["第一句。第二句。", "第三句。"]


def test_a_better_boundary_in_the_first_half_makes_no_small_chunk() -> None:
    assert chunk_text("aa\n\nbbbb cccc dddd eeee", 16, 0) == ["aa\n\nbbbb cccc", "dddd eeee"]


def test_an_overlap_begins_with_a_sentence_or_a_word() -> None:
    assert chunk_text("One two three. Four five six. Seven eight nine.", 30, 15)[1].startswith("Four five six.")
    assert chunk_text("aaaa bbbb cccc dddd", 14, 6) == ["aaaa bbbb cccc", "cccc dddd"]


def test_indentation_at_the_start_of_a_line_stays() -> None:
    text = "def a():\n    return 1\n\n\n    def b():\n        return 2\n"
    assert chunk_text(text, 30, 0) == ["def a():\n    return 1", "    def b():\n        return 2"]


def test_indentation_gives_way_to_text() -> None:
    assert chunk_text("aaaa\n" + " " * 50 + "b b b b", 12, 0) == ["aaaa", "b b b b"]
    assert chunk_text("aaaa\n" + " " * 5 + "b" * 10, 12, 0) == ["aaaa", "  " + "b" * 10]


def test_a_mark_on_a_full_stop_stays_there() -> None:
    assert chunk_text("第一句。\ufe01第二句", 5, 0) == ["第一句。\ufe01", "第二句"]
    assert chunk_text("第一句。\ufe01第二句", 4, 0) == ["第一句", "。\ufe01第二", "句"]


def test_a_short_text_is_one_chunk_verbatim() -> None:
    assert chunk_text("  two  words\r\nand a line ") == ["  two  words\r\nand a line"]


PIECES = st.sampled_from(
    [*CLUSTERS.values(), "a", "word", " ", "\n", "\n\n", "  \n \n", ". ", "。", "\r\n", "x" * 30, "\t"]
)
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=60), SIZES)
@example(["x" * 30, "  \n \n", "  \n \n", "x" * 30], (30, 29))
def test_every_chunk_keeps_the_rules(pieces: list[str], sizes: tuple[int, int]) -> None:
    check("".join(pieces), *sizes)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), SIZES)
def test_every_chunk_of_any_text_keeps_the_rules(text: str, sizes: tuple[int, int]) -> None:
    check(text, *sizes)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*CLUSTERS.values(), "a", " ", "\n"]), max_size=60), st.integers(7, 40), st.data())
def test_no_cluster_is_cut_where_every_cluster_fits(pieces: list[str], size: int, data: st.DataObject) -> None:
    # pieces that would join one another are kept apart by a letter
    parts = [part for piece in pieces for part in (piece, "b")]
    text = "".join(parts)
    edges = {0, *itertools.accumulate(len(part) for part in parts)}
    for start, end in check(text, size, data.draw(st.integers(0, size - 1))):
        assert {start, end} <= edges


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100), SIZES)
def test_a_mark_stays_with_its_letter(text: str, sizes: tuple[int, int]) -> None:
    for _, end in check(text, *sizes):
        if end < len(text) and unicodedata.category(text[end]) == "Mn" and not text[end - 1].isspace():
            # only a cluster longer than the chunk is cut
            first = end
            while first > 0 and unicodedata.category(text[first]) in {"Mn", "Me", "Mc", "Cf"}:
                first -= 1
            assert end - first >= sizes[0] - 1 or not text[first:end].strip()
