"""One process owns the file, and what is wrong with a file is said with its path and the remedy."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from knowledge_store.backends.embedded import analysis, open_backend
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError
from knowledge_store_sdk.protocols import Filter
from knowledge_store_sdk.testing.index_cases import IDENTITY, axis, find, stored, write

OTHER_PROCESS = """
import asyncio, sys
from knowledge_store.backends.embedded import open_backend
from knowledge_store_sdk.errors import ConfigError
try:
    asyncio.run(open_backend({"path": sys.argv[1]}).open())
except ConfigError as error:
    print(error)
"""


def in_another_process(path: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", OTHER_PROCESS, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


async def test_a_second_process_is_told_which_file_is_in_use_and_of_url(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    first = open_backend({"path": path})
    await first.open()
    said = await asyncio.to_thread(in_another_process, path)
    assert str(path) in said
    assert "in use" in said
    assert "--url" in said
    await stored(first, write("one", "kafka", vector=None))
    await first.close()
    assert await asyncio.to_thread(in_another_process, path) == ""


async def test_a_second_opener_in_the_process_is_refused_too_and_harms_nothing(tmp_path: Path) -> None:
    first, second = (open_backend({"path": tmp_path / "knowledge.db"}) for _ in range(2))
    await first.open()
    with pytest.raises(ConfigError, match="in use"):
        await second.open()
    await second.close()
    await stored(first, write("one", "kafka", vector=None))
    await first.close()
    third = open_backend({"path": tmp_path / "knowledge.db"})
    await third.open()
    assert await third.count(Filter()) == 1
    await third.close()


@pytest.mark.parametrize("place", ["missing/knowledge.db", "file/knowledge.db", "folder"])
async def test_a_path_that_cannot_be_written_is_a_configuration_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    index = open_backend({"path": tmp_path / place})
    with pytest.raises(ConfigError) as refused:
        await index.open()
    await index.close()
    assert str(tmp_path / place) in refused.value.detail
    assert "embedded.path" in refused.value.detail


async def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and no store at all. " * 100)
    index = open_backend({"path": path})
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        await index.open()
    await index.close()
    assert path.read_text().startswith("these are notes")


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    index = open_backend({"path": path})
    await index.open()
    await index.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    newer = open_backend({"path": path})
    with pytest.raises(ConfigError, match="newer version") as refused:
        await newer.open()
    await newer.close()
    assert str(path) in refused.value.detail


async def test_construction_touches_no_file(tmp_path: Path) -> None:
    open_backend({"path": tmp_path / "knowledge.db"})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError):
        open_backend({"pfad": "x"})


async def test_a_closed_index_is_unavailable(tmp_path: Path) -> None:
    index = open_backend({"path": tmp_path / "knowledge.db"})
    with pytest.raises(BackendUnavailable):
        await index.ping()
    await index.open()
    await index.close()
    for call in (index.ping(), index.count(Filter()), index.upsert([write("one", vector=None)])):
        with pytest.raises(BackendUnavailable):
            await call


async def test_documents_of_an_older_analysis_are_analysed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_backend({"path": tmp_path / "knowledge.db"})
    await index.open()
    await index.bind(IDENTITY)
    await stored(index, write("one", "kafka brokers"), write("two", "lunch"))
    right = await find(index, "broker", axis(0))
    await index.close()
    connection = sqlite3.connect(tmp_path / "knowledge.db")
    with connection:
        connection.execute("UPDATE documents SET terms = x'', counts = x'', length = 0")
        connection.execute("UPDATE meta SET value = ? WHERE name = 'analysis'", (str(analysis.VERSION - 1),))
    connection.close()
    again = open_backend({"path": tmp_path / "knowledge.db"})
    await again.open()
    assert await find(again, "broker", axis(0)) == right
    await again.close()
