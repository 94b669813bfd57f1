"""Vectors for both paths, from an embedder that may be cold, down, or unable to take a text.

    text -> cache -> windows -> batches -> the embedder, guarded -> mean of the windows' vectors -> cache

`Embedding` is what the paths use. `Connection` knows how the embedder does and makes every call to it; `Passages` takes
a list of texts through the line above; `salvage` saves a batch in which one text is refused.
"""

from knowledge_store.embedding.cache import VectorCache, text_key, vector_key
from knowledge_store.embedding.connection import Connection, Patience, State, Status
from knowledge_store.embedding.embedding import Embedding
from knowledge_store.embedding.metrics import EmbeddingMetrics
from knowledge_store.embedding.passages import Embedded

__all__ = [
    "Connection",
    "Embedded",
    "Embedding",
    "EmbeddingMetrics",
    "Patience",
    "State",
    "Status",
    "VectorCache",
    "text_key",
    "vector_key",
]
