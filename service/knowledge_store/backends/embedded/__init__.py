"""The backend `embedded`: the whole store in one file, for a laptop and for tests, up to about 200,000 documents.

words.py, porter.py, analysis.py    text -> terms, as Elasticsearch's English analysis
file.py, rows.py                    the SQLite file and what a row of it keeps
corpus.py, postings.py              what is in memory: columns, postings, the matrix of vectors
selection.py, search.py             filter -> slots; question -> candidates
changes.py, reads.py                the statements
index.py                            the seam, its threads and transactions
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from knowledge_store.backends.embedded.index import EmbeddedIndex
from knowledge_store_sdk.protocols import KnowledgeIndex


class EmbeddedConfig(BaseModel):
    """The settings under `embedded`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(
        default=Path("./knowledge.db"),
        description="The file that holds everything; its lock and journals stand beside it. One process owns it.",
    )


def open_backend(settings: Mapping[str, Any]) -> KnowledgeIndex:
    """The backend on the file `path`, which it opens, and creates where it is missing, in `open`."""
    return EmbeddedIndex(EmbeddedConfig.model_validate(dict(settings)).path)
