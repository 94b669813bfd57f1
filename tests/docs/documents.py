"""The project's documents as tests read them: files, fenced blocks, tables, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.shared_data import REPOSITORY

ROOT_FILES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "sdk/README.md")
_PARSER: Final = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A fenced block. `output` is the text of a `text` block that follows it directly, None where there is none."""

    file: Path
    line: int
    language: str
    text: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.file.relative_to(REPOSITORY)}:{self.line}"


def files() -> list[Path]:
    """Every document, in order."""
    return [REPOSITORY / name for name in ROOT_FILES] + sorted((REPOSITORY / "docs").rglob("*.md"))


def page(name: str) -> str:
    """The text of a page below `docs`."""
    return (REPOSITORY / "docs" / name).read_text("utf-8")


def blocks(*languages: str) -> list[Block]:
    """The fenced blocks in these languages, file by file, in order."""
    return [block for file in files() for block in _blocks(file) if block.language in languages]


def _blocks(file: Path) -> Iterator[Block]:
    tokens = [token for token in _PARSER.parse(file.read_text("utf-8")) if token.level == 0]
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "fence" and token.map:
            output = following.content if following and _is_text(following) and not _is_text(token) else None
            yield Block(file, token.map[0] + 1, token.info.strip(), token.content, output)


def _is_text(token: Token) -> bool:
    return token.type == "fence" and token.info.strip() == "text"


def rows(text: str) -> list[str]:
    """The rows of all tables, header rows included, as they stand."""
    return [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]


def cells(row: str) -> list[str]:
    """The cells of a row, without what surrounds them."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level or a higher one."""
    level = heading.split(" ")[0]
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(text, start)
    return text[start : end.start() if end else len(text)]


def anchors(text: str) -> set[str]:
    """What a link may name after `#`: each heading, as forges write it."""
    tokens = _PARSER.parse(text)
    titles = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(text: str) -> list[str]:
    """The addresses of all links."""
    found: list[str] = []
    for token in _PARSER.parse(text):
        found += [str(child.attrs["href"]) for child in token.children or () if child.type == "link_open"]
    return found
