"""A process that is killed in the middle of writing leaves a store with all that it told of, and nothing by halves.

This file is the killed process too: it writes single documents and sets for as long as it lives, and prints each when
the store has it. The test takes some seconds, since every round starts a Python.
"""

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from knowledge_store.backends.embedded import open_backend
from knowledge_store_sdk.protocols import Filter
from knowledge_store_sdk.testing.index_cases import IDENTITY, axis, find, parent_write, scanned, write

SIZES = (3, 5, 40)


async def write_until_killed(path: str) -> None:
    index = open_backend({"path": path})
    await index.open()
    await index.bind(IDENTITY)
    for n in itertools.count(await index.count(Filter())):
        await index.upsert([write(f"single{n}-{part}", "kafka") for part in range(3)])
        size = SIZES[n % len(SIZES)]
        chunks = [write(f"page#{part}", "kafka", revision=str(n)) for part in range(size)]
        await index.replace(parent_write("page", revision=str(n)), chunks)
        print(n, flush=True)  # noqa: T201 the parent process reads it


def told_by_a_process_that_was_killed(path: Path, lives_s: float) -> list[int]:
    """The numbers that it printed whole; it lives so long after the first."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(lives_s)
        process.kill()
        return [int(line) for line in (first, *process.stdout) if line.endswith("\n")]


async def test_a_killed_process_leaves_what_it_told_of_and_nothing_by_halves(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    told: list[int] = []
    for lives_s in (0.03, 0.2, 0.11, 0.07):
        told += await asyncio.to_thread(told_by_a_process_that_was_killed, path, lives_s)
        await assert_whole(path, told)
    assert len(told) > 4


async def assert_whole(path: Path, told: list[int]) -> None:
    index = open_backend({"path": path})
    await index.open()
    try:
        singles = [f"single{n}-{part}" for n in told for part in range(3)]
        assert set(await index.lookup(singles)) == set(singles)
        documents = await scanned(index, limit=1000)
        calls = Counter(one.document.id.partition("-")[0] for one in documents if one.member_of is None)
        assert set(calls.values()) == {3}, "a call of which a part was kept"
        page = (await find(index, "kafka", axis(0), Filter(parent_id="page"))).documents.values()
        [revision] = {int(one.document.revision or "") for one in page}
        assert revision >= told[-1]
        assert len(page) == SIZES[revision % len(SIZES)]
        parent = await index.parent("page")
        assert parent is not None
        assert (parent.revision, parent.documents) == (str(revision), len(page))
    finally:
        await index.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


if __name__ == "__main__":
    asyncio.run(write_until_killed(sys.argv[1]))
