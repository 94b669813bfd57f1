"""The OpenAPI 3.1 document, made from the operations and their pydantic models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from knowledge_store import __version__
from knowledge_store.api.operations import Operation

_REASONS: Final = {
    400: "The request cannot be read",
    401: "A key is needed, or this one is unknown",
    403: "This key may not do that",
    404: "There is no such thing",
    409: "Something is in the way; `ids` says what",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "A field is wrong; `fields` names each",
    429: "Too many queries at once; see Retry-After",
    503: "Not at the moment; see Retry-After",
}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A problem document (RFC 9457). `code` is stable.",
    "required": ["type", "title", "status", "detail", "code", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "request_id": {"type": "string"},
        "ids": {"type": "array", "items": {"type": "string"}},
        "position": {"type": "integer"},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "detail"],
                "properties": {"field": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def openapi_document(operations: Sequence[Operation]) -> bytes:
    """The document as JSON."""
    models = [(model, mode) for operation in operations for model, mode in _models(operation)]
    refs, definitions = models_json_schema(list(dict.fromkeys(models)), ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, refs)
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Knowledge Store", "version": __version__},
            "paths": paths,
            "components": {
                "schemas": {**definitions.get("$defs", {}), "Problem": _PROBLEM},
                "securitySchemes": {
                    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                    "bearer": {"type": "http", "scheme": "bearer"},
                },
            },
        }
    )


def _models(operation: Operation) -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    found: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    if operation.request:
        found.append((operation.request, "validation"))
    if isinstance(operation.response, dict):
        found += [(one, "serialization") for one in operation.response.get("anyOf", [])]
    else:
        found.append((operation.response, "serialization"))
    return found


def _described(operation: Operation, refs: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {
                "name": one.name,
                "in": one.where,
                "required": one.required,
                "description": one.description,
                "schema": one.schema,
            }
            for one in operation.parameters
        ],
        "responses": {str(operation.status): _success(operation, refs)},
    }
    if operation.access != "open":
        described["security"] = [{}, {"key": []}, {"bearer": []}]
    if operation.request:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[(operation.request, "validation")]}},
        }
    for status in sorted({*operation.errors, 401}):
        described["responses"][str(status)] = _failure(operation, status, refs)
    return described


def _success(operation: Operation, refs: Any) -> dict[str, Any]:
    return {
        "description": operation.summary,
        "content": {operation.media_type: {"schema": _response_schema(operation, refs)}},
    }


def _failure(operation: Operation, status: int, refs: Any) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if operation.name == "ready":
        content["application/json"] = {"schema": _response_schema(operation, refs)}
    return {"description": _REASONS[status], "content": content}


def _response_schema(operation: Operation, refs: Any) -> dict[str, Any]:
    if not isinstance(operation.response, dict):
        schema: dict[str, Any] = refs[(operation.response, "serialization")]
        return schema
    if "anyOf" in operation.response:
        return {"anyOf": [refs[(one, "serialization")] for one in operation.response["anyOf"]]}
    return operation.response
