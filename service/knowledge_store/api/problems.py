"""Errors as problem documents: RFC 9457, `application/problem+json`, with a stable `code`."""

from __future__ import annotations

import math
from typing import Any, Final

import orjson
from aiohttp import web
from pydantic import ValidationError

from knowledge_store_sdk.errors import InvalidField, KnowledgeStoreError, Retryable

MEDIA_TYPE: Final = "application/problem+json"
_CODES: Final = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}


def problem(error: KnowledgeStoreError, request_id: str) -> web.Response:
    """The response for an error of the tree."""
    headers = {}
    if isinstance(error, Retryable):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s or 1)))
    return _response(error.status, error.code, error.title, error.detail, request_id, error.extension(), headers)


def http_problem(error: web.HTTPException, request_id: str) -> web.Response:
    """The response for what the HTTP library refused by itself: an unknown route, a wrong method."""
    code = _CODES.get(error.status, f"http_{error.status}")
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return _response(error.status, code, error.reason, f"{error.status}: {error.reason}", request_id, {}, headers)


def invalid_fields(error: ValidationError, below: str = "") -> InvalidField:
    """What pydantic found, each field by its path: `documents[2].tags[0]`."""
    fields: dict[str, str] = {}
    for one in error.errors(include_url=False, include_context=False):
        text = one["msg"].removeprefix("Value error, ")
        fields.setdefault(_path(below, one["loc"]), text[:1].lower() + text[1:])
    named = "; ".join(f"{field}: {text}" for field, text in list(fields.items())[:5])
    return InvalidField(named[:2000], fields=fields)


def _path(below: str, loc: tuple[int | str, ...]) -> str:
    path = below
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path or "body"


def _response(
    status: int, code: str, title: str, detail: str, request_id: str, more: dict[str, Any], headers: dict[str, str]
) -> web.Response:
    body = {
        "type": f"urn:knowledge-store:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail.encode("utf-8", "replace").decode(),
        "code": code,
        "request_id": request_id,
        **more,
    }
    return web.Response(body=_json(body), status=status, content_type=MEDIA_TYPE, headers=headers)


def _json(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # a name that holds a lone surrogate, sent back to whoever sent it
        return orjson.dumps(_printable(body))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(one) for key, one in value.items()}
    return value
