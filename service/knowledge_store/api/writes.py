"""The routes that change the store: upsert, bulk-upsert, parents, sweep, delete."""

from __future__ import annotations

from typing import Annotated, Any

from aiohttp import web
from pydantic import Field, TypeAdapter, ValidationError

from knowledge_store.api.auth import require
from knowledge_store.api.bodies import document_id, read_object, refresh, validated, whole_number
from knowledge_store.api.operations import PREFIX, Operation, Parameter, json_response
from knowledge_store.api.parameters import EXPECT, ID, ID_IN_PATH, PROJECT, REFRESH, SOURCE_IN_PATH, TAGS, reader_filter
from knowledge_store.api.problems import invalid_fields
from knowledge_store.api.services import Services
from knowledge_store.ingest.caller import Caller
from knowledge_store.ingest.write import failed
from knowledge_store_sdk.errors import InvalidField, InvalidRequest, error_from_problem
from knowledge_store_sdk.models import (
    MAX_BULK_DOCUMENTS,
    BulkResult,
    DeleteResult,
    KnowledgeDocument,
    Record,
    ReplaceResult,
    SourceName,
    Text,
    Time,
    WriteResult,
)

_SOURCE: TypeAdapter[str] = TypeAdapter(SourceName)
_ERRORS = (400, 401, 403, 409, 413, 415, 422, 503)


class Bulk(Record):
    documents: Annotated[tuple[KnowledgeDocument, ...], Field(min_length=1, max_length=MAX_BULK_DOCUMENTS)]


class ParentSet(Record):
    """Everything that makes up one document. `fingerprint` says with which tools and settings it was cut."""

    documents: tuple[KnowledgeDocument, ...]
    uri: Annotated[Text, Field(max_length=8192)] | None = None
    title: Annotated[Text, Field(max_length=2048)] | None = None
    revision: Annotated[Text, Field(max_length=512)] | None = None
    fingerprint: Annotated[Text, Field(max_length=512)] | None = None
    source: SourceName | None = None


class Sweep(Record):
    not_seen_since: Time
    expect: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Nothing is removed where another number of documents would go."
    )


async def upsert(request: web.Request, services: Services, caller: Caller) -> web.Response:
    document = validated(KnowledgeDocument, await read_object(request, services.http.max_body_bytes))
    write = services.writer.upsert([document], caller, refresh=refresh(request))
    (result,) = await services.writes.run(write)
    if result.error is not None:
        raise error_from_problem(0, {"code": result.error.code, "detail": result.error.detail, "ids": [document.id]})
    return json_response(result)


async def bulk_upsert(request: web.Request, services: Services, caller: Caller) -> web.Response:
    body = await read_object(request, services.http.max_body_bytes)
    waits = refresh(request)
    items = _items(body)
    results: list[WriteResult | None] = [None] * len(items)
    documents: list[tuple[int, KnowledgeDocument]] = []
    for at, item in enumerate(items):
        try:
            documents.append((at, KnowledgeDocument.model_validate(item)))
        except ValidationError as error:
            given = item.get("id") if isinstance(item, dict) else None
            told = given.encode("utf-8", "replace").decode() if isinstance(given, str) else ""
            results[at] = failed(told[:2048], invalid_fields(error, f"documents[{at}]"))
    write = services.writer.upsert([document for _, document in documents], caller, refresh=waits)
    for (at, _), result in zip(documents, await services.writes.run(write), strict=True):
        results[at] = result
    done = tuple(result for result in results if result is not None)
    stored = sum(result.state == "stored" for result in done)
    return json_response(BulkResult(stored=stored, failed=len(done) - stored, results=done))


async def replace(request: web.Request, services: Services, caller: Caller) -> web.Response:
    parent_id = document_id(request.query.get("id", ""))
    whole = validated(ParentSet, await read_object(request, services.http.max_body_bytes))
    write = services.replacer.replace(
        parent_id,
        whole.documents,
        caller,
        uri=whole.uri,
        title=whole.title,
        revision=whole.revision,
        fingerprint=whole.fingerprint,
        source=whole.source,
        refresh=refresh(request),
    )
    return json_response(await services.writes.run(write))


async def sweep(request: web.Request, services: Services, caller: Caller) -> web.Response:
    source = _source_in_path(request)
    caller.check(source)
    wanted = validated(Sweep, await read_object(request, services.http.max_body_bytes))
    work = services.maintenance.sweep(source, wanted.not_seen_since, wanted.expect, refresh=refresh(request))
    return json_response(DeleteResult(deleted=await services.writes.run(work)))


async def delete_documents(request: web.Request, services: Services, caller: Caller) -> web.Response:
    if ("id" in request.query) == ("tags" in request.query):
        raise InvalidRequest("say what to delete: either `id`, or `tags` with `expect`")
    if "id" in request.query:
        return await _delete(request.query["id"], request, services, caller)
    require(caller, "admin")
    matching = reader_filter(request, services.clock())
    expect = whole_number(request, "expect", None, 0, 2**31)
    if matching.tags is None:
        raise InvalidRequest("an empty tag expression would match everything; name the tags to delete by")
    if expect is None:
        why = "must say how many documents are meant, so that a wrong expression removes nothing"
        raise InvalidField(f"expect: {why}", fields={"expect": why})
    work = services.maintenance.delete_matching(matching, expect, refresh=refresh(request))
    return json_response(DeleteResult(deleted=await services.writes.run(work)))


async def delete_document(request: web.Request, services: Services, caller: Caller) -> web.Response:
    return await _delete(request.match_info["id"], request, services, caller)


async def _delete(id: str, request: web.Request, services: Services, caller: Caller) -> web.Response:
    write = services.writer.delete(document_id(id), caller, refresh=refresh(request))
    return json_response(DeleteResult(deleted=await services.writes.run(write)))


def _items(body: dict[str, Any]) -> list[Any]:
    fields: dict[str, str] = {}
    for name in body:
        if name != "documents":
            fields[name] = "unknown field; a bulk write has `documents` only"
    items = body.get("documents")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_BULK_DOCUMENTS:
        fields["documents"] = f"must be an array of 1 to {MAX_BULK_DOCUMENTS} documents"
    if fields or not isinstance(items, list):
        raise InvalidField("; ".join(f"{name}: {why}" for name, why in list(fields.items())[:5]), fields=fields)
    return items


def _source_in_path(request: web.Request) -> str:
    try:
        return _SOURCE.validate_python(request.match_info["source"])
    except ValidationError as error:
        raise invalid_fields(error, "source") from None


OPERATIONS = [
    Operation(
        "POST",
        f"{PREFIX}/knowledge/upsert",
        "upsert",
        "Store one document; one with the same id is replaced",
        "writer",
        upsert,
        WriteResult,
        request=KnowledgeDocument,
        parameters=(REFRESH,),
        errors=_ERRORS,
    ),
    Operation(
        "POST",
        f"{PREFIX}/knowledge/bulk-upsert",
        "bulk_upsert",
        "Store up to 1,000 documents; each has its own result, and a bad one fails alone",
        "writer",
        bulk_upsert,
        BulkResult,
        request=Bulk,
        parameters=(REFRESH,),
        errors=_ERRORS,
    ),
    Operation(
        "PUT",
        f"{PREFIX}/knowledge/parents",
        "replace",
        "The documents become the whole set of this parent, at once",
        "writer",
        replace,
        ReplaceResult,
        request=ParentSet,
        parameters=(Parameter("id", "The parent.", ID.schema, required=True), REFRESH),
        errors=_ERRORS,
    ),
    Operation(
        "POST",
        f"{PREFIX}/knowledge/sources/{{source}}/sweep",
        "sweep",
        "Remove what a source has not written since",
        "writer",
        sweep,
        DeleteResult,
        request=Sweep,
        parameters=(SOURCE_IN_PATH, REFRESH),
        errors=(*_ERRORS, 404),
    ),
    Operation(
        "DELETE",
        f"{PREFIX}/knowledge/documents",
        "delete_documents",
        "Delete one document by `id`, or (admin) all that a tag expression finds, if they are `expect` many",
        "writer",
        delete_documents,
        DeleteResult,
        parameters=(ID, TAGS, EXPECT, *PROJECT, REFRESH),
        errors=(400, 401, 403, 404, 409, 422, 503),
    ),
    Operation(
        "DELETE",
        f"{PREFIX}/knowledge/{{id}}",
        "delete_document",
        "Delete one document",
        "writer",
        delete_document,
        DeleteResult,
        parameters=(ID_IN_PATH, REFRESH),
        errors=(400, 401, 403, 404, 409, 422, 503),
        pattern=f"{PREFIX}/knowledge/{{id:.+}}",
    ),
]
