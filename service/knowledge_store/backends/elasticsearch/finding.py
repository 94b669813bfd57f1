"""Candidates of both legs of many questions, in one `_msearch`:

Question -> one or two searches -> one body of lines -> one round trip -> hits -> Candidates
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from knowledge_store.backends.elasticsearch.connection import Connection, encoded
from knowledge_store.backends.elasticsearch.errors import reason_of, refused
from knowledge_store.backends.elasticsearch.filters import Clause, clauses
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import Candidate, Candidates, Question
from knowledge_store_sdk.vectors import Vector

MAX_HITS: Final = 10_000  # the server's own limit on a page of hits and on num_candidates
MAX_WORDS: Final = 128
_MAX_TOKENS: Final = 512  # repetitions included; a match query has one clause for each, and the server a limit on those
_NEIGHBOURS: Final = (
    3  # looked at in each segment, for each hit wanted: recall under a filter of 50 % 0.96, with 1.5 0.94
)
_EXACT: Final = 1.5  # of these, the quantised best are scored again with their whole vectors: recall 0.98 -> 1.00
_HEADER: Final = b'{"allow_partial_search_results":false}\n'

# One token of the standard tokenizer each, or less: ideographs, kana and emoji stand alone, other runs are one.
_ALONE: Final = "\u3040-\u309f\u3400-\u9fff\uf900-\ufaff\u2600-\u27bf\U0001f000-\U0001faff\U00020000-\U0003ffff"
_WORD: Final = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]{{1,255}}")

# Hits are named by a doc value: reading `_id` means decompressing the stored fields of each of the 200 documents,
# which takes a third of the time of the whole search.
_NAMED: Final[dict[str, Any]] = {
    "stored_fields": "_none_",
    "docvalue_fields": ["key"],
    "track_total_hits": False,
}


async def candidates(connection: Connection, index: str, questions: Sequence[Question]) -> list[Candidates]:
    """As the seam says. A vector leg before any embedder is known finds nothing."""
    searches: list[dict[str, Any]] = []
    for question in questions:
        bound = clauses(question.filter, question.exclude)
        if question.text is not None:
            searches.append(keyword_search(question.text, bound, question.window))
        if question.vector is not None:
            searches.append(vector_search(question.vector, bound, question.window))
    answers = iter(await msearch(connection, index, searches))
    return [
        Candidates(
            keyword=[Candidate(key, score) for key, score in hits(next(answers))]
            if question.text is not None
            else None,
            vector=[Candidate(key, cosine(score)) for key, score in hits(next(answers))]
            if question.vector is not None
            else None,
        )
        for question in questions
    ]


async def msearch(connection: Connection, index: str, searches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """All searches in one round trip. Raises for the first that failed, or that not every shard answered."""
    body = b"".join(_HEADER + encoded(search) + b"\n" for search in searches)
    if not body:
        return []
    reply = await connection.request("POST", f"/{index}/_msearch", body)
    for answer in reply.body["responses"]:
        whole(answer)
    answers: list[dict[str, Any]] = reply.body["responses"]
    return answers


def whole(answer: Mapping[str, Any]) -> None:
    """Raises where an answer is an error, or tells of less than the whole index."""
    if "error" in answer:
        raise refused(answer.get("status", 500), reason_of(answer["error"]))
    if answer["timed_out"] or answer["_shards"]["failed"]:
        raise BackendUnavailable("a part of the index did not answer", retry_after_s=1)


def hits(answer: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """Key and score of each hit, best first."""
    return ((hit["fields"]["key"][0], hit["_score"]) for hit in answer["hits"]["hits"])


def cosine(score: float) -> float:
    """The dot product that the server's score, (1 + dot) / 2, was made of."""
    return 2.0 * score - 1.0


def keyword_search(text: str, bound: Mapping[str, list[Clause]], window: int) -> dict[str, Any]:
    """BM25 over the one field that holds title, context and content."""
    query: dict[str, Any] = {"bool": {"must": [words_query(text)], **bound}}
    return {"query": query, "size": min(window, MAX_HITS), **_NAMED}


def words_query(text: str) -> Clause:
    """The text as plain words. Of many distinct ones the server keeps the most telling, by tf * idf."""
    found = _WORD.findall(text)
    if len(found) <= _MAX_TOKENS and len({word.lower() for word in found}) <= MAX_WORDS:
        return {"match": {"search_text": {"query": text}}}
    return {
        "more_like_this": {
            "fields": ["search_text"],
            "like": text,
            "max_query_terms": MAX_WORDS,
            "min_term_freq": 1,
            "min_doc_freq": 1,
            "max_word_length": 0,
            "minimum_should_match": 1,
        }
    }


def vector_search(vector: Vector, bound: Mapping[str, list[Clause]], window: int) -> dict[str, Any]:
    """The nearest neighbours that pass the filter, with exact cosines.

    As a query, not as the search's own `knn` section: that one costs a phase of its own before the query phase.
    """
    size = min(window, MAX_HITS)
    knn: dict[str, Any] = {
        "field": "embedding",
        "query_vector": np.frombuffer(vector, dtype="<f4"),
        "k": size,
        "num_candidates": min(_NEIGHBOURS * size, MAX_HITS),
        "rescore_vector": {"oversample": _EXACT},
    }
    if bound:
        knn["filter"] = {"bool": bound}
    return {"query": {"knn": knn}, "size": size, **_NAMED}


def exact_search(vector: Vector, stored_ids: Sequence[str]) -> dict[str, Any]:
    """The exact cosines of these documents: without rescoring they would be those of the quantised vectors."""
    count = min(len(stored_ids), MAX_HITS)
    knn = {
        "field": "embedding",
        "query_vector": np.frombuffer(vector, dtype="<f4"),
        "k": count,
        "num_candidates": count,
        "filter": {"ids": {"values": list(stored_ids)}},
        "rescore_vector": {"oversample": 1.0},
    }
    return {"query": {"knn": knn}, "size": count, **_NAMED}
