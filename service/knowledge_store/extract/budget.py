"""How large a chunk may be, in tokens of the embedder that will read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from knowledge_store.embedders.windows import estimated_tokens

MIN_TOKENS: Final = 16
_CHARS_PER_TOKEN: Final = 16  # no prose comes near it; some tokenizers count a line of base64 as one unknown token
_MAX_BYTES: Final = 60_000  # of UTF-8: below the 64 KiB that a document's content may have


@dataclass(frozen=True, slots=True)
class Budget:
    """`max_tokens` is the room for title, context and content together: the window less special tokens and prefix.

    `count` gives the tokens of a text without special tokens; `tokenizer` names it, since chunks made with another are
    other chunks. Raises ValueError for fewer than 16 tokens.
    """

    max_tokens: int
    count: Callable[[str], int] = estimated_tokens
    tokenizer: str = "estimate"

    def __post_init__(self) -> None:
        if self.max_tokens < MIN_TOKENS:
            raise ValueError(f"a budget of {self.max_tokens} tokens is too small; it takes at least {MIN_TOKENS}")

    @property
    def max_chars(self) -> int:
        """Text longer than this never fits, whatever its tokens."""
        return min(self.max_tokens * _CHARS_PER_TOKEN, _MAX_BYTES)

    def cost(self, text: str) -> float:
        """What a text takes of the budget: its tokens, or its length where that is worse.

        The cost of two texts joined is at most the sum of theirs, but for what a tokenizer does at the seam. A text
        beyond `max_chars` costs infinity, and is not counted.
        """
        if len(text) > self.max_chars:
            return float("inf")
        by_length = max(self.blank_cost(len(text)), len(text.encode()) * self.max_tokens / _MAX_BYTES)
        return max(self.count(text), by_length)

    def blank_cost(self, chars: int) -> float:
        """What white space of that length takes."""
        return chars * self.max_tokens / self.max_chars
