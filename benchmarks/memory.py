"""How much memory a service without a bundled embedder holds after many questions, its caches as they come."""

from __future__ import annotations

import asyncio
from typing import Final

from benchmarks.process import service
from benchmarks.report import Figure, figures
from benchmarks.stage import TOP_K, Stage
from benchmarks.synthetic import TAG
from benchmarks.wire import query

QUESTIONS: Final = 10_000
_PARALLEL: Final = 8


async def run(stage: Stage) -> None:
    """Prints the table. Asks each question of the stage once, so that every answer is kept anew."""
    settings = {name: value for name, value in stage.settings().items() if name != "cache"}
    async with service(stage.folder / "memory", settings) as subject:
        rows = [Figure("after the start", subject.resident_mib(), "MiB")]
        waiting = iter(stage.data.questions)

        async def work() -> None:
            async with subject.connect() as wire:
                for text in waiting:
                    await wire.send(query(text=text, tags=TAG, top_k=TOP_K))

        await asyncio.gather(*(work() for _ in range(_PARALLEL)))
        count = len(stage.data.questions)
        rows.append(Figure(f"after {count:,} distinct questions", subject.resident_mib(), "MiB", at_most=200))
    figures("Resident memory, external embedder", rows)
