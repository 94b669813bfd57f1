"""What holds for the chunks of every document."""

import re

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Chunk, Extracted


def words_and_marks(text: str) -> int:
    """A tokenizer for tests: each word and each mark is a token, so that a figure in a test can be counted by eye."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def budget(max_tokens: int) -> Budget:
    return Budget(max_tokens, words_and_marks, "words")


def embedded(document: Extracted, chunk: Chunk) -> str:
    return "\n".join(part for part in (document.title, chunk.context, chunk.content) if part)


def check(text: str, document: Extracted, size: Budget) -> None:
    """In order, verbatim, never blank, within the budget with title and context, and together all of the text."""
    reached = 0
    for chunk in document.chunks:
        start, end = chunk.locator.start, chunk.locator.end
        assert chunk.content == text[start:end]
        assert chunk.content.strip()
        assert start >= reached
        assert not text[reached:start].strip(), "only blank space lies between two chunks"
        assert len(chunk.content.encode()) <= 65_536
        assert len(chunk.content) == 1 or size.count(embedded(document, chunk)) <= size.max_tokens
        reached = end
    assert not text[reached:].strip()
