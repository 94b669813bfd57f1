"""A light HTTP client: one kept connection, requests built beforehand, answers not parsed.

On two cores every millisecond that the load generator takes is taken from the service and its engine.
"""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import orjson

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_LIMIT_BYTES: Final = 64 * 1024 * 1024


def request(path: str, body: Any) -> bytes:
    """A whole POST request with this body as JSON."""
    content = orjson.dumps(body)
    head = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join((*head, f"Content-Length: {len(content)}", "", "")).encode() + content


def query(**question: Any) -> bytes:
    """A whole request to /knowledge/query."""
    return request("/api/v1/knowledge/query", question)


class Wire:
    """One connection, one request at a time. Raises RuntimeError for an answer other than 200."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        self._streams = await asyncio.open_connection(self._host, self._port, limit=_LIMIT_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._streams is not None
        self._streams[1].close()

    async def send(self, whole: bytes) -> bytes:
        """Sends a request and returns the body of the answer."""
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(whole)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length.group(1)) if length else 0)
        if not head.startswith(b"HTTP/1.1 200 "):
            status = head.splitlines()[0].decode()
            raise RuntimeError(f"{status}: {body[:500].decode('utf-8', 'replace')}")
        return body
