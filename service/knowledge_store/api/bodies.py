"""Reads what a request carries: its JSON body, its parameters."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from knowledge_store.api.problems import invalid_fields
from knowledge_store_sdk.errors import InvalidField, InvalidRequest, TooLarge, UnsupportedMediaType
from knowledge_store_sdk.models import DocumentId, Time

Model = TypeVar("Model", bound=BaseModel)
_ID: TypeAdapter[str] = TypeAdapter(DocumentId)
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)


async def read_object(request: web.Request, max_bytes: int) -> dict[str, Any]:
    """The body as a JSON object.

    Raises UnsupportedMediaType, TooLarge, or InvalidRequest for what is no JSON object in UTF-8.
    """
    if request.content_type != "application/json":
        raise UnsupportedMediaType(f"send the body as application/json, not {request.content_type}")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(f"JSON is UTF-8; this body says {request.charset}")
    too_large = f"the body is larger than the {max_bytes} bytes that http.max_body_bytes allows; send it in parts"
    if (request.content_length or 0) > max_bytes:
        raise TooLarge(too_large)
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(too_large) from None
    except web.HTTPException as error:
        raise InvalidRequest(f"the body cannot be read: {error.reason}") from None
    except ValueError as error:  # a Content-Encoding that does not hold
        raise InvalidRequest(f"the body cannot be read: {error}") from None
    value = _parsed(raw)
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body must be a JSON object, not {_kind(value)}")
    return value


def validated(model: type[Model], value: dict[str, Any]) -> Model:
    """The object as a model. Raises InvalidField that names each wrong field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid_fields(error) from None


def whole_number(request: web.Request, name: str, default: int | None, least: int, most: int) -> int | None:
    """A parameter of the query string. Raises InvalidField."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= most):
        why = f"must be a whole number from {least} to {most}, not {text[:40]!r}"
        raise InvalidField(f"{name}: {why}", fields={name: why})
    return int(text)


def flag(request: web.Request, name: str, default: bool) -> bool:
    """`true` or `false` in the query string. Raises InvalidField."""
    text = request.query.get(name)
    if text is None:
        return default
    if text not in ("true", "false"):
        why = f"must be true or false, not {text[:40]!r}"
        raise InvalidField(f"{name}: {why}", fields={name: why})
    return text == "true"


def refresh(request: web.Request) -> bool:
    """Whether the write waits until searches see it: `?refresh=wait_for`. Raises InvalidField."""
    text = request.query.get("refresh", "false")
    if text not in ("wait_for", "false"):
        why = f"must be wait_for or false, not {text[:40]!r}"
        raise InvalidField(f"refresh: {why}", fields={"refresh": why})
    return text == "wait_for"


def document_id(text: str, name: str = "id") -> str:
    """An id of the query string or the path. Raises InvalidField."""
    try:
        return _ID.validate_python(text)
    except ValidationError as error:
        raise invalid_fields(error, name) from None


def name_parameter(request: web.Request, name: str, adapter: TypeAdapter[str]) -> str | None:
    """A parameter that is a name: a source, a project. Raises InvalidField."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return adapter.validate_python(text)
    except ValidationError as error:
        raise invalid_fields(error, name) from None


def _parsed(raw: bytes) -> Any:
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        reason = str(error)
    if b"\\u" in raw:
        # A lone surrogate is JSON, but no text: read it all the same, so that its field can be named.
        try:
            return json.loads(raw, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            pass
    raise InvalidRequest(f"the body is no JSON in UTF-8: {reason}")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _kind(value: object) -> str:
    kinds = {list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
