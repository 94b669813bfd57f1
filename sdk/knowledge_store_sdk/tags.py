"""Tags, the shared vocabulary, and the tag expression.

    expression = term { "|" term }        OR
    term       = tag { "+" tag }          AND, which binds tighter
    tag        = 1 to 128 of A-Z a-z 0-9 _ . : -      case-sensitive

There are no parentheses: every boolean filter without NOT can be written this way, and one level of nesting cannot be
misread. At most 64 tags stand in one expression.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from knowledge_store_sdk.errors import InvalidTagExpression

MAX_TAG_CHARS: Final = 128
MAX_EXPRESSION_TAGS: Final = 64
_TAG: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
_RUN: Final = re.compile(r"[A-Za-z0-9_.:-]*")


class KnowledgeTag:
    """Well-known tags, so that producers and consumers who never met use the same word. Any other tag is as good."""

    EMPLOYEE: Final = "employee"
    WIKI_PAGE: Final = "wiki_page"
    POLICY: Final = "policy"
    ORG_CHART: Final = "org_chart"
    INCIDENT_REPORT: Final = "incident_report"
    TICKET: Final = "ticket"
    THREAT_REPORT: Final = "threat_report"
    SENDER_HISTORY: Final = "sender_history"
    RUNBOOK: Final = "runbook"
    POSTMORTEM: Final = "postmortem"
    ADR: Final = "adr"
    CODE: Final = "code"
    DOCUMENT: Final = "document"

    EXECUTIVE: Final = "executive"
    FINANCE: Final = "finance"
    ENGINEERING: Final = "engineering"
    HR: Final = "hr"
    PUBLIC: Final = "public"
    INTERNAL: Final = "internal"


def is_tag(text: str) -> bool:
    """Whether the text may stand as a tag."""
    return _TAG.match(text) is not None


def tag_from(text: str) -> str:
    """The tag that a name found in a source becomes: `Human Resources` is `Human_Resources`; blank text is refused.

    Raises ValueError where nothing of the text may stand in a tag.
    """
    tag = re.sub(r"[^A-Za-z0-9_.:-]+", "_", text.strip()).strip("_")[:MAX_TAG_CHARS]
    if not tag:
        raise ValueError(f"no tag can be made of {text!r}: it has no letter, digit or one of _ . : -")
    return tag


@dataclass(frozen=True, slots=True)
class TagExpression:
    """A parsed expression: a disjunction of conjunctions, never empty. `str()` prints it back."""

    any_of: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "|".join("+".join(all_of) for all_of in self.any_of)

    def matches(self, tags: Collection[str]) -> bool:
        """Whether a document with these tags passes: the reference that every compiled form is checked against."""
        return any(all(tag in tags for tag in all_of) for all_of in self.any_of)


def parse_tags(text: str | None) -> TagExpression | None:
    """The tree of an expression; None, which is no filter, for None and for the empty text.

    Raises InvalidTagExpression with the position of the first character that does not fit.
    """
    if text is None or text == "":
        return None
    any_of: list[tuple[str, ...]] = []
    all_of: list[str] = []
    position = count = 0
    while True:
        run = _RUN.match(text, position)
        end = run.end() if run else position
        if end == position:
            raise InvalidTagExpression(_expected_a_tag(text, position), position=position)
        if end - position > MAX_TAG_CHARS:
            raise InvalidTagExpression(
                f"the tag at position {position} has {end - position} characters; at most {MAX_TAG_CHARS} are allowed",
                position=position,
            )
        count += 1
        if count > MAX_EXPRESSION_TAGS:
            raise InvalidTagExpression(
                f"the expression has more than {MAX_EXPRESSION_TAGS} tags; ask in several queries", position=position
            )
        all_of.append(text[position:end])
        if end == len(text):
            any_of.append(tuple(all_of))
            return TagExpression(tuple(any_of))
        if text[end] not in "+|":
            raise InvalidTagExpression(
                f"{text[end]!r} at position {end} is no part of a tag; tags hold A-Z a-z 0-9 _ . : - "
                "and are joined by + (and) or | (or)",
                position=end,
            )
        if text[end] == "|":
            any_of.append(tuple(all_of))
            all_of = []
        position = end + 1


def parse_query_string_tags(text: str | None) -> TagExpression | None:
    """As `parse_tags`, for the value of a query string, where an unescaped `+` has become a space.

    A single space between two tags is read as AND there; any other space is refused as everywhere.
    """
    if text is None:
        return None
    return parse_tags(re.sub(r"(?<=[A-Za-z0-9_.:-]) (?=[A-Za-z0-9_.:-])", "+", text))


def all_of(tags: Iterable[str]) -> TagExpression | None:
    """The expression that wants each of these tags; None for no tag."""
    return parse_tags("+".join(tags))


def _expected_a_tag(text: str, position: int) -> str:
    found = "the expression ends" if position == len(text) else f"{text[position]!r} stands"
    return f"a tag is expected at position {position}, where {found}"
