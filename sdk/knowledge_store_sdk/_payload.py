"""What an analyzer was called with: the text to ask with, and how much it may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from knowledge_store_sdk._wire import invalid_field
from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.models import MAX_QUESTION_CHARS

_TEXT_NAMES = ("text", "body")


@dataclass(frozen=True, slots=True)
class Payload:
    """`text` is "" where there is none to ask with."""

    text: str
    limits: RetrievalLimits


def read_payload(payload: object) -> Payload:
    """Reads `text`, or `body` where that is blank, and `retrieval_limits` of a mapping or an object.

    Of a text longer than a question may be, the beginning counts; what is no whole character is replaced. Raises
    InvalidField where a member has another type, or an object has none of them.
    """
    members = {name: _member(payload, name) for name in (*_TEXT_NAMES, "retrieval_limits")}
    if not isinstance(payload, Mapping) and not any(hasattr(payload, name) for name in members):
        raise InvalidField(f"the payload, a {type(payload).__name__}, has none of {', '.join(members)}")
    text = ""
    for name in _TEXT_NAMES:
        value = members[name]
        if not isinstance(value, str | None):
            why = f"{type(value).__name__} is no text"
            raise InvalidField(f"payload.{name}: {why}", fields={f"payload.{name}": why})
        if value and value.strip():
            text = value
            break
    question = text[:MAX_QUESTION_CHARS].encode(errors="replace").decode()
    return Payload(question, read_limits(members["retrieval_limits"], "payload.retrieval_limits"))


def read_limits(limits: object, path: str = "retrieval_limits") -> RetrievalLimits:
    """The limits that a mapping or an object states; none for None."""
    if limits is None:
        return RetrievalLimits()
    try:
        return RetrievalLimits.model_validate(limits, from_attributes=True)
    except ValidationError as error:
        raise invalid_field(error, path) from error


def tighter(one: RetrievalLimits, other: RetrievalLimits) -> RetrievalLimits:
    """The limits that keep to both."""
    top_ks = [each.max_top_k for each in (one, other) if each.max_top_k is not None]
    floors = [each.min_score_floor for each in (one, other) if each.min_score_floor is not None]
    return RetrievalLimits(max_top_k=min(top_ks, default=None), min_score_floor=max(floors, default=None))


def _member(payload: object, name: str) -> Any:
    return payload.get(name) if isinstance(payload, Mapping) else getattr(payload, name, None)
