"""A store of any size for timing: texts of real sentences, vectors with structure, questions that fit them.

    real documents -> 250 topics -> chunks of about 120 words, their topic's sentences mixed anew -> 30 % get a tag
    vector = 0.65 common + 0.50 topic + 0.57 own, each a random direction of length 1, the sum brought to length 1

So any two texts have a cosine of about 0.42, two of one topic about 0.67, as real embedders have it. A question is 6 to
12 words of a topic's sentence with a vector of that topic. Everything follows from the seed: two runs measure the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import read_collection
from knowledge_store_sdk import KnowledgeDocument

DIMS: Final = 384
TOPICS: Final = 250
CHUNK_WORDS: Final = 120
TAG: Final = "tagged"
TAG_SHARE: Final = 0.3
_PARTS: Final = (0.65, 0.50, 0.57)
_SOURCES: Final = ("scifact", "cisi", "med", "cranfield")
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s+")

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Synthetic:
    """`vectors` has a row, float32 of length 1, for each document's search text and each question, by `rows`."""

    documents: list[KnowledgeDocument]
    questions: list[str]
    vectors: Matrix
    rows: dict[str, int]

    def vector(self, text: str) -> Matrix:
        """Shape (DIMS,); the common direction for a text that is not of this store, such as a probe."""
        row = self.rows.get(text)
        return self.vectors[row] if row is not None else _stranger(text)


def synthetic(chunks: int, questions: int, seed: int = 20) -> Synthetic:
    """So many chunks, and so many distinct questions."""
    random = np.random.default_rng(seed)
    titles, sentences = _by_topic()
    documents = [_chunk(at, random, titles, sentences) for at in range(chunks)]
    asked: dict[str, int] = {}
    while len(asked) < questions:
        topic = int(random.integers(TOPICS))
        asked.setdefault(_question(random, sentences[topic]), topic)
    topics = [at % TOPICS for at in range(chunks)] + list(asked.values())
    texts = [document.search_text for document in documents] + list(asked)
    return Synthetic(documents, list(asked), _vectors(random, topics), {text: at for at, text in enumerate(texts)})


def _by_topic() -> tuple[list[list[str]], list[list[str]]]:
    """Titles and sentences of each topic: a document in 250 of the real ones."""
    titles: list[list[str]] = [[] for _ in range(TOPICS)]
    sentences: list[list[str]] = [[] for _ in range(TOPICS)]
    documents = [document for name in _SOURCES for document in read_collection(name).documents]
    for at, document in enumerate(documents):
        found = [one for one in _SENTENCE_END.split(document.content) if len(one.split()) >= 6]
        sentences[at % TOPICS] += found
        titles[at % TOPICS].append(document.title or " ".join(document.content.split()[:8]))
    return titles, sentences


def _chunk(
    at: int, random: np.random.Generator, titles: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]]
) -> KnowledgeDocument:
    topic = at % TOPICS
    pool = sentences[topic]
    chosen: list[str] = []
    while sum(len(one.split()) for one in chosen) < CHUNK_WORDS:
        chosen.append(pool[int(random.integers(len(pool)))])
    tags = (TAG, f"topic-{topic}") if random.random() < TAG_SHARE else (f"topic-{topic}",)
    return KnowledgeDocument(
        id=f"bench/{at:06d}",
        title=titles[topic][int(random.integers(len(titles[topic])))],
        content=" ".join(chosen),
        tags=tags,
        metadata={"page": at // 8, "part": at % 8},
        source="bench",
        uri=f"https://wiki.example/pages/{at // 8}",
        section="Overview",
    )


def _question(random: np.random.Generator, pool: Sequence[str]) -> str:
    words = pool[int(random.integers(len(pool)))].split()
    count = int(random.integers(6, 13))
    start = int(random.integers(max(1, len(words) - count + 1)))
    return " ".join(words[start : start + count])


def _vectors(random: np.random.Generator, topics: Sequence[int]) -> Matrix:
    common, topic, own = _PARTS
    rows = own * _directions(random, len(topics))
    rows += topic * _directions(random, TOPICS)[np.asarray(topics)]
    rows += common * _common()
    return _unit(rows)


def _stranger(text: str) -> Matrix:
    random = np.random.default_rng(list(text.encode()))
    row = _PARTS[0] * _common() + (_PARTS[1] ** 2 + _PARTS[2] ** 2) ** 0.5 * _directions(random, 1)[0]
    scaled: Matrix = _unit(row[None])[0]
    return scaled


def _common() -> Matrix:
    direction: Matrix = _directions(np.random.default_rng(1), 1)[0]
    return direction


def _directions(random: np.random.Generator, count: int) -> Matrix:
    return _unit(random.standard_normal((count, DIMS), dtype=np.float32))


def _unit(rows: Matrix) -> Matrix:
    scaled: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled
