"""What a JSON object may hold to come back exactly as it was sent."""

from __future__ import annotations

import json
import math
from typing import Any, Final

MAX_DEPTH: Final = 100
MAX_METADATA_BYTES: Final = 256 * 1024
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """The object itself, where every value of it can be kept; raises ValueError that names the first that cannot.

    Refused: NUL and lone surrogates, in keys too; numbers that are not finite; integers beyond 64 bits, which many
    readers would round; more than 100 levels; more than 256 KiB of compact UTF-8 JSON.
    """
    _walk(metadata, "metadata", 1)
    size = len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"{size} bytes of JSON are more than the {MAX_METADATA_BYTES} that metadata may hold")
    return metadata


def _walk(value: Any, path: str, depth: int) -> None:
    if depth > MAX_DEPTH + 1:
        raise ValueError(f"the object is more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path}: a key must be text, not {type(key).__name__}")
            _text(key, f"a key of {path}")
            _walk(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", depth + 1)
    elif isinstance(value, str):
        _text(value, path)
    else:
        _scalar(value, path)


def _scalar(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path}: {value} is no JSON number; send null or a text")
    if isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        raise ValueError(f"{path}: an integer beyond 64 bits would be rounded by many readers; send it as text")
    if value is not None and not isinstance(value, int | float):
        raise ValueError(f"{path}: {type(value).__name__} is no JSON value")


def _text(text: str, place: str) -> None:
    if text.isascii():
        if "\0" in text:
            raise ValueError(f"{place}: a NUL character; remove it")
        return
    if "\0" in text:
        raise ValueError(f"{place}: a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: a lone surrogate at position {error.start}; send the whole character") from None
