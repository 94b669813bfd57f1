"""How fast `load` takes in a folder with the bundled embedder, in turns with the bare embedder on the same chunks.

folder in parts -> each: the command, timed -> its chunks read back -> the embedder alone on them, timed -> ratio
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.corpora import data_folder
from benchmarks.process import KNOWLEDGE_STORE, service
from benchmarks.report import Figure, console, figures
from knowledge_store.embedders.onnx import open_bundled
from knowledge_store_sdk import KnowledgeClient

PARTS: Final = 4
_CORPUS: Final = "sre/corpus"


async def run(folder: Path, *, files: int | None) -> None:
    """Prints the table; `files` takes no more than so many of the corpus."""
    configuration = folder / "knowledge.yaml"
    settings = {"backend": "embedded", "embedded": {"path": str(folder / "knowledge.db")}, "embedder": {}}
    configuration.write_text(json.dumps(settings), encoding="utf-8")
    embedder = open_bundled({})
    await embedder.open()
    chunks = loading_s = bare_s = 0.0
    for number, part in enumerate(_parts(folder, files)):
        started = time.perf_counter()
        await _load(configuration, part)
        loading_s += time.perf_counter() - started
        texts = await _chunks(folder, settings, part.name)
        windows = [window for text in texts for window in embedder.windows(text, "passage")]
        started = time.perf_counter()
        await embedder.embed(windows, "passage")
        bare_s += time.perf_counter() - started
        chunks += len(texts)
        console.print(f"part {number + 1}: {len(texts):,} texts; so far load {loading_s:.0f} s, bare {bare_s:.0f} s")
    await embedder.close()
    rows = [
        Figure("load", chunks / loading_s, "texts/s"),
        Figure("bare embedder", chunks / bare_s, "texts/s"),
        Figure("load / bare embedder", bare_s / loading_s, "x", at_least=0.85),
    ]
    figures(f"How fast: load of {_CORPUS} with the bundled embedder, {chunks:,.0f} distinct chunks", rows)


def _parts(folder: Path, files: int | None) -> list[Path]:
    """Copies of the corpus's files, every fourth in the same folder, at the paths that they have there."""
    corpus = data_folder() / _CORPUS
    parts = [folder / f"part-{number}" for number in range(PARTS)]
    for at, file in enumerate(sorted(one for one in corpus.rglob("*") if one.is_file())[:files]):
        target = parts[at % PARTS] / file.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    return parts


async def _load(configuration: Path, part: Path) -> None:
    command = [*KNOWLEDGE_STORE, "--config", str(configuration), "load", str(part), "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"load ended with {process.returncode}: {output.decode()}{errors.decode()}")


async def _chunks(folder: Path, settings: Mapping[str, Any], source: str) -> Sequence[str]:
    """The distinct texts that were embedded."""
    async with service(folder / "reading", settings) as subject, KnowledgeClient(subject.url) as client:
        return list(dict.fromkeys([one.search_text async for one in client.list(source=source)]))
