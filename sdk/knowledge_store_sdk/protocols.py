"""The seams. Each is found by the name of its entry point, built-in and third-party implementations alike.

    Embedder        text -> vectors                      group `knowledge_store.embedders`
    KnowledgeIndex  keeps documents, answers with candidates     group `knowledge_store.backends`

`knowledge_store_sdk.testing` has a conformance suite for each; an implementation is one when it passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

from knowledge_store_sdk.models import Parent, Stats
from knowledge_store_sdk.storage import (
    Candidate,
    Candidates,
    Existing,
    Fetched,
    FetchRequest,
    Filter,
    Outcome,
    Page,
    ParentWrite,
    Question,
    Replaced,
    Scope,
    Stored,
    Write,
)
from knowledge_store_sdk.vectors import Vector

__all__ = [
    "Candidate",
    "Candidates",
    "Embedder",
    "EmbedderIdentity",
    "Existing",
    "FetchRequest",
    "Fetched",
    "Filter",
    "KnowledgeIndex",
    "Outcome",
    "Page",
    "ParentWrite",
    "Question",
    "Replaced",
    "Role",
    "Scope",
    "Stored",
    "Write",
]

Role = Literal["query", "passage"]


# Embedding ------------------------------------------------------------------------------------------------------------


class EmbedderIdentity(BaseModel):
    """What makes two vectors comparable. Not part of it: the address, the batch size, the window."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    dims: int
    pooling: str = "unknown"
    query_prefix: str = ""
    passage_prefix: str = ""
    digest: str | None = None

    def same_as(self, other: EmbedderIdentity) -> bool:
        """Whether vectors of both may stand in one index.

        Known digests decide over the name, so that a second spelling of one model is the same; without both, the names
        are compared with `:latest` left out.
        """
        if (self.dims, self.pooling, self.query_prefix, self.passage_prefix) != (
            other.dims,
            other.pooling,
            other.query_prefix,
            other.passage_prefix,
        ):
            return False
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.model.removesuffix(":latest") == other.model.removesuffix(":latest")

    @property
    def key(self) -> str:
        """16 hexadecimal digits that are equal for equal identities: what caches are keyed by."""
        parts = (
            self.digest or self.model.removesuffix(":latest"),
            str(self.dims),
            self.pooling,
            self.query_prefix,
            self.passage_prefix,
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        digest = f", weights {self.digest[:12]}" if self.digest else ""
        return f"{self.model} ({self.dims} dims, {self.pooling} pooling{digest})"


class Embedder(Protocol):
    """Turns texts into vectors. Never blocks the event loop; CPU work goes to a thread.

    `open` is called before anything else, and again after it failed or the embedder was down, so that other weights are
    noticed; only after it succeeded are `identity` and `max_tokens` known. Calls under way go on meanwhile. Errors:
    BackendUnavailable where a later call may succeed (down, cold, overloaded); ConfigError, which names the remedy,
    where only a person can mend it (model missing, key refused); InvalidField where the server refuses a text for what
    it is, its length included.
    """

    @property
    def identity(self) -> EmbedderIdentity: ...

    @property
    def max_tokens(self) -> int:
        """The window: how many tokens of one text count, special tokens and prefix included."""
        ...

    async def open(self) -> None:
        """Loads the weights, or asks the server for its model's identity and window."""
        ...

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """One vector a text, in order; deterministic for a text, whatever else is in the call. No text is blank.

        A text beyond the window is the caller's mistake: use `windows` first. Never cut in silence.
        """
        ...

    def windows(self, text: str, role: Role) -> list[str]:
        """The text as pieces that each fit the window, in order, covering all of it; [text] where it fits.

        Pure CPU, called in a thread for long texts.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has, without special ones; rather too many where the tokenizer is not at hand."""
        ...

    async def close(self) -> None:
        """Lets go of everything; may be called twice."""
        ...


# Storing and finding --------------------------------------------------------------------------------------------------


class KnowledgeIndex(Protocol):
    """Keeps documents and finds candidates. Scores, fusion and citations are made above it, once for all backends.

    Every method raises BackendUnavailable where the store does not answer, and never reports nothing in its place.
    A write that returned is found by `lookup` and `get` at once and survives a crash; it is found by `candidates`,
    `scan` and `stats` within a second, at once with `refresh=True`. Ids are compared exactly, as code points.
    """

    @property
    def name(self) -> str:
        """The name of the entry point: the configuration value and the metric label."""
        ...

    async def open(self) -> None:
        """Connects, and brings the stored schema up to this version. Called once; raises ConfigError with a remedy."""
        ...

    async def close(self) -> None:
        """Lets go of everything; may be called twice."""
        ...

    async def ping(self) -> None:
        """Returns where a question could be answered now, raises BackendUnavailable where not."""
        ...

    async def identity(self) -> EmbedderIdentity | None:
        """The embedder that the vectors here were made with; None before the first `bind`."""
        ...

    async def bind(self, identity: EmbedderIdentity) -> None:
        """Prepares for vectors of this embedder. Idempotent; raises IdentityMismatch where another one is bound."""
        ...

    async def state(self, name: str) -> str | None:
        """A small text kept under a name, None where there is none."""
        ...

    async def set_state(self, name: str, value: str) -> None: ...

    async def epoch(self) -> str:
        """Changes with every change that `candidates` or `fetch` can see, made by any process."""
        ...

    # writing: ids of one call are distinct

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        """What the index has of these ids; an unknown id is left out."""
        ...

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        """Keeps each document by itself, one outcome each, in order; one bad item fails alone.

        An id that is not as `expect` says is a conflict and is left as it is. What the store refuses for good is
        `failed` and not retried; what it is too busy for is retried with growing waits, then failed and `retryable`.
        """
        ...

    async def set_vectors(self, vectors: Mapping[str, tuple[str, Vector]]) -> int:
        """id -> (version, vector): gives waiting documents their vectors; returns how many.

        Skips a document whose version is another by now.
        """
        ...

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        """The writes, in this order, become the whole set of this parent; no writes: the parent goes.

        A reader sees the old set or the new one. Documents that were upserted one by one with this `parent_id` and this
        source leave with the old set. `expect` of the writes is not looked at. With `seen_before` nothing happens where
        the parent was written at that time or later. After a crash at any point the old set, or the new one, stands,
        with nothing to repair. Raises Conflict where the index refuses a document for good (`ids`), Retryable where it
        is too busy.
        """
        ...

    async def delete(
        self, ids: Sequence[str], *, versions: Mapping[str, str] | None = None, refresh: bool = False
    ) -> int:
        """Removes documents by id, members of sets too; unknown ids are passed over. Returns how many were removed.

        With `versions` (id -> version, of each of the ids) a document whose version is another by now stays.
        """
        ...

    async def vectors(self, text_hashes: Sequence[str]) -> dict[str, Vector]:
        """Vectors that the index already has, by what was embedded."""
        ...

    async def purge(self) -> int:
        """Removes what no current set holds: the leftovers of interrupted replacements. Returns how many."""
        ...

    # finding

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        """Each question's hits in each leg, all in one round trip.

        The filter binds both legs, and is applied before neighbours are chosen. The keyword leg is BM25 (k1 1.2,
        b 0.75, Lucene's idf, times k1 + 1 as Elasticsearch scores) over title, context and content in one field with
        English stemming and stop words; the text is plain words, and of a text of more than 128 distinct words the
        most telling 128 count. Ties are in any order. The vector leg has only documents with a vector.
        """
        ...

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        """Reads candidates, all in one round trip."""
        ...

    async def get(self, id: str) -> Stored | None:
        """One document by its id, expired or not; None where there is none."""
        ...

    async def parent(self, id: str) -> Parent | None:
        """The current set written under this parent id, None where there is none."""
        ...

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        """Documents newest first (`updated_at` descending, then id), a page at a time. Raises InvalidRequest for a
        cursor that is not its own."""
        ...

    async def count(self, filter: Filter) -> int: ...

    async def stats(self, filter: Filter) -> Stats:
        """Counts in total, per tag (the 1,000 most frequent) and per source."""
        ...

    async def parents(
        self, source: str, *, limit: int, cursor: str | None = None, seen_before: datetime | None = None
    ) -> tuple[list[Parent], str | None]:
        """The sets of a source, ordered by id, a page at a time."""
        ...
