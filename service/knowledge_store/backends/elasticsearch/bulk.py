"""Many small writes as few requests, each tried until its fate is known or the patience ends:

    actions -> requests of bounded size -> answers -> what was too busy is sent again, after a growing wait

An action that was answered with success or with a final refusal is not sent again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowledge_store.backends.elasticsearch.connection import Connection, encoded
from knowledge_store.backends.elasticsearch.errors import BUSY, reason_of
from knowledge_store_sdk.errors import BackendUnavailable

MAX_REQUEST_BYTES: Final = 8 * 1024 * 1024  # the server takes 100 MiB and advises 5 to 15
ATTEMPTS: Final = 6
FIRST_WAIT_S: Final = 0.1  # then doubled: 0.1 + 0.2 + 0.4 + 0.8 + 1.6 = 3.1 s in all


@dataclass(frozen=True, slots=True)
class Action:
    """One line or two of a bulk request."""

    kind: str
    stored_id: str
    condition: tuple[int, int] | None = None
    source: Any = None

    def lines(self) -> bytes:
        header: dict[str, Any] = {"_id": self.stored_id}
        if self.condition is not None:
            header["if_seq_no"], header["if_primary_term"] = self.condition
        lines = encoded({self.kind: header}) + b"\n"
        return lines if self.source is None else lines + encoded(self.source) + b"\n"


@dataclass(frozen=True, slots=True)
class Result:
    """`status` is the server's, of the last try. `in_doubt`: a try may have had effect without being answered."""

    status: int
    reason: str = ""
    in_doubt: bool = False

    @property
    def done(self) -> bool:
        return self.status < 300

    @property
    def busy(self) -> bool:
        return self.status in BUSY


async def bulk(connection: Connection, index: str, actions: Sequence[Action]) -> list[Result]:
    """One result an action, in order. Raises only where the server cannot be asked at all for another reason than
    being busy or away."""
    results: list[Result] = [Result(503, "not sent")] * len(actions)
    waiting = list(range(len(actions)))
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(FIRST_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
        for part, body in _requests(actions, waiting):
            answered = await _send(connection, index, body, len(part))
            for at, result in zip(part, answered, strict=True):
                doubt = results[at].in_doubt or result.in_doubt
                results[at] = Result(result.status, result.reason, doubt)
        waiting = [at for at in waiting if results[at].busy]
        if not waiting:
            break
    return results


async def _send(connection: Connection, index: str, body: bytes, count: int) -> list[Result]:
    path = f"/{index}/_bulk?require_alias=true&filter_path=items.*.status,items.*.error"
    try:
        reply = await connection.request("POST", path, body, send="once")
    except BackendUnavailable as error:
        return [Result(503, error.detail, in_doubt=True)] * count
    return [_result(next(iter(item.values()))) for item in reply.body["items"]]


def _result(item: dict[str, Any]) -> Result:
    status = int(item["status"])
    if item.get("error", {}).get("type") == "index_not_found_exception":
        status = 503  # someone removed the index: no word about the document
    # 429 is refused before anything is written; other failures may come after the primary has written
    in_doubt = status >= 500
    return Result(503 if status >= 500 else status, reason_of(item["error"]) if "error" in item else "", in_doubt)


def _requests(actions: Sequence[Action], waiting: Sequence[int]) -> Iterator[tuple[list[int], bytes]]:
    part: list[int] = []
    lines: list[bytes] = []
    size = 0
    for at in waiting:
        encoded_action = actions[at].lines()
        if part and size + len(encoded_action) > MAX_REQUEST_BYTES:
            yield part, b"".join(lines)
            part, lines, size = [], [], 0
        part.append(at)
        lines.append(encoded_action)
        size += len(encoded_action)
    if part:
        yield part, b"".join(lines)
