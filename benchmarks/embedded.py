"""How fast the embedded backend answers at the size of the other timings."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks.ollama import prepared_embedder
from benchmarks.process import service
from benchmarks.report import Figure, figures
from benchmarks.stage import TOP_K, ask_all, load
from benchmarks.synthetic import TAG, synthetic
from benchmarks.wire import query


async def run(folder: Path, *, chunks: int, questions: int) -> None:
    """Prints the table: one question at a time, cache off, vectors of the questions at hand."""
    data = synthetic(chunks, questions)
    async with prepared_embedder(data) as embedder:
        settings = {
            "backend": "embedded",
            "embedded": {"path": str(folder / "knowledge.db")},
            "embedder": embedder,
            "cache": {"ttl_s": 0},
        }
        async with service(folder, settings) as subject:
            await load(subject, data)
            rows: list[Figure] = []
            for name, tags in (("30 % tagged", TAG), ("one topic of 250", "topic-7"), ("no filter", None)):
                requests = [query(text=text, tags=tags, top_k=TOP_K) for text in data.questions]
                await ask_all(subject, requests)
                took: list[float] = []
                async with subject.connect() as wire:
                    for one in requests:
                        started = time.perf_counter()
                        await wire.send(one)
                        took.append((time.perf_counter() - started) * 1000)
                last = f"95 %: {quantiles(took, n=20)[-1]:.1f} ms"
                rows.append(Figure(f"{name}: median", median(took), "ms", at_most=50, note=last))
            rows.append(Figure("resident memory", subject.resident_mib(), "MiB"))
    figures(f"How fast: embedded backend, {chunks:,} chunks", rows)
