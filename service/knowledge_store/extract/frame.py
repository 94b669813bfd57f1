"""What stands around the content of a chunk, title and context, and the room that they leave."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Chunk
from knowledge_store.extract.cutting import begin_of, take
from knowledge_store.extract.nodes import Outline
from knowledge_store_sdk.chunking import chunk_spans
from knowledge_store_sdk.locators import TextLocator

SEPARATOR: Final = " > "
_MAX_TITLE_CHARS: Final = 500
_MAX_TITLE_SHARE: Final = 0.25  # of the budget
_MAX_CONTEXT_SHARE: Final = 0.35  # of the budget
_MAX_CONTEXT_CHARS: Final = 8_000
_MAX_PATH: Final = 64


def fitted_title(title: str | None, budget: Budget) -> str | None:
    """The title, or as many of its words as may stand before each chunk."""
    return _fitted(title[:_MAX_TITLE_CHARS], budget.max_tokens * _MAX_TITLE_SHARE, budget) if title else None


class Frame:
    """The text of a document with its outline; pure, but for keeping the costs of contexts."""

    def __init__(self, text: str, outline: Outline, title: str | None, budget: Budget) -> None:
        self.text, self.outline, self.budget = text, outline, budget
        self._title = title
        self._room = budget.max_tokens - (budget.cost(title) if title else 0)
        self._context = lru_cache(maxsize=64)(self._make_context)

    def room(self, start: int, end: int, header: str | None) -> float:
        """What the content from `start` to `end` may cost, where its context repeats that table header."""
        return self._room - self._context(self.outline.above(start, end), header)[1]

    def cost(self, start: int, end: int) -> float:
        """What that part of the text takes of the budget."""
        return self.budget.cost(self.text[start:end]) if end - start <= self.budget.max_chars else float("inf")

    def chunks(self, start: int, end: int, header: str | None) -> Iterator[Chunk]:
        """The chunk from `start` to `end`; several where the tokenizer counts the whole for more than its parts."""
        start = begin_of(self.text, start, end)
        content = self.text[start:end].rstrip()
        end = start + len(content)
        if not content:
            return
        context, _ = self._context(self.outline.above(start, end), header)
        if self._fits(context, content) or len(content) == 1:
            path = self.outline.at(self.text, start, end)[:_MAX_PATH]
            locator = TextLocator(start=start, end=end, heading_path=path)
            yield Chunk(content, context, path[-1] if path else None, locator)
            return
        for first, last in chunk_spans(content, (len(content) + 1) // 2, 0):
            yield from self.chunks(start + first, start + last, header)

    def _fits(self, context: str | None, content: str) -> bool:
        embedded = "\n".join(part for part in (self._title, context, content) if part)
        limit = self.budget.max_tokens
        return self.budget.cost(content) <= limit and self.budget.count(embedded) <= limit

    def _make_context(self, path: tuple[str, ...], header: str | None) -> tuple[str | None, float]:
        """The context and its cost. Where it is too large its outer headings go first, then the header of the table."""
        limit = self.budget.max_tokens * _MAX_CONTEXT_SHARE
        for table in dict.fromkeys((header, None)):
            for first in range(max(1, len(path))):
                context = "\n".join(part for part in (SEPARATOR.join(path[first:]), table) if part)
                if len(context) <= _MAX_CONTEXT_CHARS and (cost := self.budget.cost(context)) <= limit:
                    return context or None, cost
        nearest = _fitted(path[-1], limit, self.budget)
        return nearest, self.budget.cost(nearest) if nearest else 0


def _fitted(text: str, limit: float, budget: Budget) -> str | None:
    """The first words of a text that cost at most `limit`."""
    fitted = text[: take(text, 0, len(text), limit, budget, prose=True)].strip()
    return fitted if fitted and budget.cost(fitted) <= limit else None
