"""Elasticsearch 9: documents in one index, one manifest per set of chunks in another, state in a third.

config -> connection -> schema          what is connected to, the wire, the indices
filters, finding, fetching, listing     reading
bulk, writing, replacing, purging       writing
index                                   the class that stands behind the seam
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_store.backends.elasticsearch.config import ElasticsearchConfig
from knowledge_store.backends.elasticsearch.index import ElasticsearchIndex

__all__ = ["ElasticsearchConfig", "ElasticsearchIndex", "open_backend"]


def open_backend(settings: Mapping[str, Any]) -> ElasticsearchIndex:
    """The index that these settings describe, not connected yet. Raises pydantic's ValidationError."""
    return ElasticsearchIndex(ElasticsearchConfig.model_validate(dict(settings)))
