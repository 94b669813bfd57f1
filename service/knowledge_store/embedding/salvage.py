"""Saves what can be saved of a batch in which the embedder cannot take a text.

    the batch fails -> the embedder still answers? -> one text at a time -> the culprit in halves, up to eighths

A text is sent at most twice as a whole, once in its batch and once alone, and each part of it once. One text at a time
rather than half a batch, because the culprit may be what takes the server down: so it does that twice, not five times.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_store_sdk.errors import BackendUnavailable, InvalidField, KnowledgeStoreError
from knowledge_store_sdk.vectors import Vector

_HALVINGS: Final = 3

Call = Callable[[list[str]], Awaitable[list[Vector]]]
"""One call to the embedder. Raises InvalidField or BackendUnavailable."""
Alive = Callable[[KnowledgeStoreError], Awaitable[bool]]
"""Whether the embedder answers other texts after this error."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The embedder takes neither the text nor its parts."""

    reason: str


async def salvage(pieces: Sequence[str], call: Call, alive: Alive) -> list[list[Vector] | Refusal]:
    """Each piece's vectors, in order: one, or one a part where it had to be divided; or why it has none.

    Raises BackendUnavailable where the embedder answers nothing at all.
    """
    if len(pieces) > 1:
        try:
            return [[vector] for vector in await call(list(pieces))]
        except (InvalidField, BackendUnavailable) as error:
            await _require_alive(error, alive)
    return [await _alone(piece, call, alive, _HALVINGS) for piece in pieces]


async def _alone(piece: str, call: Call, alive: Alive, halvings: int) -> list[Vector] | Refusal:
    try:
        return await call([piece])
    except (InvalidField, BackendUnavailable) as error:
        await _require_alive(error, alive)
        reason = error.detail
    parts = halves(piece) if halvings else []
    if not parts:
        return Refusal(reason)
    vectors: list[Vector] = []
    for part in parts:
        embedded = await _alone(part, call, alive, halvings - 1)
        if isinstance(embedded, Refusal):
            return embedded
        vectors += embedded
    return vectors


async def _require_alive(error: KnowledgeStoreError, alive: Alive) -> None:
    if not await alive(error):
        raise BackendUnavailable(error.detail) from error


def halves(text: str) -> list[str]:
    """The text in two parts, neither blank, cut at the white space nearest to its middle; [] for one character."""
    middle = text.index(text.strip()) + len(text.strip()) // 2
    spaces = [index for index, character in enumerate(text) if character.isspace()]
    cuts = sorted(spaces, key=lambda index: abs(index - middle))
    for cut in [*cuts, middle]:
        if text[:cut].strip() and text[cut:].strip():
            return [text[:cut], text[cut:]]
    return []
