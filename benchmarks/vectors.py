"""Vectors that outlive a run: an embedder that asks another one only for what it was never asked before.

texts -> those on disk -> the rest, embedded -> kept on disk -> vectors
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from knowledge_store_sdk.protocols import Embedder, EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector

_BUSY_S: Final = 60.0  # several processes may fill one file


def cache_folder() -> Path:
    """The folder named by KNOWLEDGE_BENCH_CACHE, else `~/.cache/knowledge-store/bench`; made where it is missing."""
    folder = Path(os.environ.get("KNOWLEDGE_BENCH_CACHE") or Path.home() / ".cache" / "knowledge-store" / "bench")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class CachedEmbedder:
    """The other embedder in everything, but for the time it takes. One file for each identity."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner, self._folder = inner, folder
        self._kept: _VectorFile | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        return self._inner.identity

    @property
    def max_tokens(self) -> int:
        return self._inner.max_tokens

    async def open(self) -> None:
        await self._inner.open()
        if self._kept is None:
            self._kept = await asyncio.to_thread(_VectorFile, self._folder / f"vectors-{self.identity.key}.db")

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        assert self._kept is not None, "open first"
        keys = {text: hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in texts}
        known = await asyncio.to_thread(self._kept.read, list(keys.values()))
        missing = [text for text, key in keys.items() if key not in known]
        if missing:
            made = await self._inner.embed(missing, role)
            fresh = {keys[text]: vector for text, vector in zip(missing, made, strict=True)}
            await asyncio.to_thread(self._kept.write, fresh)
            known |= fresh
        return [known[keys[text]] for text in texts]

    def windows(self, text: str, role: Role) -> list[str]:
        return self._inner.windows(text, role)

    def count_tokens(self, text: str) -> int:
        return self._inner.count_tokens(text)

    async def close(self) -> None:
        await self._inner.close()
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class _VectorFile:
    """A table of key -> vector, called from any thread: the library serialises the calls of one connection."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        marks = ",".join("?" * len(keys))
        return dict(self._connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", keys))

    def write(self, vectors: dict[bytes, Vector]) -> None:
        # each statement is a transaction of its own, so that threads that share the connection cannot mix theirs
        rows = [part for pair in vectors.items() for part in pair]
        marks = ",".join(["(?,?)"] * len(vectors))
        self._connection.execute(f"INSERT OR IGNORE INTO vectors VALUES {marks}", rows)

    def close(self) -> None:
        self._connection.close()
