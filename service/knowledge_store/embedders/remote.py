"""What embedders on servers share: texts in batches that fit, vectors checked.

texts -> prefixed -> refused where one may exceed the window -> 16 a call -> vectors of the right length, packed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from knowledge_store.embedders.windows import estimated_tokens, estimated_windows
from knowledge_store_sdk.errors import ConfigError, InvalidField
from knowledge_store_sdk.vectors import Vector, pack

BATCH_TEXTS: Final = 16
CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 300.0  # longer than any model takes to load; callers have their own, shorter patience
_SPECIAL_TOKENS: Final = 2

Ask = Callable[[list[str]], Awaitable[Sequence[Sequence[float]]]]
"""One call to the server: at most 16 texts, as many lists of numbers, in order."""


async def embed_in_batches(texts: Sequence[str], prefix: str, *, max_tokens: int, dims: int, ask: Ask) -> list[Vector]:
    """One vector a text. Raises InvalidField, before anything is sent, where one may have more than `max_tokens`;
    ConfigError where the server's vectors are not `dims` long."""
    prefixed = [prefix + text for text in texts]
    await asyncio.to_thread(_require_within, prefixed, max_tokens)
    vectors: list[Vector] = []
    for start in range(0, len(prefixed), BATCH_TEXTS):
        numbers = await ask(prefixed[start : start + BATCH_TEXTS])
        vectors += await asyncio.to_thread(_packed, numbers, dims)
    return vectors


def windows_within(text: str, prefix: str, max_tokens: int) -> list[str]:
    """The windows that `embed_in_batches` takes with that prefix."""
    return estimated_windows(text, max(4, max_tokens - _SPECIAL_TOKENS - estimated_tokens(prefix)))


def _require_within(texts: Sequence[str], max_tokens: int) -> None:
    for index, text in enumerate(texts):
        tokens = estimated_tokens(text) + _SPECIAL_TOKENS
        if tokens > max_tokens:
            reason = f"about {tokens} tokens are more than the window of {max_tokens}"
            raise InvalidField(reason, fields={f"texts[{index}]": reason})


def _packed(numbers: Sequence[Sequence[float]], dims: int) -> list[Vector]:
    for values in numbers:
        if len(values) != dims:
            raise ConfigError(f"embedder.model: the server's vectors had {dims} dims, and now have {len(values)}")
    try:
        return [pack(values) for values in numbers]
    except ValueError as error:
        raise InvalidField(f"the server gives a text no vector: {error}") from None
