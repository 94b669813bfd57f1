"""Arguments that a query string or a path would carry, checked before they are sent.

There an empty value would read as none, `a b` as `a+b`, and a path as another one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from knowledge_store_sdk._wire import Narrowing, invalid_field
from knowledge_store_sdk.models import DocumentId, ProjectId, SourceName, Time
from knowledge_store_sdk.tags import parse_tags

_Value = TypeVar("_Value")
_ID: TypeAdapter[str] = TypeAdapter(DocumentId)
_SOURCE: TypeAdapter[str] = TypeAdapter(SourceName)
_PROJECT: TypeAdapter[str] = TypeAdapter(ProjectId)
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)


def checked_id(id: str, name: str = "id") -> str:
    """The id itself. Raises InvalidField, as all of these do, with the name given."""
    return _checked(_ID, id, name)


def checked_source(source: str) -> str:
    """The source's name itself."""
    return _checked(_SOURCE, source, "source")


def checked_time(time: datetime, name: str) -> datetime:
    """The time itself, which has a zone."""
    return _checked(_TIME, time, name)


def checked_narrowing(which: Narrowing) -> Narrowing:
    """As it is sent: an empty tag expression is none. Raises InvalidTagExpression too."""
    parse_tags(which.tags)
    for kind, value, name in (
        (_SOURCE, which.source, "source"),
        (_ID, which.parent_id, "parent_id"),
        (_PROJECT, which.project_id, "project_id"),
    ):
        if value is not None:
            _checked(kind, value, name)
    return replace(which, tags=which.tags or None)


def _checked(kind: TypeAdapter[_Value], value: _Value, name: str) -> _Value:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise invalid_field(error, name) from error
