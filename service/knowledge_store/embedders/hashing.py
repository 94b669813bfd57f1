"""Feature hashing of words, for tests.

    text -> words, lower case -> each adds or subtracts 1 at the place that its checksum names -> length 1

It takes no time, gives the same vectors in every process, and texts that share words are near.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from knowledge_store.embedders.windows import Piece, even_windows
from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector, pack

_WORD: Final = re.compile(r"\w+")


class HashingConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    dims: int = Field(default=64, ge=8, le=4096, description="The length of the vectors.")
    max_tokens: int = Field(default=256, ge=4, le=65_536, description="The window, in words.")


def open_embedder(settings: Mapping[str, Any]) -> HashingEmbedder:
    """The entry point `hashing`."""
    return HashingEmbedder(HashingConfig(**settings))


class HashingEmbedder:
    """Knows words, not meanings; both roles are the same."""

    def __init__(self, config: HashingConfig) -> None:
        self._config = config

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(model="hashing", dims=self._config.dims, pooling="sum")

    @property
    def max_tokens(self) -> int:
        return self._config.max_tokens

    async def open(self) -> None:
        """There is nothing to load."""

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return await asyncio.to_thread(lambda: [self._embed_one(text) for text in texts])

    def windows(self, text: str, role: Role) -> list[str]:
        words = [Piece(match.start(), 1) for match in _WORD.finditer(text)]
        return even_windows(text, words, self.max_tokens) if words else [text]

    def count_tokens(self, text: str) -> int:
        return len(_WORD.findall(text))

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _embed_one(self, text: str) -> Vector:
        words = _WORD.findall(text.lower())
        if len(words) > self.max_tokens:
            raise InvalidField(f"{len(words)} words are more than the window of {self.max_tokens}")
        # the words of a text may cancel one another out, or there may be none: then the text as a whole is the feature
        return pack(self._sum(words) or self._sum([text]) or [])

    def _sum(self, features: Sequence[str]) -> list[float] | None:
        values = [0.0] * self._config.dims
        for feature in features:
            checksum = zlib.crc32(feature.encode())
            values[(checksum >> 1) % self._config.dims] += 1.0 if checksum & 1 else -1.0
        return values if any(values) else None
