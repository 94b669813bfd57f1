"""The vectors made lately, by what was embedded."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector

_ENTRY_BYTES: Final = 250  # a key, the two objects' headers and a place in the dictionary


def text_key(text: str) -> str:
    """The `text_hash` of a passage in the index: 64 hexadecimal digits, of the role and the text alone.

    The embedder is no part of it, because a document must be kept, and wait for its vector, before the embedder was
    ever reached. An index holds the vectors of one identity only, so that in it a text still names one vector.
    """
    return hashlib.sha256(b"passage\0" + text.encode()).hexdigest()


def vector_key(identity: EmbedderIdentity, role: Role, text: str) -> str:
    """What a vector is cached by: 64 hexadecimal digits, of the embedder, the role and the text."""
    return hashlib.sha256(f"{identity.key}\0{role}\0{text}".encode()).hexdigest()


class VectorCache:
    """Keeps the vectors used last, in at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    def get(self, key: str) -> Vector | None:
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, key: str, vector: Vector) -> None:
        replaced = self._vectors.pop(key, None)
        self._bytes += len(vector) - len(replaced) if replaced else len(vector) + _ENTRY_BYTES
        self._vectors[key] = vector
        while self._bytes > self._max_bytes and self._vectors:
            _, dropped = self._vectors.popitem(last=False)
            self._bytes -= len(dropped) + _ENTRY_BYTES

    def __len__(self) -> int:
        return len(self._vectors)
