"""What the client asks of a service: one method a route. HTTP answers it, or a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.models import (
    BulkResult,
    DeleteResult,
    DocumentPage,
    KnowledgeDocument,
    ParentPage,
    Query,
    QueryResult,
    ReplaceResult,
    Stats,
    WriteResult,
)

_DOCUMENT: TypeAdapter[KnowledgeDocument] = TypeAdapter(KnowledgeDocument)


class Encoded(NamedTuple):
    """A document on its way: `json` is what is sent, `id` what its outcome is told by."""

    id: str
    json: bytes


@dataclass(frozen=True, slots=True)
class ParentFields:
    """What a set of documents says about the document that they make up."""

    uri: str | None = None
    title: str | None = None
    revision: str | None = None
    fingerprint: str | None = None
    source: str | None = None

    def given(self) -> dict[str, str]:
        """The fields that have a value."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is listed, counted or deleted: each part that is given, of the projects that a question would see."""

    tags: str | None = None
    source: str | None = None
    parent_id: str | None = None
    project_id: str | None = None
    include_global: bool = True


class Wire(Protocol):
    """Every method may be called again with the same arguments, and raises the errors that the service raises.

    Tag expressions are ones that parse. `close` may be called twice.
    """

    async def upsert(self, document: Encoded, *, refresh: bool) -> WriteResult: ...

    async def bulk_upsert(self, documents: Sequence[Encoded], *, refresh: bool) -> BulkResult: ...

    async def replace(
        self, parent_id: str, parent: ParentFields, documents: Sequence[Encoded], *, refresh: bool
    ) -> ReplaceResult: ...

    async def sweep(
        self, source: str, not_seen_since: datetime, expect: int | None, *, refresh: bool
    ) -> DeleteResult: ...

    async def delete(self, id: str, *, refresh: bool) -> DeleteResult: ...

    async def delete_matching(self, which: Narrowing, expect: int, *, refresh: bool) -> DeleteResult: ...

    async def get(self, id: str) -> KnowledgeDocument: ...

    async def documents(self, which: Narrowing, *, cursor: str | None, limit: int) -> DocumentPage: ...

    async def parents(self, source: str, *, cursor: str | None, limit: int) -> ParentPage: ...

    async def stats(self, which: Narrowing) -> Stats: ...

    async def query(self, query: Query) -> QueryResult: ...

    async def query_batch(self, queries: Sequence[Query]) -> Sequence[QueryResult]: ...

    async def close(self) -> None: ...


def encoded(document: KnowledgeDocument) -> Encoded:
    """The document as JSON, with what a writer may set: no score, no citation, nothing that is None.

    Raises InvalidField where it cannot be JSON, which validation would have told.
    """
    try:
        return Encoded(document.id, _DOCUMENT.dump_json(document, exclude_none=True, exclude={"score"}))
    except PydanticSerializationError as error:
        raise InvalidField(f"the document {document.id!r} cannot be written as JSON: {error}") from error


def invalid_field(error: ValidationError, path: str = "") -> InvalidField:
    """The store's error for arguments that the models refuse; `path` is put before the name of each field."""
    named = {_path((path, *one["loc"])): one["msg"].removeprefix("Value error, ") for one in error.errors()}
    return InvalidField("; ".join(f"{field}: {why}" for field, why in named.items()), fields=named)


def _path(parts: Sequence[str | int]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
