"""`python -m benchmarks [PART ...] [--quick]`: runs all parts, or those that are named, and prints their tables.

quality latency writing memory embedded loading profile
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Collection
from pathlib import Path

from benchmarks import embedded, latency, loading, memory, profiling, quality, writing
from benchmarks.corpora import COLLECTIONS
from benchmarks.stage import CHUNKS, QUESTIONS, stage

PARTS = ("latency", "writing", "memory", "embedded", "loading", "quality")
ON_A_STAGE = ("latency", "writing", "profile")


async def run(parts: Collection[str], *, quick: bool) -> None:
    """Runs the parts that are named. `quick` is small, to see that everything runs: its figures mean nothing."""
    with tempfile.TemporaryDirectory(prefix="knowledge-store-bench-") as name:
        folder = Path(name)
        chunks, questions = (2_000, 60) if quick else (CHUNKS, QUESTIONS)
        if set(parts) & set(ON_A_STAGE):
            async with stage(folder / "stage", chunks=chunks, questions=questions) as scene:
                if "latency" in parts:
                    await latency.run(scene, quick=quick)
                if "profile" in parts:
                    await profiling.run(scene)
                if "writing" in parts:
                    await writing.run(scene, documents=500 if quick else 5_000, rounds=1 if quick else 5)
        if "memory" in parts:
            async with stage(folder / "memory", chunks=chunks, questions=200 if quick else memory.QUESTIONS) as scene:
                await memory.run(scene)
        if "embedded" in parts:
            await embedded.run(folder / "embedded", chunks=chunks, questions=questions)
        if "loading" in parts:
            await loading.run(folder, files=40 if quick else None)
        if "quality" in parts:
            await quality.run(("med",) if quick else COLLECTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast and how well it works.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; or profile")
    parser.add_argument("--quick", action="store_true", help="small: shows that everything runs, no more")
    given = parser.parse_args()
    if unknown := set(given.parts) - {*PARTS, "profile"}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}, profile")
    asyncio.run(run(given.parts or PARTS, quick=given.quick))


if __name__ == "__main__":
    main()
