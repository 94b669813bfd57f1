"""A write -> the row that is kept: everything that a search needs of a document stands beside its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from knowledge_store.backends.embedded.analysis import terms_of
from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.protocols import Stored, Write
from knowledge_store_sdk.vectors import Vector

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One document, its fields being the columns. `terms` is uint64 and `counts` uint16, little-endian and of one size;
    `length` is how many words, stop words aside, the text has."""

    id: str
    text_hash: str
    source: str
    project_id: str | None
    member_of: str | None
    parent_id: str | None
    updated_at: int
    expires_at: int | None
    seen_at: int
    tags: str
    length: int
    terms: bytes
    counts: bytes
    document: str
    vector: Vector | None


def row_of(write: Write, member_of: str | None) -> Row:
    """What is kept of a write. CPU: cuts and stems the whole text."""
    document = write.document
    length, terms, counts = packed_terms(document.search_text)
    return Row(
        id=document.id,
        text_hash=write.text_hash,
        source=document.source or "",
        project_id=document.project_id,
        member_of=member_of,
        parent_id=member_of or document.parent_id,
        updated_at=micros(document.updated_at or write.seen_at),
        expires_at=micros(document.expires_at) if document.expires_at else None,
        seen_at=micros(write.seen_at),
        tags=" ".join(dict.fromkeys(document.tags)),
        length=length,
        terms=terms,
        counts=counts,
        document=document.model_dump_json(exclude={"score"}, exclude_none=True),
        vector=write.vector,
    )


def packed_terms(text: str) -> tuple[int, bytes, bytes]:
    """`length`, `terms` and `counts` of a text, as a row keeps them."""
    found = terms_of(text)
    terms = np.array(list(found.keys()), dtype="<u8")
    # A document of the largest size has no more than 42,000 words.
    counts = np.array(list(found.values()), dtype="<u2")
    return found.total(), terms.tobytes(), counts.tobytes()


def stored_of(row: int, document: str, text_hash: str, member_of: str | None, pending: int) -> Stored:
    """The document of a row, as it was written."""
    return Stored(
        document=KnowledgeDocument.model_validate_json(document),
        pending=bool(pending),
        text_hash=text_hash,
        version=str(row),
        member_of=member_of,
    )


def micros(time: datetime) -> int:
    """Microseconds since 1970, exact for every time that there is."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
