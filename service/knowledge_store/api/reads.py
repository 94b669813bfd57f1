"""The routes that look documents up: one, a list, sets, counts."""

from __future__ import annotations

from aiohttp import web
from pydantic import TypeAdapter

from knowledge_store.api.bodies import document_id, name_parameter, whole_number
from knowledge_store.api.operations import PREFIX, Operation, Parameter, json_response
from knowledge_store.api.parameters import (
    CURSOR,
    ID,
    ID_IN_PATH,
    LIMIT,
    PARENT,
    PROJECT,
    SOURCE,
    TAGS,
    reader_filter,
)
from knowledge_store.api.services import Services
from knowledge_store.ingest.caller import Caller
from knowledge_store.query.citation import document_json
from knowledge_store_sdk.errors import InvalidField, NotFound
from knowledge_store_sdk.models import DocumentPage, KnowledgeDocument, ParentPage, SourceName, Stats

_SOURCE: TypeAdapter[str] = TypeAdapter(SourceName)
_ERRORS = (400, 401, 403, 422, 503)


async def documents(request: web.Request, services: Services, caller: Caller) -> web.Response:
    if "id" in request.query:
        return await _document(request.query["id"], services)
    limit = whole_number(request, "limit", 50, 1, 1000) or 50
    cursor = request.query.get("cursor")
    page = await services.index.scan(reader_filter(request, services.clock()), limit=limit, cursor=cursor)
    listed = [document_json(stored.document) for stored in page.documents]
    return json_response({"documents": listed, "cursor": page.cursor})


async def document(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return await _document(request.match_info["id"], services)


async def parents(request: web.Request, services: Services, caller: Caller) -> web.Response:
    source = name_parameter(request, "source", _SOURCE)
    if source is None:
        why = "must name the source whose sets are listed"
        raise InvalidField(f"source: {why}", fields={"source": why})
    limit = whole_number(request, "limit", 50, 1, 1000) or 50
    page, cursor = await services.index.parents(source, limit=limit, cursor=request.query.get("cursor"))
    return json_response(ParentPage(parents=tuple(page), cursor=cursor))


async def stats(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return json_response(await services.index.stats(reader_filter(request, services.clock())))


async def _document(id: str, services: Services) -> web.Response:
    stored = await services.index.get(document_id(id))
    expires_at = stored.document.expires_at if stored else None
    if stored is None or (expires_at is not None and expires_at <= services.clock()):
        raise NotFound(f"there is no document {id!r}", ids=[id])
    return json_response(document_json(stored.document))


OPERATIONS = [
    Operation(
        "GET",
        f"{PREFIX}/knowledge/documents",
        "list_documents",
        "Documents newest first, a page at a time; with `id`, that one document",
        "reader",
        documents,
        {"anyOf": [DocumentPage, KnowledgeDocument]},
        parameters=(ID, TAGS, SOURCE, PARENT, *PROJECT, CURSOR, LIMIT),
        errors=(*_ERRORS, 404),
    ),
    Operation(
        "GET",
        f"{PREFIX}/knowledge/parents",
        "list_parents",
        "The sets of a source, with what a writer compares to know what changed",
        "reader",
        parents,
        ParentPage,
        parameters=(Parameter("source", "The source.", SOURCE.schema, required=True), CURSOR, LIMIT),
        errors=_ERRORS,
    ),
    Operation(
        "GET",
        f"{PREFIX}/knowledge/stats",
        "stats",
        "How many documents there are, in total, per tag and per source",
        "reader",
        stats,
        Stats,
        parameters=(TAGS, SOURCE, *PROJECT),
        errors=_ERRORS,
    ),
    Operation(
        "GET",
        f"{PREFIX}/knowledge/{{id}}",
        "get_document",
        "One document",
        "reader",
        document,
        KnowledgeDocument,
        parameters=(ID_IN_PATH,),
        errors=(400, 401, 403, 404, 422, 503),
        pattern=f"{PREFIX}/knowledge/{{id:.+}}",
    ),
]
