"""The last slow questions, for whoever looks into why: text hash, filter and times, never the text."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

SLOW_MS: Final = 500.0
_KEPT: Final = 50


class SlowQueries:
    """A ring of the last 50 over 500 ms."""

    def __init__(self) -> None:
        self._ring: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def note(self, took_ms: float, entry: dict[str, Any]) -> None:
        if took_ms > SLOW_MS:
            self._ring.append(entry)

    def latest_first(self) -> list[dict[str, Any]]:
        return list(reversed(self._ring))
