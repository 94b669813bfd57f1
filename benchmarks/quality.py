"""How well: nDCG@10 through the HTTP API, per collection, mode and backend, beside the figures that were promised.

    collection -> a store of its own, loaded by bulk-upsert -> each judged question in each mode -> nDCG@10 -> table

A store of its own for each, because BM25 weighs a word by all documents of an index.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import orjson
from rich.table import Table

from benchmarks.bge import bge_folder
from benchmarks.corpora import COLLECTIONS, Collection, read_collection
from benchmarks.measures import mean, ndcg, steep_ndcg
from benchmarks.process import ServiceProcess, service
from benchmarks.report import Figure, console, figures
from benchmarks.servers import elasticsearch
from benchmarks.wire import query
from knowledge_store_sdk import KnowledgeClient

MODES: Final = ("keyword", "vector", "hybrid")
BACKENDS: Final = ("elasticsearch", "embedded")
# nDCG@10 on bare nodes with this model and windows of 100: BM25, dense, this score
PROMISED: Final[Mapping[str, Mapping[str, float]]] = {
    "scifact": {"keyword": 0.683, "vector": 0.709, "hybrid": 0.739},
    "med": {"keyword": 0.690, "vector": 0.825, "hybrid": 0.813},
    "cranfield": {"keyword": 0.356, "vector": 0.387, "hybrid": 0.407},
    "cosqa": {"keyword": 0.326, "vector": 0.585, "hybrid": 0.580},
    "cisi": {"keyword": 0.385, "vector": 0.433, "hybrid": 0.460},
}
SCIFACT_BM25: Final = 0.6826
_RUNNER: Final = (sys.executable, "-m", "benchmarks.serve")
_PARALLEL: Final = 4

Rankings = dict[str, list[str]]  # question id -> ids of the first ten, best first
Scores = dict[tuple[str, str, str], float]  # backend, collection, mode -> nDCG@10


async def run(names: Sequence[str] = COLLECTIONS) -> None:
    """Measures these collections on both backends and prints the tables."""
    scores: Scores = {}
    steep: Scores = {}
    with elasticsearch() as server, tempfile.TemporaryDirectory() as folder:
        for name in names:
            collection = await asyncio.to_thread(read_collection, name)
            for backend in BACKENDS:
                async with _store(Path(folder) / f"{backend}-{name}", backend, server.url, name) as subject:
                    await _load(subject, collection)
                    for mode in MODES:
                        rankings = await _ask(subject, collection.questions, mode)
                        scores[backend, name, mode] = mean(ndcg, rankings, collection.judgements)
                        steep[backend, name, mode] = mean(steep_ndcg, rankings, collection.judgements)
    _print(scores, names)
    figures("How well", [*_figures(scores, names), *_steep_figures(scores, steep, names)])


@asynccontextmanager
async def _store(folder: Path, backend: str, url: str, name: str) -> AsyncIterator[ServiceProcess]:
    own: dict[str, dict[str, Any]] = {
        "elasticsearch": {"url": url, "index_prefix": f"bench-{name}-{int(time.time())}"},
        "embedded": {"path": str(folder / "knowledge.db")},
    }
    settings = {
        "backend": backend,
        backend: own[backend],
        "embedder": {"provider": "onnx", "path": str(bge_folder()), "write_timeout_s": 3600, "query_timeout_s": 60},
        "log": {"level": "warning"},
    }
    async with service(folder, settings, command=_RUNNER) as subject:
        yield subject


async def _load(subject: ServiceProcess, collection: Collection) -> None:
    started = time.perf_counter()
    async with KnowledgeClient(subject.url, write_timeout_s=3600) as client:
        done = await client.bulk_upsert(collection.documents, refresh=True)
    assert all(one.vectors == "ready" for one in done.results), done.results
    took_s = time.perf_counter() - started
    console.print(f"{subject.url}: {len(collection.documents):,} documents of {collection.name} in {took_s:.0f} s")


async def _ask(subject: ServiceProcess, questions: Mapping[str, str], mode: str) -> Rankings:
    rankings: Rankings = {}
    waiting = iter(questions.items())

    async def work() -> None:
        async with subject.connect() as wire:
            for id, text in waiting:
                answer = orjson.loads(await wire.send(query(text=text, mode=mode, top_k=10)))
                assert not answer["degraded"], answer
                rankings[id] = [one["id"] for one in answer["documents"]]

    await asyncio.gather(*(work() for _ in range(_PARALLEL)))
    return rankings


def _print(scores: Scores, names: Iterable[str]) -> None:
    for backend in BACKENDS:
        table = Table(title=f"nDCG@10, {backend} (beside it: promised, difference)", title_justify="left")
        table.add_column("collection")
        for mode in MODES:
            table.add_column(mode, justify="right")
        for name in names:
            table.add_row(name, *(_beside(scores[backend, name, mode], PROMISED[name][mode]) for mode in MODES))
        ours = [fmean(scores[backend, name, mode] for name in names) for mode in MODES]
        promised = [fmean(PROMISED[name][mode] for name in names) for mode in MODES]
        table.add_row("mean", *(_beside(one, other) for one, other in zip(ours, promised, strict=True)))
        console.print(table)


def _beside(value: float, promised: float) -> str:
    return f"{value:.4f}  {promised:.3f}  {value - promised:+.4f}"


def _figures(scores: Scores, names: Sequence[str]) -> list[Figure]:
    def above(name: str) -> float:
        return scores["elasticsearch", name, "hybrid"] - PROMISED[name]["hybrid"]

    def apart(name: str) -> float:
        """How far the two backends are apart, in the mode in which they are farthest."""
        return max(abs(scores["embedded", name, mode] - scores["elasticsearch", name, mode]) for mode in MODES)

    rows = [
        Figure(
            f"{name}: hybrid, distance from the promised {PROMISED[name]['hybrid']}",
            abs(above(name)),
            at_most=0.01,
            note=f"{above(name):+.4f}",
        )
        for name in names
    ]
    middle = fmean(scores["elasticsearch", name, "hybrid"] for name in names)
    rows.append(Figure("mean of the collections, hybrid", middle, at_least=0.59))
    if "scifact" in names:
        distance = abs(scores["elasticsearch", "scifact", "keyword"] - SCIFACT_BM25)
        rows.append(Figure(f"scifact: distance of BM25 from {SCIFACT_BM25}", distance, at_most=0.005))
    rows += [Figure(f"{name}: embedded from elasticsearch, any mode", apart(name), at_most=0.02) for name in names]
    return rows


def _steep_figures(scores: Scores, steep: Scores, names: Iterable[str]) -> list[Figure]:
    """For collections with more than two grades: what was promised for Cranfield has these gains."""
    graded = [name for name in names if any(scores[key] != steep[key] for key in scores if key[1] == name)]
    return [
        Figure(f"{name}: {mode} with gains of 2^grade - 1", value, note=f"{value - PROMISED[name][mode]:+.4f}")
        for name in graded
        for mode in MODES
        if (value := steep["elasticsearch", name, mode])
    ]
