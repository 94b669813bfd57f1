"""The real texts that are measured on: read where they lie, never copied."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from knowledge_store_sdk import KnowledgeDocument

COLLECTIONS: Final = ("scifact", "med", "cranfield", "cosqa", "cisi")
_REPOSITORY: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, questions by id, and judgements: question id -> document id -> grade."""

    name: str
    documents: tuple[KnowledgeDocument, ...]
    questions: dict[str, str]
    judgements: dict[str, dict[str, int]]


def data_folder() -> Path:
    """The folder named by KNOWLEDGE_TEST_DATA, else `../shared/data` beside the repository. Raises SystemExit."""
    folder = Path(os.environ.get("KNOWLEDGE_TEST_DATA") or _REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        raise SystemExit(f"no data in {folder}; KNOWLEDGE_TEST_DATA names another folder")
    return folder


def read_collection(name: str) -> Collection:
    """One of COLLECTIONS: all its documents, and the questions of its test set that were judged."""
    folder = data_folder() / "ir" / name
    judgements: dict[str, dict[str, int]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    questions = {one["_id"]: one["text"] for one in _lines(folder / "queries.jsonl") if one["_id"] in judgements}
    return Collection(name, tuple(_documents(folder)), questions, judgements)


def _documents(folder: Path) -> Iterator[KnowledgeDocument]:
    for one in _lines(folder / "corpus.jsonl"):
        # two documents have neither title nor text: there is nothing to find
        if content := one["text"].strip() or one["title"].strip():
            title = one["title"].strip() if one["text"].strip() else ""
            yield KnowledgeDocument(id=one["_id"], title=title or None, content=content, tags=(folder.name,))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
