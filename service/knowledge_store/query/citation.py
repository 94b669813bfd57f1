"""What leads a reader back: the fields of an answer's documents."""

from __future__ import annotations

from typing import Any

from knowledge_store.query.fusion import Hit, Scoring
from knowledge_store_sdk.models import KnowledgeDocument

_ALWAYS = ("id", "content", "tags", "metadata", "source", "uri", "title", "section", "revision", "updated_at")
_WHERE_GIVEN = ("context", "expires_at", "project_id")


def document_json(document: KnowledgeDocument) -> dict[str, Any]:
    """A stored document as JSON values, ready for orjson."""
    body: dict[str, Any] = {name: getattr(document, name) for name in _ALWAYS}
    for name in _WHERE_GIVEN:
        if (value := getattr(document, name)) is not None:
            body[name] = value
    body["locator"] = _locator(document)
    return body


def passage_json(document: KnowledgeDocument, hit: Hit | None, scoring: Scoring, explain: bool) -> dict[str, Any]:
    """A found document with its score and its citation. No hit: it was listed, not scored."""
    body = document_json(document)
    body["score"] = None if hit is None else round(hit.score, 6)
    body["scored_by"] = [] if hit is None else hit.scored_by
    body["citation"] = {
        "source": document.source,
        "uri": document.uri,
        "title": document.title,
        "section": document.section,
        "revision": document.revision,
        "updated_at": document.updated_at,
        "locator": body["locator"],
        "content_hash": document.content_hash,
    }
    if explain and hit is not None:
        body["explain"] = {leg: one.model_dump() for leg, one in hit.explain(scoring).items()}
    return body


def _locator(document: KnowledgeDocument) -> dict[str, Any] | None:
    return document.locator.model_dump(mode="json", exclude_none=True) if document.locator else None
