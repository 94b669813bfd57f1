"""Splitting always moves forward, whatever the text and the tokenizer."""

import string
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.markdown import extract_markdown
from knowledge_store.extract.text import extract_text
from tests.service.extract.checks import budget, check, words_and_marks

EXTRACTORS = [extract_markdown, extract_text]
FAMILY = "👩‍👩‍👧‍👦"


def bytes_as_tokens(text: str) -> int:
    return len(text.encode())


def more_than_the_sum(text: str) -> int:
    """Worse than any tokenizer: a text costs more than its parts."""
    return int(len(text) ** 1.3)


@pytest.mark.parametrize("tokens", [15, 1, 0, -5])
def test_a_budget_too_small_for_a_text_is_refused_when_it_is_made(tokens: int) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        Budget(tokens)


@pytest.mark.parametrize("extract", EXTRACTORS)
@pytest.mark.parametrize("count", [words_and_marks, bytes_as_tokens, more_than_the_sum])
@pytest.mark.parametrize(
    "text",
    [
        "QUJD" * 5_000,
        "https://example.org/" + "a/b-c?d=e&" * 500,
        "a" + "\n" * 300 + "b",
        FAMILY * 500,
        (FAMILY + " ") * 500,
        "数据库主节点故障。" * 500,
        "e\u0301" * 5_000,
        "\n".join(["x" * 30] * 500),
    ],
    ids=["base64", "address", "blank lines", "family", "families", "ideographs", "accents", "lines"],
)
def test_hard_texts_end_soon_within_the_size_and_whole(extract, count, text: str) -> None:
    size = Budget(100, count, "test")
    started = time.process_time()
    document = extract(text, size)
    assert time.process_time() - started < 2
    check(text, document, size)


@pytest.mark.parametrize("extract", EXTRACTORS)
@pytest.mark.parametrize("text", ["", " ", " \n\t\r\n", "\n" * 300, "\u2003" * 50])
def test_a_blank_text_has_no_chunk(extract, text: str) -> None:
    assert extract(text, budget(100)).chunks == ()


def test_no_emoji_sequence_is_cut_where_a_cut_elsewhere_is_possible() -> None:
    for extract in EXTRACTORS:
        chunks = extract(FAMILY * 500, Budget(100, bytes_as_tokens, "bytes")).chunks
        assert len(chunks) > 100
        assert all(chunk.content.replace(FAMILY, "") == "" for chunk in chunks)


def test_a_text_of_which_a_tokenizer_makes_one_token_is_divided_all_the_same() -> None:
    document = extract_markdown("QUJD" * 50_000, Budget(100, lambda text: 1, "one"))
    assert max(len(chunk.content) for chunk in document.chunks) <= 1_600


def test_a_content_stays_below_64_kib_however_large_the_window() -> None:
    for text in ("word " * 30_000, "数" * 50_000, FAMILY * 5_000):
        size = Budget(1_000_000, words_and_marks, "words")
        document = extract_markdown(text, size)
        check(text, document, size)
        assert len(document.chunks) > 1


PARTS = (
    *(
        "# ",
        "## ",
        "### ",
        "- ",
        "  - ",
        "> ",
        "1. ",
        "```\n",
        "~~~\n",
        "    ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "===\n",
        "---\n",
    ),
    *("| a | b |\n", "|---|---|\n", "<div>\n", "<!-- ", "-->\n", "[a]: b\n", "title: t\n", "\\|", "`", "*", "word "),
    *("A sentence. ", "x" * 40, "é", FAMILY, "\u2028", "\x0c", "\x1c", "\u3000", "。"),
)
MARKDOWN = st.lists(st.sampled_from(PARTS), max_size=80).map("".join)


@settings(max_examples=200, deadline=None)
@given(
    text=MARKDOWN,
    tokens=st.integers(16, 60),
    count=st.sampled_from([words_and_marks, bytes_as_tokens, more_than_the_sum]),
)
@example(text="# " + string.ascii_letters * 9 + "\n", tokens=16, count=bytes_as_tokens)
@example(text="---\ntitle: t\n---\n", tokens=16, count=words_and_marks)
def test_every_text_is_kept_whole_in_chunks_within_the_budget(text: str, tokens: int, count) -> None:
    size = Budget(tokens, count, "test")
    for extract in EXTRACTORS:
        check(text, extract(text, size, name="a name"), size)
