"""What the tests of clients write and ask: names of their own, and the expressions of the tag grammar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from knowledge_store_sdk.models import KnowledgeDocument, Passage

SIX: Final = {"D1": "a", "D2": "b", "D3": "c", "D4": "ab", "D5": "bc", "D6": "ac"}
EXPRESSIONS: Final = {
    "a+b|c": {"D3", "D4", "D5", "D6"},
    "c|a+b": {"D3", "D4", "D5", "D6"},
    "a|b+c": {"D1", "D4", "D5", "D6"},
    "a+b+c": set(),
}
MALFORMED: Final = {"a++b": 2, "+a": 0, "a|": 2, "|": 0, " ": 0, "a b": 1}
AWKWARD_IDS: Final = (
    "stats",
    "a/b/../c",
    "/",
    "q?x=1&y#z",
    "100%",
    "%2F",
    "two  spaces ",
    "a+b",
    "naïve\n\u2066👩‍👩‍👧\t.",
)
LONG: Final = ("/#% é" * 500, "\U0001f469" * 2048)  # a query string takes 12 bytes for each of the latter
QUESTION: Final = "granite harbour timetable"


class Own:
    """Names that belong to one test alone."""

    def __init__(self) -> None:
        self.mark = uuid4().hex[:12]
        self.source = f"source-{self.mark}"

    def tag(self, name: str) -> str:
        return f"{self.mark}.{name}"

    def tags(self, expression: str) -> str:
        """The expression with each of its one-letter tags made this test's own."""
        return "".join(self.tag(one) if one.isalpha() else one for one in expression)

    def id(self, name: str) -> str:
        return f"{self.mark}/{name}"

    def document(
        self, name: str, content: str = QUESTION, tags: Iterable[str] = ("a",), **fields: Any
    ) -> KnowledgeDocument:
        """A document of this test, under its source and its own tags."""
        return KnowledgeDocument(
            id=self.id(name), content=content, tags=tuple(self.tag(one) for one in tags), source=self.source, **fields
        )

    def names(self, documents: Iterable[KnowledgeDocument]) -> list[str]:
        """The names that the ids were made of."""
        return [one.id.removeprefix(f"{self.mark}/") for one in documents]


def score(passage: Passage) -> float:
    """The score of a hit that must have one."""
    assert passage.score is not None
    return passage.score
