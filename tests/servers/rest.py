"""A plain REST call to a test server: by another road than the service's client, and without an event loop."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# an HTTP proxy of the machine has no business between a test and its own server
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def ok(self) -> bool:
        return self.status < 300


def call(method: str, url: str, path: str, body: object = None, *, timeout_s: float = 30) -> Answer:
    """One request; a list goes as newline-delimited JSON. An error status is an answer; no connection is an OSError."""
    parts = urllib.parse.urlsplit(url)
    headers = {"Content-Type": "application/json"}
    if parts.username:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
    data = None
    if isinstance(body, list):
        data = "".join(json.dumps(line) + "\n" for line in body).encode()
        headers["Content-Type"] = "application/x-ndjson"
    elif body is not None:
        data = json.dumps(body).encode()
    address = urllib.parse.urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, "", "")
    )
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with _OPENER.open(request, timeout=timeout_s) as response:
            return _answer(response.status, response.headers.items(), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.headers.items(), error.read())


def _answer(status: int, headers: Iterable[tuple[str, str]], raw: bytes) -> Answer:
    return Answer(status, {name.lower(): value for name, value in headers}, json.loads(raw) if raw.strip() else None)
