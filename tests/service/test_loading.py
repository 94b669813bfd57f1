"""`load` into a real store: what is found afterwards, and what a second run leaves alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from knowledge_store.app import load_budget
from knowledge_store.ingest.load import LoadOptions, load_folder
from knowledge_store_sdk import KnowledgeClient
from tests.service.embedders.servers import OllamaServer
from tests.service.process import Process, process
from tests.service.serving import Service, serving

_MIB = 1024 * 1024


def command(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`knowledge-store` as a shell runs it, with nothing of this machine's configuration."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return subprocess.run(
        [sys.executable, "-m", "knowledge_store", *arguments],
        cwd=folder,
        env={**clean, "COLUMNS": "80", **environ},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def table() -> str:
    rows = "\n".join(
        f"| retention.bytes.{n} | {n * 1000} | bytes | keeps segment group {n} within limits |" for n in range(1, 81)
    )
    header = "| parameter | default | unit | note |\n| --- | --- | --- | --- |"
    return f"# Broker settings\n\nThese are all settings.\n{header}\n{rows}\n"


async def test_row_61_is_found_first_by_its_value_and_column(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "settings.md").write_text(table())
    (folder / "other.md").write_text("# Something else\n\nThe default unit of a parameter is a note.\n")
    options = LoadOptions(source="notes", budget=await load_budget(service.services))
    report = await load_folder(folder, service.services.loader, options)
    assert (report.added, report.failed) == (2, {})
    assert report.chunks > 4
    await service.client.delete_by_tags("nothing", expect=0, refresh=True)
    answer = await service.ask(text="parameter retention.bytes.61 default 61000", mode="keyword", top_k=3)
    first = answer["documents"][0]
    assert "| retention.bytes.61 | 61000 |" in first["content"]
    assert "| parameter | default | unit | note |" in first["context"] + first["content"]
    assert first["title"] == "Broker settings"


async def test_a_citation_of_a_loaded_file_cuts_out_the_cited_text(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    text = "# Kafka\n\n## Recovery\n\nRestart the broker – then wait.\n\n## Cause\n\nA full disk.\n"
    (folder / "isr.md").write_text(text, encoding="utf-8")
    await load_folder(folder, service.services.loader, LoadOptions(source="notes", tags=("runbook",)))
    await service.client.stats()
    for _ in range(20):
        found = (await service.ask(text="restart the broker", tags="runbook"))["documents"]
        if found:
            break
        time.sleep(0.1)
    for one in found:
        locator = one["citation"]["locator"]
        assert text[locator["start"] : locator["end"]] == one["content"]
        assert one["citation"]["uri"].startswith("file:///")


@pytest.mark.slow
@pytest.mark.timeout(600)  # some 20,000 chunks, on machines that are busy with other tests too
async def test_a_file_of_10_mib_goes_through(embedded_store: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    line = "The pump in hall {} was inspected and its seal replaced because it leaked.\n"
    parts, size = [], 0
    while size < 10 * _MIB:
        parts.append(f"\n## Hall {len(parts)}\n\n" + line.format(len(parts)) * 20)
        size += len(parts[-1])
    (folder / "big.md").write_text("# Inspections\n" + "".join(parts))
    async with serving(embedded_store) as service:
        report = await load_folder(folder, service.services.loader, LoadOptions(source="notes"))
        assert (report.added, report.failed, report.skipped) == (1, {}, {})
        assert (await service.client.stats()).total == report.chunks > 5_000
        wanted = len(parts) - 7
        found = (await service.ask(text=f"hall {wanted} pump seal", mode="keyword", top_k=5))["documents"]
        assert any(f"hall {wanted} " in one["content"] for one in found)


@pytest.mark.slow
def test_the_command_loads_searches_and_keeps_in_step(tmp_path: Path, embedded_store: dict[str, Any]) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(5):
        (folder / f"n{n}.md").write_text(f"# Note {n}\n\nBroker number {n} lost its disk.\n")
    environ = {
        "KNOWLEDGE_EMBEDDER__PROVIDER": "hashing",
        "KNOWLEDGE_EMBEDDED__PATH": embedded_store["embedded"]["path"],
    }

    def load() -> dict[str, Any]:
        done = command(tmp_path, "load", "notes", "--tags", "note", "--json", **environ)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    assert load()["added"] == 5
    assert load()["unchanged"] == 5
    (folder / "n0.md").write_text("# Note 0\n\nBroker number 0 was repaired.\n")
    (folder / "n4.md").unlink()
    report = load()
    assert (report["updated"], report["removed"], report["unchanged"]) == (1, 1, 3)
    found = command(tmp_path, "search", "broker repaired", "--tags", "note", "--json", **environ)
    answer = json.loads(found.stdout)
    assert "repaired" in answer["documents"][0]["content"]
    assert not any("number 4" in one["content"] for one in answer["documents"])
    shown = command(tmp_path, "search", "broker repaired", "--tags", "note", **environ)
    assert "repaired" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


@pytest.mark.slow
def test_a_running_service_is_loaded_by_its_address_and_its_file_is_named_as_in_use(
    tmp_path: Path, embedded_store: dict[str, Any]
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nalpha\n")
    environ = {
        "KNOWLEDGE_EMBEDDER__PROVIDER": "hashing",
        "KNOWLEDGE_EMBEDDED__PATH": embedded_store["embedded"]["path"],
    }
    with process(tmp_path, embedded_store) as running:
        refused = command(tmp_path, "load", "notes", **environ)
        assert refused.returncode == 16
        assert "--url" in refused.stderr
        done = command(tmp_path, "load", "notes", "--url", running.url, "--json")
        assert json.loads(done.stdout)["added"] == 1, done.stderr
        found = command(tmp_path, "search", "alpha", "--url", running.url, "--json")
        assert json.loads(found.stdout)["documents"][0]["content"].endswith("alpha")


@pytest.mark.slow
async def test_a_service_started_again_embeds_new_text_only(tmp_path: Path, embedded_store: dict[str, Any]) -> None:
    server = OllamaServer()
    await server.start()
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(4):
        (folder / f"n{n}.md").write_text(f"# Note {n}\n\nBroker number {n} lost its disk.\n")
    settings = {**embedded_store, "embedder": {"provider": "ollama", "url": server.url, "model": "words"}}

    async def run(tries: int) -> tuple[set[str], set[str]]:
        """One life of the service: the texts that were embedded, and the notes that it finds."""
        server.batches.clear()
        running = Process(tmp_path, settings, "--load", str(folder))
        await asyncio.to_thread(running.start)
        try:
            for _ in range(200):
                if running.log.count("loaded ") == tries:
                    break
                await asyncio.sleep(0.1)
            async with KnowledgeClient(running.url) as client:
                found = await client.fetch(text="broker", tags="document", top_k=100)
            return set(server.texts), {one.content for one in found}
        finally:
            assert await asyncio.to_thread(running.stop) == 0

    try:
        embedded, found = await run(1)
        assert len([text for text in embedded if "lost its disk" in text]) == 4
        assert len(found) == 4
        embedded, found = await run(2)
        assert not [text for text in embedded if "lost its disk" in text]
        assert len(found) == 4
        (folder / "n0.md").write_text("# Note 0\n\nBroker number 0 was repaired.\n")
        (folder / "n3.md").unlink()
        embedded, found = await run(3)
        assert [text for text in embedded if "Broker" in text] == ["Note 0\n# Note 0\n\nBroker number 0 was repaired."]
        assert len(found) == 3
        assert not any("number 3" in content for content in found)
    finally:
        await server.stop()
