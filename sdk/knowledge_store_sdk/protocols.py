"""The seams. Each is found by the name of its entry point, built-in and third-party implementations alike.

    Embedder        text -> vectors                      group `knowledge_store.embedders`
    KnowledgeIndex  keeps documents, answers with candidates     group `knowledge_store.backends`

`knowledge_store_sdk.testing` has a conformance suite for each; an implementation is one when it passes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

from knowledge_store_sdk.models import KnowledgeDocument, Parent, Stats
from knowledge_store_sdk.tags import TagExpression
from knowledge_store_sdk.vectors import Vector

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

    async def close(self) -> None:
        """Lets go of everything; may be called twice."""
        ...


# Storing and finding --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """Which projects' documents may be seen. `project_id` None: only those that belong to no project."""

    project_id: str | None = None
    include_global: bool = True


@dataclass(frozen=True, slots=True)
class Filter:
    """What a document must satisfy, each part that is given: one tree, compiled by each backend for every leg.

    `live_at` leaves out what has expired by that time (`expires_at <= live_at`); `expired_at` keeps only that.
    `seen_before` keeps what was last written before that time (for a sweep), `pending` what has, or has not, a vector.
    `scope` None sees every project: for maintenance, never for a reader's question.
    """

    tags: TagExpression | None = None
    sources: frozenset[str] | None = None
    parent_id: str | None = None
    scope: Scope | None = None
    live_at: datetime | None = None
    expired_at: datetime | None = None
    seen_before: datetime | None = None
    pending: bool | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A document to keep, complete: `source`, `uri`, `revision`, `updated_at` are set.

    `vector` None: it is kept, found by keyword, and waits (`pending`). `text_hash` identifies what was embedded
    (embedder, role and `search_text`), so that a text's vector is found again. `expect` is the version that `lookup`
    reported for this id, None where it reported none.
    """

    document: KnowledgeDocument
    vector: Vector | None
    text_hash: str
    seen_at: datetime
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Existing:
    """What the index has of an id. `version` is opaque; `member_of` is the parent whose set it was written with."""

    id: str
    source: str
    text_hash: str
    version: str
    member_of: str | None = None
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one write. `conflict`: the id is no longer as expected; look it up and decide again."""

    id: str
    state: Literal["stored", "conflict", "failed"]
    reason: str | None = None
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class ParentWrite:
    """The document that a set of writes makes up."""

    id: str
    source: str
    uri: str | None
    title: str | None
    revision: str | None
    fingerprint: str | None
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Replaced:
    stored: int
    removed: int


@dataclass(frozen=True, slots=True)
class Question:
    """One search for candidates. A leg is asked only with what it needs: `text`, or `vector`.

    `window` is how many hits each leg returns at most. `exclude` are sets of chunks that `fetch` reported superseded.
    """

    text: str | None
    vector: Vector | None
    filter: Filter
    window: int
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidate:
    """`key` is the backend's own name for a stored version; `raw` is BM25 in the keyword leg, the cosine in the other."""

    key: str
    raw: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """Each leg's hits, best first. None: the leg was not asked."""

    keyword: Sequence[Candidate] | None
    vector: Sequence[Candidate] | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as the index keeps it."""

    document: KnowledgeDocument
    pending: bool
    text_hash: str
    version: str
    member_of: str | None = None


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Read these candidates, and take the exact cosine with `vector` for those in `exact`."""

    keys: Sequence[str]
    exact: Sequence[str] = ()
    vector: Vector | None = None
    with_vectors: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was read, by key. A key that is in no part has gone since.

    All documents of one parent that are in `found` belong to one version of it, the current one. `superseded` names
    the sets whose candidates were dropped because another set is current: ask for candidates again, with these as
    `exclude`. `cosines` has the exact values asked for; none for a document without a vector.
    """

    found: Mapping[str, Stored]
    cosines: Mapping[str, float] = field(default_factory=dict)
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    superseded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` is None on the last page."""

    documents: Sequence[Stored]
    cursor: str | None


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
        the parent was written at that time or later. After a crash at any point the old set, or the new one, stands, with nothing to repair.
        Raises Conflict where the index refuses a document for good (`ids`), Retryable where it is too busy.
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
        b 0.75, Lucene's idf and scale) over title, context and content in one field with English stemming and stop
        words; the text is plain words, and of a text of more than 128 distinct words the most telling 128 count.
        Ties are in any order. The vector leg has only documents with a vector.
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
