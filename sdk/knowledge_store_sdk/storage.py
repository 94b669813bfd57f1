"""What goes through the `KnowledgeIndex` seam: filters and questions in, candidates and documents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.tags import TagExpression
from knowledge_store_sdk.vectors import Vector


@dataclass(frozen=True, slots=True)
class Scope:
    """Which projects' documents may be seen. `project_id` None: only those that belong to no project."""

    project_id: str | None = None
    include_global: bool = True

    def admits(self, project_id: str | None) -> bool:
        """Whether a document of this project, or of none, may be seen."""
        if project_id is None:
            return self.project_id is None or self.include_global
        return project_id == self.project_id


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

    def admits(self, document: KnowledgeDocument) -> bool:
        """Whether a document passes, as far as the document itself tells: not `seen_before`, and not `pending`."""
        expires_at = document.expires_at
        return (
            (self.tags is None or self.tags.matches(document.tags))
            and (self.sources is None or document.source in self.sources)
            and (self.parent_id is None or document.parent_id == self.parent_id)
            and (self.scope is None or self.scope.admits(document.project_id))
            and (self.live_at is None or expires_at is None or expires_at > self.live_at)
            and (self.expired_at is None or (expires_at is not None and expires_at <= self.expired_at))
        )


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
    """`key` is the backend's own name for a stored version; `raw` is BM25 in the keyword leg, else the cosine."""

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
