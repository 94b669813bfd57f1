"""A large or hostile file takes time in proportion to its size."""

import time

import pytest

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.markdown import extract_markdown
from knowledge_store.extract.text import extract_text
from tests.service.extract.checks import budget, check

SIZE = Budget(254, lambda text: text.count(" ") + text.count("\n") + 1, "spaces")
MIB = 1024 * 1024
PAGE = (
    "## Part\n\n"
    + "A broker fell behind, and was taken out of the set. " * 8
    + "\n\n- one\n- two\n\n```\ncode\n```\n\n"
)

HOSTILE = {
    "definitions": "[a]: b\n",
    "quotations and fences": "> ```\na\n",
    "lazy quotations": "> a\nb\n",
    "lists in quotations": "> - > - > - a\nb\n",
    "items": "- a\n",
    "items with lazy lines": "- a\nb\n",
    "two kinds of lists": "- a\n+ b\n",
    "table heads": "| a | b |\n|---|---|\n",
    "headings": "# a\n",
    "fences": "```\n",
    "comments": "<!-- \n",
    "setext": "a\n===\n",
    "backticks": "`",
    "carriage returns": "a line.\r",
}


def seconds(text: str) -> float:
    started = time.process_time()
    document = extract_markdown(text, SIZE)
    taken = time.process_time() - started
    check(text, document, SIZE)
    return taken


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_four_times_the_text_takes_about_four_times_as_long(unit: str) -> None:
    small, large = seconds(unit * 700), seconds(unit * 2_800)
    assert large < 9 * small + 0.2


@pytest.mark.slow  # 10 MiB of real work
@pytest.mark.parametrize("extract", [extract_markdown, extract_text])
def test_a_file_of_10_mib_goes_through(extract) -> None:
    text = PAGE * (10 * MIB // len(PAGE) + 1)
    started = time.process_time()
    document = extract(text, SIZE)
    assert time.process_time() - started < 30
    check(text, document, SIZE)


@pytest.mark.slow  # 10 MiB of real work
def test_one_line_of_10_mib_goes_through() -> None:
    text = "word " * (2 * MIB)
    assert seconds(text) < 30


def test_5_000_rows_are_one_table() -> None:
    text = "# T\n\n| key | value |\n|---|---|\n" + "".join(f"| k{n} | v{n} |\n" for n in range(5_000))
    size = budget(254)
    document = extract_markdown(text, size)
    check(text, document, size)
    assert document.chunks[-1].context == "T\n| key | value |\n|---|---|"


def test_a_list_longer_than_a_window_is_divided_between_items() -> None:
    text = "".join(f"- item {n}\n\n  its second paragraph\n\n" for n in range(5_000))
    document = extract_markdown(text, SIZE)
    check(text, document, SIZE)
    assert all(chunk.content.startswith("- item") for chunk in document.chunks)
