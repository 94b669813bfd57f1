"""The parameters that several routes share, and the filter that a reader's parameters make."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from aiohttp import web
from pydantic import TypeAdapter

from knowledge_store.api.bodies import document_id, flag, name_parameter
from knowledge_store.api.operations import Parameter
from knowledge_store_sdk.models import MAX_ID_CHARS, ProjectId, SourceName
from knowledge_store_sdk.protocols import Filter, Scope
from knowledge_store_sdk.tags import parse_query_string_tags

_NAME: Final = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
# No lengths: the parser limits an expression to 64 tags, and the server a URL to 64 KiB.
_EXPRESSION: Final = {"type": "string", "pattern": "^[A-Za-z0-9_.:+| -]*$"}
_CURSOR: Final = {"type": "string", "pattern": "^[A-Za-z0-9_=-]+$"}
_ANY_ID: Final = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}
_SOURCE: TypeAdapter[str] = TypeAdapter(SourceName)
_PROJECT: TypeAdapter[str] = TypeAdapter(ProjectId)

ID = Parameter("id", "The document, whatever its id is made of.", _ANY_ID)
ID_IN_PATH = Parameter("id", "The document; ids that a path cannot hold go by `?id=`.", _ANY_ID, "path", True)
TAGS = Parameter("tags", "A tag expression; a raw `+` between two tags is AND.", _EXPRESSION)
SOURCE = Parameter("source", "Only documents of this source.", _NAME)
SOURCE_IN_PATH = Parameter("source", "The source.", _NAME, "path", True)
PARENT = Parameter("parent_id", "Only the parts of this document.", _ANY_ID)
PROJECT = (
    Parameter("project_id", "Documents of this project; without one, those that belong to none.", _NAME),
    Parameter(
        "include_global", "With a project: also those that belong to none.", {"type": "boolean", "default": True}
    ),
)
CURSOR = Parameter("cursor", "Where the page before ended.", _CURSOR)
LIMIT = Parameter("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50})
EXPECT = Parameter("expect", "With `tags`: how many are meant.", {"type": "integer", "minimum": 0})
REFRESH = Parameter(
    "refresh",
    "`wait_for`: answer once searches see the write.",
    {"type": "string", "enum": ["wait_for", "false"], "default": "false"},
)


def reader_filter(request: web.Request, now: datetime) -> Filter:
    """What the parameters of a list, a count or a delete allow to be seen; expired documents never."""
    source = name_parameter(request, "source", _SOURCE)
    parent = request.query.get("parent_id")
    return Filter(
        tags=parse_query_string_tags(request.query.get("tags")),
        sources=frozenset({source}) if source else None,
        parent_id=document_id(parent, "parent_id") if parent is not None else None,
        scope=Scope(name_parameter(request, "project_id", _PROJECT), flag(request, "include_global", True)),
        live_at=now,
    )
