"""The backend: one file, one corpus in memory, one thread that writes, and a few that read.

    write: analyse -> transaction -> apply to the corpus, which publishes a new view
    read:  view of the corpus -> rows of the file

A reader waits for a write only where it meets a row that has gone since it took its view: then it looks again when the
write is done.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

import structlog

from knowledge_store.backends.embedded import changes, reads
from knowledge_store.backends.embedded.analysis import VERSION
from knowledge_store.backends.embedded.corpus import Change, Corpus, load
from knowledge_store.backends.embedded.file import StoreFile, open_file
from knowledge_store.backends.embedded.rows import packed_terms, row_of
from knowledge_store.backends.embedded.search import candidates_of
from knowledge_store.backends.embedded.selection import newest_first, passing, stats_of
from knowledge_store_sdk.errors import BackendUnavailable, Conflict, IdentityMismatch
from knowledge_store_sdk.models import KnowledgeDocument, Parent, Stats
from knowledge_store_sdk.protocols import (
    Candidates,
    EmbedderIdentity,
    Existing,
    Fetched,
    FetchRequest,
    Filter,
    Outcome,
    Page,
    ParentWrite,
    Question,
    Replaced,
    Stored,
    Write,
)
from knowledge_store_sdk.vectors import Vector

_READERS: Final = 4
_FLOAT_BYTES: Final = 4
_MANY_DOCUMENTS: Final = 200_000  # beyond, a question takes over 60 ms and a start over 10 s
T = TypeVar("T")
log = structlog.get_logger(__name__)


class EmbeddedIndex:
    """The seam `KnowledgeIndex` on one SQLite file that this process owns."""

    name = "embedded"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: StoreFile | None = None
        self._corpus = Corpus(0, 0)
        self._identity: EmbedderIdentity | None = None
        self._store = ""
        self._connections: list[sqlite3.Connection] = []
        self._own = threading.local()
        self._writer = ThreadPoolExecutor(1, "embedded-write")
        self._readers = ThreadPoolExecutor(_READERS, "embedded-read")
        # Held from the start of a transaction until what it changed is published.
        self._writing = threading.Lock()

    async def open(self) -> None:
        await self._in(self._writer, self._open)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    async def ping(self) -> None:
        await self._read(lambda connection: connection.execute("SELECT 1").fetchone())

    async def identity(self) -> EmbedderIdentity | None:
        return self._identity

    async def bind(self, identity: EmbedderIdentity) -> None:
        await self._in(self._writer, lambda: self._bind(identity))

    async def state(self, name: str) -> str | None:
        def read(connection: sqlite3.Connection) -> str | None:
            found = connection.execute("SELECT value FROM states WHERE name = ?", (name,)).fetchone()
            return None if found is None else str(found[0])

        return await self._read(read)

    async def set_state(self, name: str, value: str) -> None:
        def write() -> None:
            self._connection().execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (name, value))

        await self._in(self._writer, write)

    async def epoch(self) -> str:
        return f"{self._store}.{self._corpus.view.epoch}"

    # writing

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        return await self._read(lambda connection: reads.lookup(connection, ids))

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        refused = {one.document.id: reason for one in writes if (reason := self._refusal(one)) is not None}
        good = [one for one in writes if one.document.id not in refused]
        expected = {one.document.id: one.expect for one in good}

        def write() -> list[Outcome]:
            rows = [row_of(one, None) for one in good]
            return self._transact(lambda connection: changes.upsert(connection, rows, expected))

        kept = {one.id: one for one in (await self._in(self._writer, write) if good else [])}
        return [
            kept.get(one.document.id) or Outcome(one.document.id, "failed", refused[one.document.id]) for one in writes
        ]

    async def set_vectors(self, vectors: Mapping[str, tuple[str, Vector]]) -> int:
        size = self._vector_bytes
        return await self._change(lambda connection: changes.set_vectors(connection, vectors, size))

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        refused = {one.document.id: reason for one in writes if (reason := self._refusal(one)) is not None}
        if refused:
            raise Conflict(next(iter(refused.values())), ids=list(refused))

        def write() -> Replaced:
            rows = [row_of(one, parent.id) for one in writes]
            return self._transact(lambda connection: changes.replace(connection, parent, rows, seen_before))

        return await self._in(self._writer, write)

    async def delete(
        self, ids: Sequence[str], *, versions: Mapping[str, str] | None = None, refresh: bool = False
    ) -> int:
        return await self._change(lambda connection: changes.delete(connection, ids, versions))

    async def vectors(self, text_hashes: Sequence[str]) -> dict[str, Vector]:
        return await self._read(lambda connection: reads.vectors_by_text(connection, text_hashes))

    async def purge(self) -> int:
        """Nothing: a replacement is one transaction and leaves nothing behind."""
        return 0

    # finding

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        return await self._read(lambda _: candidates_of(self._corpus, questions))

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        def read(connection: sqlite3.Connection) -> list[Fetched]:
            with connection:
                connection.execute("BEGIN")  # all of it from one state of the file
                return [reads.fetch(connection, one) for one in requests]

        fetched = await self._read(read)
        if any(one.superseded for one in fetched):
            # What took the place of these rows is on its way into the corpus: the next search shall find it there.
            await self._read(lambda _: self._after_the_write())
        return fetched

    async def get(self, id: str) -> Stored | None:
        return await self._read(lambda connection: reads.get(connection, id))

    async def parent(self, id: str) -> Parent | None:
        return await self._read(lambda connection: reads.parent(connection, id))

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        after: tuple[int, str] | None = None
        if cursor is not None:
            at, id = reads.place_of(cursor, int, str)
            after = (at, id)

        def read(connection: sqlite3.Connection) -> Page:
            page = self._page(connection, filter, limit, after)
            if page is None:
                with self._writing:
                    page = self._page(connection, filter, limit, after)
            if page is None:
                raise BackendUnavailable(f"the store {self._path} was changed from outside; start the service again")
            return page

        return await self._read(read)

    async def count(self, filter: Filter) -> int:
        return await self._read(lambda _: int(passing(self._corpus, self._corpus.view, filter).sum()))

    async def stats(self, filter: Filter) -> Stats:
        def read(_: sqlite3.Connection) -> Stats:
            corpus = self._corpus
            view = corpus.view
            return stats_of(corpus, view, passing(corpus, view, filter))

        return await self._read(read)

    async def parents(
        self, source: str, *, limit: int, cursor: str | None = None, seen_before: datetime | None = None
    ) -> tuple[list[Parent], str | None]:
        after = "" if cursor is None else str(reads.place_of(cursor, str)[0])
        found = await self._read(lambda connection: reads.parents(connection, source, after, seen_before, limit + 1))
        page = found[:limit]
        return page, reads.cursor_after(page[-1].id) if len(found) > limit else None

    # in the writer's thread

    def _open(self) -> None:
        self._file = open_file(self._path)
        connection = self._connection()
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        self._store = meta["store"]
        if "identity" in meta:
            self._identity = EmbedderIdentity.model_validate_json(meta["identity"])
        if meta.get("analysis") != str(VERSION):
            _analyse_again(connection)
        self._corpus = load(connection, self._dims, int(meta["epoch"]))
        if self._corpus.view.slots > _MANY_DOCUMENTS:
            log.warning("embedded_store_is_large", documents=self._corpus.view.slots, better="backend: elasticsearch")

    def _bind(self, identity: EmbedderIdentity) -> None:
        if self._identity is not None:
            if not self._identity.same_as(identity):
                raise IdentityMismatch(
                    f"the store {self._path} was built with {self._identity} and the embedder is {identity}: configure "
                    "the first one again, or run `knowledge-store reindex`"
                )
            return
        self._connection().execute("INSERT INTO meta VALUES ('identity', ?)", (identity.model_dump_json(),))
        self._identity = identity
        self._corpus.bind(identity.dims)

    def _transact(self, change: Callable[[sqlite3.Connection], tuple[T, Change]]) -> T:
        connection = self._connection()
        with self._writing:
            epoch = self._corpus.view.epoch + 1
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                told, changed = change(connection)
                if not (changed.added or changed.removed or changed.vectors):
                    return told
                connection.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (str(epoch),))
            self._corpus.apply(changed, epoch)
            if self._corpus.mostly_dead:
                self._corpus = load(connection, self._dims, epoch)
        return told

    # anywhere

    def _page(
        self, connection: sqlite3.Connection, filter: Filter, limit: int, after: tuple[int, str] | None
    ) -> Page | None:
        """The page; None where a write of this moment has removed some of it."""
        corpus = self._corpus
        view = corpus.view
        listed = newest_first(corpus, view, passing(corpus, view, filter), after, limit + 1)
        page = listed[:limit]
        found = reads.by_row(connection, [row for _, _, row in page])
        if len(found) < len(page):
            return None
        cursor = reads.cursor_after(*page[-1][:2]) if len(listed) > limit else None
        return Page([found[row] for _, _, row in page], cursor)

    def _refusal(self, write: Write) -> str | None:
        if write.vector is None:
            return None
        if self._identity is None:
            return "the store is bound to no embedder yet, so it takes no vectors"
        if len(write.vector) != self._vector_bytes:
            dims = len(write.vector) // _FLOAT_BYTES
            return f"the vector has {dims} dimensions, and those of the store have {self._dims}"
        return None

    @property
    def _dims(self) -> int:
        return 0 if self._identity is None else self._identity.dims

    @property
    def _vector_bytes(self) -> int:
        return self._dims * _FLOAT_BYTES

    def _after_the_write(self) -> None:
        with self._writing:
            pass

    def _connection(self) -> sqlite3.Connection:
        """The connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            if self._file is None:
                raise BackendUnavailable("the embedded store is not open")
            connection = self._own.connection = self._file.connect()
            self._connections.append(connection)
        return connection

    async def _change(self, change: Callable[[sqlite3.Connection], tuple[T, Change]]) -> T:
        return await self._in(self._writer, lambda: self._transact(change))

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        return await self._in(self._readers, lambda: read(self._connection()))

    async def _in(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        """Runs the call off the event loop; the one place where foreign errors are translated."""
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, call)
        except sqlite3.Error as error:
            raise BackendUnavailable(f"the store {self._path} does not answer: {error}") from error
        except RuntimeError as error:
            if "after shutdown" in str(error):
                raise BackendUnavailable("the embedded store is closed") from error
            raise

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        while self._connections:
            self._connections.pop().close()
        if self._file is not None:
            self._file.release()
            self._file = None


def _analyse_again(connection: sqlite3.Connection) -> None:
    """Terms as this version makes them, of every document; all of them or none."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for row, text in connection.execute("SELECT row, document FROM documents").fetchall():
            packed = packed_terms(KnowledgeDocument.model_validate_json(text).search_text)
            connection.execute("UPDATE documents SET length = ?, terms = ?, counts = ? WHERE row = ?", (*packed, row))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('analysis', ?)", (str(VERSION),))
