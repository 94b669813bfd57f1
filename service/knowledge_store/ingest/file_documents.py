"""One file -> the documents that it becomes.

read -> compare -> decode -> extract and chunk -> documents with ids by content
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final, Literal

from pydantic import ValidationError

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Extracted
from knowledge_store.extract.decode import NotText, decode
from knowledge_store.extract.markdown import extract_markdown
from knowledge_store.extract.text import extract_text
from knowledge_store.ingest.listing import Listed, SkipReason, read_file
from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.models import MAX_TAGS, KnowledgeDocument, Parent

CHUNKS_VERSION: Final = 1  # raise it where other chunks are made of the same bytes: every file is then read again
_MAX_SET_ID_CHARS: Final = 1_900  # below the 2,048 of an id, which has a hash and a number behind it
_WORD: Final = re.compile(r"[A-Za-z]{3,}\Z")


@dataclass(frozen=True, slots=True)
class FileDocuments:
    """`documents` are the whole set of the file, in order, with distinct ids; never empty."""

    uri: str
    title: str | None
    revision: str
    documents: tuple[KnowledgeDocument, ...]


def fingerprint_of(budget: Budget, tags: Sequence[str]) -> str:
    """Changes with everything but the file that its documents depend on."""
    parts = [CHUNKS_VERSION, budget.max_tokens, budget.tokenizer, list(tags)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def set_id(source: str, uri: str) -> str:
    """The id of the set of documents that a file becomes: unique in the store, the same wherever the folder is
    mounted.
    """
    id = f"{source}:{uri}"
    if len(id) <= _MAX_SET_ID_CHARS:
        return id
    return f"{id[:_MAX_SET_ID_CHARS]}~{hashlib.sha256(id.encode()).hexdigest()[:32]}"


def prepare(
    listed: Listed,
    known: Parent | None,
    *,
    source: str,
    tags: Sequence[str],
    budget: Budget,
    max_bytes: int,
) -> FileDocuments | SkipReason | Literal["unchanged"]:
    """What a file becomes, unless it is what the store has already (`known`) or holds no text. Blocks: call it in a
    thread.

    Raises OSError where the file cannot be read, InvalidField where the store would refuse its documents.
    """
    content = listed.skip or read_file(listed.path, max_bytes)
    if isinstance(content, str):
        return content
    revision = hashlib.sha256(content.data).hexdigest()
    if known and known.revision == revision and known.fingerprint == fingerprint_of(budget, tags):
        return "unchanged"
    try:
        text = decode(content.data)
    except NotText as error:
        return error.reason
    extract = extract_text if listed.path.suffix.lower() == ".txt" else extract_markdown
    extracted = extract(text, budget, name=readable_name(listed.path))
    try:
        documents = tuple(_documents(listed, extracted, source, tags, revision, content.modified_at))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidField(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return FileDocuments(listed.uri, extracted.title, revision, documents) if documents else "no_text"


def readable_name(path: PurePath) -> str | None:
    """The words of a file's name, the title of a document that has no other; None for a name that is a number or a
    hash.
    """
    words = re.split(r"[\s_.-]+", path.stem.encode(errors="replace").decode())
    return " ".join(words).strip() if any(_WORD.match(word) for word in words) else None


def _documents(
    listed: Listed, extracted: Extracted, source: str, tags: Sequence[str], revision: str, modified_at: datetime
) -> Iterator[KnowledgeDocument]:
    set_name, seen = set_id(source, listed.uri), Counter[str]()
    all_tags = tuple(dict.fromkeys((*tags, *extracted.tags)))[:MAX_TAGS]
    for chunk in extracted.chunks:
        # an unchanged passage keeps its id wherever in the file it moves; equal ones are numbered
        digest = hashlib.sha256(f"{chunk.context or ''}\0{chunk.content}".encode()).hexdigest()[:16]
        seen[digest] += 1
        number = f"-{seen[digest]}" if seen[digest] > 1 else ""
        yield KnowledgeDocument(
            id=f"{set_name}#{digest}{number}",
            content=chunk.content,
            context=chunk.context,
            title=extracted.title,
            section=chunk.section,
            locator=chunk.locator,
            tags=all_tags,
            source=source,
            uri=listed.uri,
            revision=revision,
            updated_at=modified_at,
        )
