"""Bytes -> text.

    byte order mark? -> UTF-8? -> a detected encoding -> text without NUL

Offsets in the text count characters (code points) of what `decode` returns: the byte order mark is not part of it,
and line ends stay as they are, so that a CRLF counts two.
"""

from __future__ import annotations

import codecs
from typing import Final, Literal

from charset_normalizer import from_bytes

from knowledge_store_sdk.errors import SkippableItem

Reason = Literal["too_large", "binary", "unknown_encoding", "no_text"]
_MARKS: Final = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# those that files are written in: with all that there are, a French text of five lines is taken for one in Baltic DOS
_ENCODINGS: Final = [
    *("cp1252", "cp1250", "cp1251", "cp932", "gb18030", "big5", "euc_jp", "euc_kr"),
    *("koi8_r", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
]
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b"))
_MAX_CONTROL_SHARE: Final = 0.01
_SAMPLE_BYTES: Final = 256 * 1024  # the detection takes seconds for a file of many MiB


class NotText(SkippableItem):
    """A file that holds no text to index; `reason` is what reports count it under."""

    code, title = "not_text", "The file holds no text"

    def __init__(self, detail: str, *, reason: Reason = "binary", ids: tuple[str, ...] = ()) -> None:
        super().__init__(detail, ids=ids)
        self.reason = reason


def decode(data: bytes) -> str:
    """The text of a file. Raises NotText: blank, binary, or in an encoding that cannot be told."""
    text = _decoded(data)
    if "\0" in text:
        raise NotText("it holds NUL characters, as binary files do", reason="binary")
    if not text or text.isspace():
        raise NotText("it holds no text", reason="no_text")
    return text


def _decoded(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise NotText(f"it begins as {encoding} and is not: {error.reason}", reason="binary") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _detected(data)


def _detected(data: bytes) -> str:
    if b"\0" in data or _controls(data) > len(data) * _MAX_CONTROL_SHARE:
        raise NotText("it is binary", reason="binary")
    found = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=_ENCODINGS).best()
    if found is not None:
        try:
            return data.decode(found.encoding)
        except UnicodeDecodeError:
            pass
    raise NotText(
        "it is neither UTF-8 nor in an encoding that can be told; save it as UTF-8", reason="unknown_encoding"
    )


def _controls(data: bytes) -> int:
    return len(data) - len(data.translate(None, _CONTROLS))
