"""What is stored, and what is made of it again: KnowledgeDocument and ParentWrite <-> the fields of an index.

Metadata and locator are kept as JSON text, so that nothing in them is ever mapped and they come back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import orjson
from pydantic import TypeAdapter

from knowledge_store.backends.elasticsearch.connection import encoded
from knowledge_store.backends.elasticsearch.filters import micros
from knowledge_store.backends.elasticsearch.names import Version, generation_of, parent_of
from knowledge_store_sdk.locators import Locator
from knowledge_store_sdk.models import KnowledgeDocument, Parent
from knowledge_store_sdk.protocols import Existing, ParentWrite, Stored, Write
from knowledge_store_sdk.vectors import Vector

_LOCATOR: Final[TypeAdapter[Locator]] = TypeAdapter(Locator)
_PLAIN: Final = ("source", "project_id", "uri", "title", "section", "context", "content", "revision")

Source = dict[str, Any]


def document_source(write: Write, key: str, written_at: datetime, member_of: str | None) -> Source:
    """The fields of a document, without those that it does not have. `member_of` is the parent of its set."""
    document = write.document
    source: Source = {name: value for name in _PLAIN if (value := getattr(document, name)) is not None}
    source |= {
        "key": key,
        "doc_id": document.id,
        "tags": list(document.tags),
        "metadata": encoded(document.metadata).decode(),
        "seen_us": micros(write.seen_at),
        "written_us": micros(written_at),
        "text_hash": write.text_hash,
        "pending": write.vector is None,
    }
    if (parent := parent_of(key)) is not None:
        source["parent"] = parent
    if member_of is not None:
        source |= {"member_of": member_of, "generation": generation_of(key)}
    if document.locator is not None:
        source["locator"] = encoded(document.locator.model_dump(mode="json", exclude_none=True)).decode()
    for name, at in (("updated", document.updated_at), ("expires", document.expires_at)):
        if at is not None:
            source |= {f"{name}_at": _written(at), f"{name}_us": micros(at)}
    return source


def with_vector(source: Source, vector: Vector | None) -> Source:
    """The fields with the vector among them."""
    return source if vector is None else {**source, "embedding": np.frombuffer(vector, dtype="<f4")}


def document_of(source: Mapping[str, Any]) -> KnowledgeDocument:
    """The document, made without validation: what is stored was valid when it was written."""
    locator = source.get("locator")
    return KnowledgeDocument.model_construct(
        id=source["doc_id"],
        content=source["content"],
        tags=tuple(source["tags"]),
        metadata=orjson.loads(source["metadata"]),
        source=source["source"],
        updated_at=_time(source.get("updated_at")),
        expires_at=_time(source.get("expires_at")),
        uri=source.get("uri"),
        title=source.get("title"),
        section=source.get("section"),
        context=source.get("context"),
        revision=source.get("revision"),
        locator=_LOCATOR.validate_json(locator) if locator is not None else None,
        project_id=source.get("project_id"),
    )


def stored_of(hit: Mapping[str, Any]) -> Stored:
    """What an answer to `_mget` or a hit with `seq_no_primary_term` holds."""
    source = hit["_source"]
    return Stored(
        document=document_of(source),
        pending=source["pending"],
        text_hash=source["text_hash"],
        version=str(version_of(hit)),
        member_of=source.get("member_of"),
    )


EXISTING_FIELDS: Final = ("key", "doc_id", "source", "text_hash", "member_of", "project_id")


def existing_of(hit: Mapping[str, Any]) -> Existing:
    """As `stored_of`, for whoever wants no more than to write over it."""
    source = hit["_source"]
    return Existing(
        id=source["doc_id"],
        source=source["source"],
        text_hash=source["text_hash"],
        version=str(version_of(hit)),
        member_of=source.get("member_of"),
        project_id=source.get("project_id"),
    )


def version_of(hit: Mapping[str, Any]) -> Version:
    return Version(hit["_id"], hit["_seq_no"], hit["_primary_term"])


def vector_of(source: Mapping[str, Any]) -> Vector | None:
    """The vector among the fields, None where it waits. Each float32 is written so that it reads back as it was."""
    values = source.get("embedding")
    return None if values is None else np.array(values, dtype="<f4").tobytes()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What counts of a parent: the chunks of one generation, and of the documents that were written by themselves all
    but `strays`, versions that left with an older set. Without a generation the set is empty and about to go.
    """

    version: Version
    source: str
    generation: str | None
    seen_us: int
    strays: frozenset[str]

    @classmethod
    def of(cls, hit: Mapping[str, Any]) -> Manifest:
        """From an answer to `_mget`, or to a get."""
        source = hit["_source"]
        return cls(
            version=version_of(hit),
            source=source["source"],
            generation=source.get("generation"),
            seen_us=source["seen_us"],
            strays=frozenset(source.get("strays", ())),
        )


MANIFEST_FIELDS: Final = ["source", "generation", "seen_us", "strays"]


def counts(key: str, version: Version, manifests: Mapping[str, Manifest]) -> bool:
    """Whether this stored version is current, judged by the manifests of the parents, by name."""
    parent = parent_of(key)
    if parent is None:
        return True
    manifest = manifests.get(parent)
    generation = generation_of(key)
    if generation is not None:
        return manifest is not None and manifest.generation == generation
    return manifest is None or str(version) not in manifest.strays


def parent_source(parent: ParentWrite, generation: str | None, strays: Sequence[str]) -> Source:
    """The fields of a manifest."""
    source: Source = {
        "parent_id": parent.id,
        "source": parent.source,
        "uri": parent.uri,
        "title": parent.title,
        "revision": parent.revision,
        "fingerprint": parent.fingerprint,
        "generation": generation,
        "seen_at": _written(parent.seen_at),
        "seen_us": micros(parent.seen_at),
        "strays": list(strays) or None,
    }
    return {name: value for name, value in source.items() if value is not None}


def parent_record(source: Mapping[str, Any], documents: int) -> Parent:
    """What the seam tells of a parent that has so many documents."""
    return Parent(
        id=source["parent_id"],
        source=source["source"],
        uri=source.get("uri"),
        title=source.get("title"),
        revision=source.get("revision"),
        fingerprint=source.get("fingerprint"),
        documents=documents,
        written_at=datetime.fromisoformat(source["seen_at"]),
    )


def _written(at: datetime) -> str:
    # A zone of old local time has an offset with seconds, which is no ISO 8601 and which the server refuses.
    offset = at.utcoffset()
    return (at.astimezone(UTC) if offset and offset % timedelta(minutes=1) else at).isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
