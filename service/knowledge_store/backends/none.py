"""The backend `none`: no store is configured. The service starts, is alive, and tells every request what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.models import Parent, Stats
from knowledge_store_sdk.protocols import (
    Candidates,
    EmbedderIdentity,
    Existing,
    Fetched,
    FetchRequest,
    Filter,
    KnowledgeIndex,
    Outcome,
    Page,
    ParentWrite,
    Question,
    Replaced,
    Stored,
    Write,
)
from knowledge_store_sdk.vectors import Vector


class NoIndex:
    """The seam `KnowledgeIndex` with nothing behind it: what would read or write raises BackendUnavailable.

    It opens, closes and binds to any embedder, so that a service without a store starts; it is never ready.
    """

    name = "none"

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None:
        _unavailable()

    async def identity(self) -> EmbedderIdentity | None:
        return None

    async def bind(self, identity: EmbedderIdentity) -> None: ...

    async def state(self, name: str) -> str | None:
        _unavailable()

    async def set_state(self, name: str, value: str) -> None:
        _unavailable()

    async def epoch(self) -> str:
        _unavailable()

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        _unavailable()

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        _unavailable()

    async def set_vectors(self, vectors: Mapping[str, tuple[str, Vector]]) -> int:
        _unavailable()

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        _unavailable()

    async def delete(
        self, ids: Sequence[str], *, versions: Mapping[str, str] | None = None, refresh: bool = False
    ) -> int:
        _unavailable()

    async def vectors(self, text_hashes: Sequence[str]) -> dict[str, Vector]:
        _unavailable()

    async def purge(self) -> int:
        _unavailable()

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        _unavailable()

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        _unavailable()

    async def get(self, id: str) -> Stored | None:
        _unavailable()

    async def parent(self, id: str) -> Parent | None:
        _unavailable()

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        _unavailable()

    async def count(self, filter: Filter) -> int:
        _unavailable()

    async def stats(self, filter: Filter) -> Stats:
        _unavailable()

    async def parents(
        self, source: str, *, limit: int, cursor: str | None = None, seen_before: datetime | None = None
    ) -> tuple[list[Parent], str | None]:
        _unavailable()


def open_backend(settings: Mapping[str, Any]) -> KnowledgeIndex:
    """The backend that keeps nothing; it has no settings."""
    return NoIndex()


def _unavailable() -> NoReturn:
    raise BackendUnavailable(
        "no store is configured: `backend` is none; set it to embedded, elasticsearch, or another installed backend"
    )
