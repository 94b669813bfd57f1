"""A table is divided between its rows, and each piece can be understood by itself."""

import re

import pytest

from knowledge_store.extract.markdown import extract_markdown
from tests.service.extract.checks import budget, check

HEAD = "| parameter | default | unit | note |"
RULE = "|---|---|---|---|"
ROWS = [f"| param_{n} | {n * 7} | ms | note number {n} |" for n in range(1, 81)]
ROWS[29] = f"| param_30 | 1 | ms | {'long words ' * 80}|"  # 900 characters
ROWS[39] = r"| param_40 | a \| b | ms | one cell |"
LIMIT = budget(330)  # about 20 rows


def document_text() -> str:
    return "\n".join(
        [
            "# Broker",
            "",
            "## Settings",
            "",
            "These are the settings of a broker.",
            HEAD,
            RULE,
            *ROWS,
            "",
            "- an item",
            "",
            "  | key | value |",
            "  |-----|-------|",
            *(f"  | k{n} | v{n} |" for n in range(60)),
            "",
            "```",
            "| not | a | table |",
            "|---|---|---|",
            "```",
            "",
        ]
    )


TEXT = document_text()
CHUNKS = extract_markdown(TEXT, LIMIT).chunks


def test_the_document_is_whole() -> None:
    check(TEXT, extract_markdown(TEXT, LIMIT), LIMIT)
    assert len(CHUNKS) >= 6


def test_each_row_is_whole_in_exactly_one_chunk() -> None:
    for row in ROWS:
        assert sum(row in chunk.content.split("\n") for chunk in CHUNKS) == 1, row


def test_every_chunk_with_rows_has_the_headings_the_header_and_the_rule_once() -> None:
    for chunk in CHUNKS:
        if "param_" in chunk.content:
            seen = f"{chunk.context or ''}\n{chunk.content}"
            assert seen.count(HEAD) == 1
            assert seen.count(RULE) == 1
            assert "Broker" in seen
            assert "Settings" in seen
            assert chunk.locator.heading_path == ("Broker", "Settings")


def test_the_chunk_of_row_61_stands_by_itself() -> None:
    (chunk,) = [chunk for chunk in CHUNKS if "param_61 " in chunk.content]
    assert chunk.context == f"Broker > Settings\n{HEAD}\n{RULE}"
    assert chunk.section == "Settings"


def test_the_introduction_is_in_the_first_piece_only() -> None:
    (chunk,) = [chunk for chunk in CHUNKS if "These are the settings" in chunk.content]
    assert ROWS[0] in chunk.content
    assert not any("These are the settings" in (chunk.context or "") for chunk in CHUNKS)


def test_a_table_inside_a_list_item_repeats_its_header_too() -> None:
    for chunk in CHUNKS:
        if re.search(r"\| k\d+ \|", chunk.content):
            assert "| key | value |" in f"{chunk.context or ''}\n{chunk.content}"
    (last,) = [chunk for chunk in CHUNKS if "| k59 |" in chunk.content]
    assert "| k0 |" in last.content or (last.context or "").endswith("| key | value |\n|---|---|")


def test_a_line_like_a_table_inside_a_fence_is_left_alone() -> None:
    (chunk,) = [chunk for chunk in CHUNKS if "| not | a | table |" in chunk.content]
    assert "| not |" not in (chunk.context or "")
    for tokens in (16, 24):  # the fence itself is divided
        small = extract_markdown("```\n| not | a | table |\n|---|---|---|\n| x | y | z |\n```\n", budget(tokens)).chunks
        assert all(chunk.context is None for chunk in small)


def test_a_row_that_exceeds_a_chunk_alone_is_divided_and_each_piece_has_the_header() -> None:
    text = f"# T\n\n{HEAD}\n{RULE}\n" + "\n".join(ROWS) + "\n"
    size = budget(100)
    document = extract_markdown(text, size)
    check(text, document, size)
    pieces = [chunk for chunk in document.chunks if "long words" in chunk.content]
    assert len(pieces) > 1
    assert all(HEAD in f"{piece.context or ''}\n{piece.content}" for piece in pieces)
    for row in ROWS[:29] + ROWS[30:]:
        assert sum(row in chunk.content.split("\n") for chunk in document.chunks) == 1, row


@pytest.mark.parametrize("columns", [40, 400])
def test_a_header_that_would_leave_no_room_is_not_repeated(columns: int) -> None:
    head = "|" + "".join(f" column {n} |" for n in range(columns))
    row = "|" + " x |" * columns
    text = "\n".join(["# Wide", "", head, "|" + "---|" * columns, *[row] * 30])
    size = budget(100)
    check(text, extract_markdown(text, size), size)


def test_the_line_after_a_table_without_a_blank_line_is_not_lost() -> None:
    text = f"{HEAD}\n{RULE}\n{ROWS[0]}\nand a line without cells\n\nafter\n"
    check(text, extract_markdown(text, LIMIT), LIMIT)


def test_a_row_that_fits_a_chunk_alone_is_whole_although_little_stands_before_it() -> None:
    row = f"| x | {'w ' * 176}|"
    text = f"An introduction of ten words that stands before the table.\n\n| a | b |\n|---|---|\n{row}\n"
    document = extract_markdown(text, budget(200))
    check(text, document, budget(200))
    assert sum(row in chunk.content.split("\n") for chunk in document.chunks) == 1
