"""Answers that a client has had, kept in its process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from knowledge_store_sdk.models import Passage

_PASSAGES: TypeAdapter[list[Passage]] = TypeAdapter(list[Passage])
_ENTRY_BYTES: Final = 512  # what an entry takes beside its key and its answer


@dataclass(frozen=True, slots=True)
class _Entry:
    passages: bytes
    stored_at: float
    good_until: float

    def cost(self, key: str) -> int:
        return len(self.passages) + len(key) + _ENTRY_BYTES


class KnowledgeCache:
    """The answers to `fetch`, least recently used ones going first: `KnowledgeClient(url, cache=KnowledgeCache())`.

    Holds at most `max_bytes`, each answer for at most `ttl_s` seconds and never beyond the moment at which a document
    of it expires. A write through a client empties its cache; what others write is seen when an answer's time is over.
    Several clients of one process may share it: each is answered from its own service and key only. `now` gives
    seconds since 1970.
    """

    def __init__(
        self, *, max_bytes: int = 16 * 1024 * 1024, ttl_s: float = 60.0, now: Callable[[], float] = time.time
    ) -> None:
        if max_bytes < 1 or ttl_s <= 0:
            raise ValueError(f"max_bytes is {max_bytes} and ttl_s {ttl_s}; both must be above 0")
        self._max_bytes, self._ttl_s, self._now = max_bytes, ttl_s, now
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._generation = 0

    @property
    def generation(self) -> int:
        """Changes whenever the cache is emptied; an answer belongs to the one in which it was asked for."""
        return self._generation

    def get(self, key: str) -> list[Passage] | None:
        """The passages kept under a key, the caller's own copies; None where there are none that still count."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not entry.stored_at <= self._now() < entry.good_until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return _PASSAGES.validate_json(entry.passages)

    def put(self, key: str, passages: Sequence[Passage], generation: int) -> None:
        """Keeps an answer, unless the cache was emptied since it was asked for, or it is larger than all of it."""
        if generation != self._generation:
            return
        now = self._now()
        expiries = [one.expires_at.timestamp() for one in passages if one.expires_at is not None]
        entry = _Entry(_PASSAGES.dump_json(list(passages)), now, min([now + self._ttl_s, *expiries]))
        self._drop(key)
        if entry.cost(key) > self._max_bytes:
            return
        self._entries[key] = entry
        self._bytes += entry.cost(key)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forgets everything, answers that are under way included."""
        self._entries.clear()
        self._bytes = 0
        self._generation += 1

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.cost(key)
