"""Keeps the store in step with a folder of Markdown and text.

    list -> diff -> read -> extract -> chunk -> replace (embed, write, commit) -> sweep

A file is identified by its path below the folder and compared by the hash of its bytes, so that only what differs is
written. Several files are under way at once, each through all stages, so that the embedder has work while others are
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from knowledge_store.extract.budget import Budget
from knowledge_store.ingest.file_documents import FileDocuments, fingerprint_of, prepare, set_id
from knowledge_store.ingest.listing import Listed, Listing, is_below, list_folder
from knowledge_store_sdk.errors import Conflict, FatalSync, InvalidField, TooLarge
from knowledge_store_sdk.models import KnowledgeDocument, Parent, ReplaceResult
from knowledge_store_sdk.tags import is_tag

PATTERNS: Final = ("*.md", "*.markdown", "*.txt")
MOST_TOKENS: Final = 510  # whatever the window: a passage is to be read, and one vector stands for few thoughts
DEFAULT_TOKENS: Final = 254  # the bundled embedder's window less its two special tokens
_OF_ONE_FILE: Final = (Conflict, InvalidField, TooLarge)


class Sink(Protocol):
    """Where documents go: a KnowledgeClient, or a store in this process."""

    def parents(self, source: str) -> AsyncIterator[Parent]:
        """The sets that this source wrote."""
        ...

    async def replace(
        self,
        parent_id: str,
        documents: Sequence[KnowledgeDocument],
        *,
        uri: str | None = None,
        title: str | None = None,
        revision: str | None = None,
        fingerprint: str | None = None,
        source: str | None = None,
        refresh: bool = False,
    ) -> ReplaceResult:
        """The documents become the whole set of this parent, at once; none: the parent goes."""
        ...


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`source` is bound to one folder: what it has in the store and the folder has not is removed.

    `budget` is the size of a chunk; without one it is estimated for the bundled embedder's window. `force` permits an
    empty folder to empty the store.
    """

    source: str
    tags: tuple[str, ...] = ()
    patterns: tuple[str, ...] = PATTERNS
    max_file_bytes: int = 32 * 1024 * 1024
    budget: Budget = field(default_factory=lambda: Budget(DEFAULT_TOKENS))
    files_at_once: int = 4
    force: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidField for a source or a tag that the store would refuse."""
        for name, values in (("source", (self.source,)), ("tags", self.tags)):
            for wrong in [value for value in values if not is_tag(value)]:
                why = f"{wrong!r} is not made of 1 to 128 of A-Z a-z 0-9 _ . : -"
                raise InvalidField(f"{name}: {why}", fields={name: why})


@dataclass(slots=True)
class LoadReport:
    """What became of the files: `listed` = `unchanged` + `added` + `updated` + all of `skipped` + all of `failed`.

    `skipped` counts by reason, `failed` and `unreadable` (folders) map a URI to the reason. `removed` documents had
    gone from the folder, or have no text any more. `chunks` were written, those of `pending` files without vectors
    yet.
    """

    listed: int = 0
    unchanged: int = 0
    added: int = 0
    updated: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    removed: int = 0
    chunks: int = 0
    pending: int = 0

    @property
    def state(self) -> str:
        """`success`, or `partial` where something could not be read or written and keeps its old text."""
        return "partial" if self.failed or self.unreadable else "success"

    def __str__(self) -> str:
        parts = [f"{self.listed} files: {self.added} added, {self.updated} updated, {self.unchanged} unchanged"]
        parts += [f"{count} skipped ({reason})" for reason, count in sorted(self.skipped.items())]
        if self.removed:
            parts.append(f"{self.removed} removed")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        text = f"{', '.join(parts)}; {self.chunks} chunks written"
        if self.pending:
            text += f", those of {self.pending} files wait for their vectors"
        lines = [f"{uri}: {why}" for uri, why in (*self.unreadable.items(), *self.failed.items())]
        return "\n".join([text, *lines])


async def load_folder(
    root: Path, sink: Sink, options: LoadOptions, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> LoadReport:
    """Brings the store in step with the folder; `progress` is told how many files of how many are done.

    What cannot be read keeps its old text, and the report is partial. Raises FatalSync where the folder itself cannot
    be listed, or lists no file while the store has documents of it; and what the sink raises where it concerns no
    single file.
    """
    listing = await asyncio.to_thread(list_folder, root, options.patterns)
    known = {parent.id: parent async for parent in sink.parents(options.source)}
    run = _Run(sink, options, listing, known, progress)
    await run.files()
    await run.sweep()
    return run.report


def _prefix(source: str) -> str:
    """What the ids of all sets that `load` writes for a source begin with."""
    return f"{source}:file:///"


class _Run:
    """One run: the workers share its report."""

    def __init__(
        self,
        sink: Sink,
        options: LoadOptions,
        listing: Listing,
        known: dict[str, Parent],
        progress: Callable[[int, int], None],
    ) -> None:
        self._sink, self._options, self._listing, self._known, self._progress = sink, options, listing, known, progress
        self._fingerprint = fingerprint_of(options.budget, options.tags)
        self._present: set[str] = set()
        self._done = 0
        self.report = LoadReport(listed=len(listing.files), unreadable=dict(listing.unreadable))

    async def files(self) -> None:
        """Takes every file through all stages. A file that fails keeps its old text."""
        waiting = iter(self._listing.files)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(self._options.files_at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def sweep(self) -> None:
        """Removes what is in the store, and has gone from the folders that could be listed."""
        prefix = _prefix(self._options.source)
        locked = [prefix + uri.removeprefix("file:///") for uri in self.report.unreadable]
        gone = [
            id for id in self._known if id.startswith(prefix) and id not in self._present and not is_below(id, locked)
        ]
        if gone and not self._listing.files and not self._options.force:
            raise FatalSync(
                f"the folder has no file to load, and the store has {len(gone)} of source {self._options.source!r}: a "
                "folder that is not mounted looks like that. If they shall go, force it"
            )
        for id in gone:
            await self._sink.replace(id, [], source=self._options.source)
            self.report.removed += 1

    async def _work(self, waiting: Iterator[Listed]) -> None:
        for listed in waiting:
            try:
                await self._file(listed)
            except OSError as error:
                self._failed(listed, error.strerror or str(error))
            except _OF_ONE_FILE as error:
                self._failed(listed, error.detail)
            self._done += 1
            self._progress(self._done, self.report.listed)

    def _failed(self, listed: Listed, reason: str) -> None:
        self._present.add(set_id(self._options.source, listed.uri))
        self.report.failed[listed.uri] = reason

    async def _file(self, listed: Listed) -> None:
        options, parent_id = self._options, set_id(self._options.source, listed.uri)
        known = self._known.get(parent_id)
        prepared = await asyncio.to_thread(
            prepare,
            listed,
            known,
            source=options.source,
            tags=options.tags,
            budget=options.budget,
            max_bytes=options.max_file_bytes,
        )
        if isinstance(prepared, FileDocuments):
            self._present.add(parent_id)
            await self._write(parent_id, known, prepared)
        elif prepared == "unchanged":
            self._present.add(parent_id)
            self.report.unchanged += 1
        else:
            self.report.skipped[prepared] = self.report.skipped.get(prepared, 0) + 1

    async def _write(self, parent_id: str, known: Parent | None, prepared: FileDocuments) -> None:
        result = await self._sink.replace(
            parent_id,
            prepared.documents,
            uri=prepared.uri,
            title=prepared.title,
            revision=prepared.revision,
            fingerprint=self._fingerprint,
            source=self._options.source,
        )
        self.report.chunks += result.stored
        self.report.pending += result.vectors == "pending"
        if known is None:
            self.report.added += 1
        else:
            self.report.updated += 1
