"""The records that every layer shares, all of them frozen: what is written, what is found, what a write reports."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from knowledge_store_sdk.json_values import checked_metadata
from knowledge_store_sdk.locators import Locator

MAX_ID_CHARS: Final = 2_048
MAX_CONTENT_BYTES: Final = 64 * 1024
MAX_TAGS: Final = 1_000
MAX_BULK_DOCUMENTS: Final = 1_000
MAX_TOP_K: Final = 100
MAX_BATCH_QUERIES: Final = 20
MAX_QUESTION_CHARS: Final = 65_536


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"a NUL character stands at position {text.index(chr(0))}; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a lone surrogate stands at position {error.start}; send the whole character") from None
    return text


def _content(text: str) -> str:
    size = len(text.encode())
    if size > MAX_CONTENT_BYTES:
        raise ValueError(
            f"{size} bytes are more than the {MAX_CONTENT_BYTES} that one document may hold; split it with "
            "chunk_text, or let `knowledge-store load` do it"
        )
    return text


def _written_time(value: object) -> object:
    if value is not None and not isinstance(value, (str, datetime)):
        raise ValueError('a time is written as text with its zone, as in "2026-05-01T08:00:00Z"')
    return value


def _no_principals(value: tuple[str, ...]) -> tuple[str, ...]:
    if value:
        raise ValueError("principals are reserved: retrieval does not enforce them yet, so none may be given")
    return value


Text = Annotated[str, AfterValidator(_without_nul)]
Tag = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
DocumentId = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
SourceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
ProjectId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]
Metadata = Annotated[dict[str, Any], AfterValidator(checked_metadata)]
Mode = Literal["hybrid", "keyword", "vector"]
Strategy = Literal["similarity", "diverse"]
Fusion = Literal["score", "rrf"]
Leg = Literal["keyword", "vector"]
VectorState = Literal["ready", "pending"]


class Record(BaseModel):
    """What is sent: unknown fields are refused, so that a misspelt filter is never silently none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Answer(BaseModel):
    """What is received: unknown fields are passed over, so that an older client reads a newer service."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class KnowledgeDocument(Record):
    """The unit that is stored, found and returned; chunk-sized."""

    id: DocumentId = Field(description="Stable and unique in the store; an upsert replaces the document of this id.")
    content: Annotated[Text, StringConstraints(min_length=1), AfterValidator(_content)] = Field(
        description="The text, kept verbatim; at most 64 KiB of UTF-8."
    )
    tags: tuple[Tag, ...] = Field(default=(), max_length=MAX_TAGS, description="What a tag expression filters by.")
    metadata: Metadata = Field(
        default_factory=dict,
        description="Any JSON object up to 256 KiB, returned as it is and never searched. "
        "`parent_id` names the document that this one is a part of.",
    )
    source: SourceName | None = Field(default=None, description="Who wrote it; without one, the source of the key.")
    updated_at: Time | None = Field(default=None, description="When the content was last changed; now, if not given.")
    expires_at: Time | None = Field(default=None, description="From then on the document is never returned.")
    uri: Annotated[Text, StringConstraints(max_length=8192)] | None = Field(
        default=None, description="Identity in the source; `knowledge://{source}/{id}`, if not given."
    )
    title: Annotated[Text, StringConstraints(max_length=2048)] | None = Field(
        default=None, description="Searched and embedded with the content."
    )
    section: Annotated[Text, StringConstraints(max_length=4096)] | None = Field(
        default=None, description="The heading that it stands under."
    )
    context: Annotated[Text, StringConstraints(max_length=16384)] | None = Field(
        default=None,
        description="Heading path, repeated table header: searched and embedded with the content, no part of it.",
    )
    revision: Annotated[Text, StringConstraints(max_length=512)] | None = Field(
        default=None, description="Version of the source document; the hash of the content, if not given."
    )
    locator: Locator | None = Field(default=None, description="The exact place in the source.")
    project_id: ProjectId | None = Field(default=None, description="None: the document belongs to no project.")
    principals: Annotated[tuple[str, ...], AfterValidator(_no_principals)] = Field(
        default=(), description="Reserved; must be empty."
    )
    score: float | None = Field(default=None, description="Set in answers; passed over in writes.")

    @property
    def parent_id(self) -> str | None:
        """The reserved metadata member `parent_id`, where it is a text."""
        parent = self.metadata.get("parent_id")
        return parent if isinstance(parent, str) and parent else None

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content's UTF-8, in hexadecimal."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def search_text(self) -> str:
        """What the legs search and the embedder reads: title, context and content, a line each."""
        return "\n".join(part for part in (self.title, self.context, self.content) if part)


class Citation(Answer):
    """Leads back to the exact place, and lets a reader check later that the text there is still the one cited."""

    source: str
    uri: str
    title: str | None = None
    section: str | None = None
    revision: str
    updated_at: datetime
    locator: Locator | None = None
    content_hash: str


class LegScore(Answer):
    """What one leg found: its rank from 1, its raw value (BM25, or the cosine), and that value made absolute, 0 to 1.

    `rank` is None where the leg's window did not hold the hit and its exact value was taken afterwards.
    """

    rank: int | None
    raw: float
    value: float


class Passage(KnowledgeDocument):
    """A found document: its score, the legs that made it, and its citation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    citation: Citation
    scored_by: tuple[Leg, ...] = ()
    explain: dict[Leg, LegScore] | None = None


class Query(Record):
    """One question. `score` of a hit is absolute, so `min_score` means the same for every question."""

    text: Annotated[str, StringConstraints(max_length=MAX_QUESTION_CHARS)] = Field(
        default="", description="Plain words. Empty with a tag filter: lists newest first."
    )
    tags: str | None = Field(default=None, max_length=16384, description="A tag expression, `a+b|c`.")
    top_k: Annotated[int, Field(strict=True, ge=1, le=MAX_TOP_K)] = 5
    min_score: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    mode: Mode = "hybrid"
    strategy: Strategy = "similarity"
    fusion: Fusion = Field(default="score", description="`rrf` orders by rank; the score stays the absolute one.")
    explain: Annotated[bool, Field(strict=True)] = False
    sources: tuple[SourceName, ...] | None = Field(
        default=None, min_length=1, max_length=64, description="Only documents of these sources."
    )
    project_id: ProjectId | None = Field(default=None, description="None: only documents that belong to no project.")
    include_global: Annotated[bool, Field(strict=True)] = Field(
        default=True, description="With a project: also the documents that belong to none."
    )


class Degraded(Answer):
    leg: Leg
    reason: str


class QueryResult(Answer):
    documents: tuple[Passage, ...]
    took_ms: float
    cache_hit: bool = False
    degraded: tuple[Degraded, ...] = ()


class ItemError(Answer):
    code: str
    detail: str
    retryable: bool = False


class WriteResult(Answer):
    """What became of one document. `vectors: pending`: found by keyword now, by meaning once it is embedded."""

    id: str
    state: Literal["stored", "failed"]
    vectors: VectorState | None = None
    error: ItemError | None = None


class BulkResult(Answer):
    stored: int
    failed: int
    results: tuple[WriteResult, ...]


class ReplaceResult(Answer):
    """`id` is the parent's; `stored` documents are its whole set now, and `removed` is how many left it."""

    id: str
    state: Literal["stored"] = "stored"
    stored: int
    removed: int
    vectors: VectorState


class DeleteResult(Answer):
    deleted: int


class Parent(Answer):
    """A document whose parts were written as one set: what a writer compares to know what changed."""

    id: str
    source: str
    uri: str | None = None
    title: str | None = None
    revision: str | None = None
    fingerprint: str | None = None
    documents: int
    written_at: datetime


class ParentPage(Answer):
    parents: tuple[Parent, ...]
    cursor: str | None = None


class DocumentPage(Answer):
    documents: tuple[KnowledgeDocument, ...]
    cursor: str | None = None


class Stats(Answer):
    total: int
    pending_vectors: int
    tags: dict[str, int]
    sources: dict[str, int]
