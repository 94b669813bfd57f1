"""Plain text -> chunks.

text -> paragraphs -> packed within the budget
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Extracted
from knowledge_store.extract.frame import fitted_title
from knowledge_store.extract.nodes import Kind, Leaf
from knowledge_store.extract.packing import pack

_BLANK_LINES: Final = re.compile(r"(?:\r\n|\n|\r)[^\S\r\n]*(?:\r\n|\n|\r)\s*")


def extract_text(text: str, budget: Budget, *, name: str | None = None) -> Extracted:
    """The chunks of a plain text, whole paragraphs where they fit. Its title is `name`: a text has no headings."""
    title = fitted_title(name, budget)
    return Extracted(title, (), pack(text, list(_paragraphs(text)), title, budget))


def _paragraphs(text: str) -> Iterator[Leaf]:
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        yield Leaf(Kind.LINES, start, blank.start())
        start = blank.end()
    if start < len(text):
        yield Leaf(Kind.LINES, start, len(text))
