"""Takes a list of texts to their vectors.

    texts -> windows -> batches of 16, two under way -> salvage -> each text's vectors -> their mean

What a text came to is told through its future, so that two callers with one text wait for the same work.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple, TypeVar

import numpy as np

from knowledge_store.embedding.connection import Connection
from knowledge_store.embedding.salvage import Refusal, salvage
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.vectors import Vector

BATCH_TEXTS: Final = 16
BATCHES_UNDER_WAY: Final = 2
_BUSY_ATTEMPTS: Final = 4
_BUSY_WAIT_AT_MOST_S: Final = 30.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of a text. Without a vector `reason` says why.

    `refused`: the text itself is why, and asking again changes nothing. Otherwise try later.
    """

    vector: Vector | None
    reason: str | None = None
    refused: bool = False


@dataclass(slots=True)
class Wish:
    """Who wants the texts, for how long: no batch begins after `until` (of `monotonic`), or once nobody waits."""

    until: float | None
    dropped: bool = False

    def left_s(self) -> float | None:
        return None if self.until is None else max(0.0, self.until - monotonic())

    def over(self) -> bool:
        return self.dropped or self.left_s() == 0.0


class _Piece(NamedTuple):
    """A window: of which text, its place in it."""

    key: str
    place: int
    text: str


@dataclass(slots=True)
class _Tally:
    """The windows of one text that came back, by their place."""

    missing: int
    vectors: dict[int, list[Vector]] = field(default_factory=dict)


def batched(items: Sequence[_T]) -> list[Sequence[_T]]:
    """The items in order, at most 16 together, in parts of about the same size."""
    parts = max(1, math.ceil(len(items) / BATCH_TEXTS))
    size = math.ceil(len(items) / parts)
    return [items[at : at + size] for at in range(0, len(items), size)] if items else []


def mean(vectors: Sequence[Vector]) -> Vector:
    """The mean of the vectors, of length 1; the first one where they cancel one another out."""
    if len(vectors) == 1:
        return vectors[0]
    total = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1).mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(total)
    return np.asarray(total / length, dtype="<f4").tobytes() if length > 1e-9 else vectors[0]


class Passages:
    """One list of texts under way. `texts` are by key; `settle` is called once for each that came to something.

    `slots` bounds the batches under way across all lists.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        wish: Wish,
        connection: Connection,
        slots: asyncio.Semaphore,
        settle: Callable[[str, Embedded], None],
    ) -> None:
        self._texts = texts
        self._wish = wish
        self._connection = connection
        self._slots = slots
        self._settle = settle
        self._tallies: dict[str, _Tally] = {}
        self._failure: str | None = None

    async def run(self) -> str | None:
        """Returns why the texts that were not settled have no vector: None where their time ran out."""
        groups = iter(batched(list(self._texts.items())))

        async def work() -> None:
            for group in groups:
                for batch in batched(await self._pieces(group)):
                    async with self._slots:
                        if self._failure or self._wish.over():
                            return
                        await self._embed(batch)

        async with asyncio.TaskGroup() as workers:
            for _ in range(BATCHES_UNDER_WAY):
                workers.create_task(work())
        return self._failure

    async def _pieces(self, group: Sequence[tuple[str, str]]) -> list[_Piece]:
        """The windows of these texts."""
        windows = await self._connection.windows([text for _, text in group], "passage")
        pieces: list[_Piece] = []
        for (key, _), of_text in zip(group, windows, strict=True):
            self._tallies[key] = _Tally(missing=len(of_text))
            pieces += [_Piece(key, place, window) for place, window in enumerate(of_text)]
        return pieces

    async def _embed(self, batch: Sequence[_Piece]) -> None:
        try:
            await self._connection.require_ready(self._wish.left_s(), look_again=False)
            results = await salvage([piece.text for piece in batch], self._call, self._connection.alive)
        except BackendUnavailable as error:
            self._failure = error.detail
            return
        for piece, result in zip(batch, results, strict=True):
            self._count(piece.key, piece.place, result)

    def _count(self, key: str, place: int, result: list[Vector] | Refusal) -> None:
        tally = self._tallies.get(key)
        if tally is None:
            return  # another window of this text was refused
        if isinstance(result, Refusal):
            del self._tallies[key]
            self._settle(key, Embedded(None, result.reason, refused=True))
            return
        tally.vectors[place] = result
        tally.missing -= 1
        if not tally.missing:
            del self._tallies[key]
            in_order = [vector for _, vectors in sorted(tally.vectors.items()) for vector in vectors]
            self._settle(key, Embedded(mean(in_order)))

    async def _call(self, texts: list[str]) -> list[Vector]:
        """One call; where the embedder says when to come back, that is waited for, a few times."""
        for attempt in range(1, _BUSY_ATTEMPTS + 1):
            try:
                return await self._connection.call(texts, "passage")
            except BackendUnavailable as error:
                wait_s = error.retry_after_s
                left_s = self._wish.left_s()
                if wait_s is None or attempt == _BUSY_ATTEMPTS or self._wish.dropped:
                    raise
                if wait_s > _BUSY_WAIT_AT_MOST_S or (left_s is not None and wait_s >= left_s):
                    raise
                await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")
