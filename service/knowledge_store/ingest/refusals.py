"""Texts that the embedder refuses: when to try each again, and what to tell of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from knowledge_store_sdk.protocols import Stored

_FIRST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(days=1)
_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """One document that has no vector because its text was refused."""

    id: str
    attempts: int
    reason: str
    next_try: datetime


class Refusals:
    """Known for this process; another version of a document starts anew."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Refusal] = {}

    def is_due(self, stored: Stored, now: datetime) -> bool:
        """Whether the document may be tried now."""
        known = self._known.get((stored.document.id, stored.version))
        return known is None or known.next_try <= now

    def note(self, stored: Stored, reason: str, now: datetime) -> None:
        """The text was refused; the distance to the next attempt doubles, up to a day."""
        key = (stored.document.id, stored.version)
        before = self._known.pop(key, None)
        attempts = before.attempts + 1 if before else 1
        distance = min(_FIRST * 2 ** min(attempts - 1, 20), _LONGEST)
        self._known[key] = Refusal(stored.document.id, attempts, reason, now + distance)
        if len(self._known) > _KEPT:
            self._known.pop(next(iter(self._known)))

    def known(self) -> list[Refusal]:
        """All of them, the latest first."""
        return list(reversed(self._known.values()))
