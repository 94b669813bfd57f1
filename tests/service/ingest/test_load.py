"""`load` against a store in memory: what is written, what is left alone, and what is removed."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from knowledge_store.extract.budget import Budget
from knowledge_store.ingest import listing
from knowledge_store.ingest.load import LoadOptions, LoadReport, load_folder
from knowledge_store_sdk.errors import BackendUnavailable, Conflict, FatalSync, InvalidField
from knowledge_store_sdk.models import KnowledgeDocument
from tests.service.ingest.memory_sink import MemorySink

OPTIONS = LoadOptions(source="ops", tags=("runbook",))


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "kafka" / "isr.md", "---\ntags: [Human Resources]\n---\n# ISR shrink\n\nRestart the broker.\n")
    write(tmp_path / "notes.txt", "Plain notes.\n")
    write(tmp_path / "README.MD", "no heading\n")
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def adds_up(report: LoadReport) -> bool:
    parts = report.unchanged + report.added + report.updated + sum(report.skipped.values()) + len(report.failed)
    return report.listed == parts


async def test_a_folder_is_loaded_with_all_that_a_citation_needs(folder: Path, sink: MemorySink) -> None:
    os.utime(folder / "kafka" / "isr.md", (1_700_000_000, 1_700_000_000))
    report = await load_folder(folder, sink, OPTIONS)
    assert (report.listed, report.added, report.chunks, report.state) == (3, 3, 3, "success")
    assert adds_up(report)
    (document,) = sink.documents("kafka/isr.md")
    assert document.uri == "file:///kafka/isr.md"
    assert document.title == "ISR shrink"
    assert document.tags == ("runbook", "Human_Resources")
    assert document.source == "ops"
    assert document.updated_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert document.locator is not None
    assert document.id.startswith("ops:file:///kafka/isr.md#")
    parent = sink.sets["ops:file:///kafka/isr.md"][0]
    assert (parent.title, parent.revision) == ("ISR shrink", document.revision)
    assert sink.documents("README.MD")[0].title == "README"


async def test_a_second_run_writes_nothing(folder: Path, sink: MemorySink) -> None:
    await load_folder(folder, sink, OPTIONS)
    sink.replaced.clear()
    report = await load_folder(folder, sink, OPTIONS)
    assert (report.unchanged, report.chunks) == (3, 0)
    assert sink.replaced == []
    assert adds_up(report)


async def test_only_an_edited_file_is_written_and_what_is_unchanged_in_it_keeps_its_id(
    folder: Path, sink: MemorySink
) -> None:
    sections = [f"## Part {n}\n\n" + f"Words of part {n} are here. " * 12 for n in range(4)]
    write(folder / "long.md", "# Long\n\n" + "\n\n".join(sections))
    options = LoadOptions(source="ops", budget=Budget(100, lambda text: len(text.split()), "words"))
    await load_folder(folder, sink, options)
    before = {document.id for document in sink.documents("long.md")}
    sections[1] = sections[1].replace("Words", "Other and longer words", 1)
    write(folder / "long.md", "# Long\n\n" + "\n\n".join(sections))
    sink.replaced.clear()
    report = await load_folder(folder, sink, options)
    assert (report.updated, report.unchanged) == (1, 3)
    assert sink.replaced == ["ops:file:///long.md"]
    after = {document.id for document in sink.documents("long.md")}
    assert len(before & after) == len(before) - 1


async def test_a_file_that_was_only_touched_is_unchanged(folder: Path, sink: MemorySink) -> None:
    await load_folder(folder, sink, OPTIONS)
    os.utime(folder / "notes.txt", (1, 1))
    assert (await load_folder(folder, sink, OPTIONS)).unchanged == 3


async def test_a_change_of_the_same_length_with_the_old_time_is_noticed(folder: Path, sink: MemorySink) -> None:
    path = write(folder / "t.md", "alpha 1")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    await load_folder(folder, sink, OPTIONS)
    write(path, "alpha 2")
    os.utime(path, ns=times)
    await load_folder(folder, sink, OPTIONS)
    assert sink.documents("t.md")[0].content == "alpha 2"


@pytest.mark.parametrize(
    "changed",
    [LoadOptions(source="ops"), LoadOptions(source="ops", tags=("runbook",), budget=Budget(100))],
    ids=["tags", "budget"],
)
async def test_other_options_make_every_file_stale(folder: Path, sink: MemorySink, changed: LoadOptions) -> None:
    await load_folder(folder, sink, OPTIONS)
    assert (await load_folder(folder, sink, changed)).updated == 3


async def test_a_deleted_file_is_removed(folder: Path, sink: MemorySink) -> None:
    await load_folder(folder, sink, OPTIONS)
    (folder / "notes.txt").unlink()
    report = await load_folder(folder, sink, OPTIONS)
    assert (report.removed, report.unchanged) == (1, 2)
    assert "ops:file:///notes.txt" not in sink.sets


async def test_sets_of_other_sources_and_of_other_writers_stay(folder: Path, sink: MemorySink) -> None:
    document = KnowledgeDocument(id="x", content="x")
    await sink.replace("wiki:file:///gone.md", [document], source="wiki")
    await sink.replace("a page that someone pushed", [document], source="ops")
    assert (await load_folder(folder, sink, OPTIONS)).removed == 0
    assert {"wiki:file:///gone.md", "a page that someone pushed"} <= set(sink.sets)


async def test_the_same_folder_elsewhere_is_the_same(folder: Path, sink: MemorySink, tmp_path_factory) -> None:
    await load_folder(folder, sink, OPTIONS)
    moved = folder.rename(tmp_path_factory.mktemp("other") / "place")
    assert (await load_folder(moved, sink, OPTIONS)).unchanged == 3


async def test_what_holds_no_text_is_counted_by_its_reason(folder: Path, sink: MemorySink) -> None:
    (folder / "image.md").write_bytes(b"\x89PNG\0\0")
    write(folder / "blank.md", " \n")
    write(folder / "large.md", "x" * 2_000)
    os.mkfifo(folder / "pipe.md")
    (folder / "link.md").symlink_to(folder / "notes.txt")
    write(folder / ".hidden.md", "hidden")
    write(folder / ".git" / "x.md", "hidden")
    write(folder / "code.py", "other")
    options = LoadOptions(source="ops", max_file_bytes=1_000)
    report = await asyncio.wait_for(load_folder(folder, sink, options), 10)
    assert report.skipped == {"binary": 1, "no_text": 1, "too_large": 1, "special": 1, "link": 1}
    assert (report.listed, report.added, report.state) == (8, 3, "success")
    assert adds_up(report)


async def test_a_linked_folder_is_not_followed(folder: Path, sink: MemorySink, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    write(outside / "secret.md", "secret")
    (folder / "linked").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    report = await load_folder(folder, sink, OPTIONS)
    assert report.listed == 3


async def test_a_file_replaced_by_a_link_after_listing_is_never_read_through(
    folder: Path, sink: MemorySink, tmp_path_factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = write(tmp_path_factory.mktemp("outside") / "secret.md", "secret")
    list_folder = listing.list_folder

    def and_then_replaced(root: Path, patterns: Sequence[str]) -> listing.Listing:
        found = list_folder(root, patterns)
        (folder / "notes.txt").unlink()
        (folder / "notes.txt").symlink_to(secret)
        return found

    monkeypatch.setattr("knowledge_store.ingest.load.list_folder", and_then_replaced)
    report = await load_folder(folder, sink, OPTIONS)
    assert report.skipped == {"link": 1}
    assert not any("secret" in one.content for _, documents in sink.sets.values() for one in documents)


async def test_a_file_that_turned_into_no_text_disappears(folder: Path, sink: MemorySink) -> None:
    await load_folder(folder, sink, OPTIONS)
    (folder / "notes.txt").write_bytes(b"\0\1\2")
    report = await load_folder(folder, sink, OPTIONS)
    assert (report.skipped, report.removed) == ({"binary": 1}, 1)
    assert "ops:file:///notes.txt" not in sink.sets


async def test_a_folder_that_cannot_be_listed_keeps_what_it_had(
    folder: Path, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_folder(folder, sink, OPTIONS)
    write(folder / "new.md", "new")
    (folder / "notes.txt").unlink()
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "kafka":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(listing.os, "scandir", refusing)
    report = await load_folder(folder, sink, OPTIONS)
    assert report.state == "partial"
    assert report.unreadable == {"file:///kafka/": "Permission denied"}
    assert (report.added, report.removed) == (1, 1)
    assert "ops:file:///kafka/isr.md" in sink.sets
    monkeypatch.undo()
    again = await load_folder(folder, sink, OPTIONS)
    assert (again.unchanged, again.state) == (3, "success")


async def test_a_file_that_cannot_be_read_keeps_its_old_text(
    folder: Path, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_folder(folder, sink, OPTIONS)
    write(folder / "README.MD", "edited")
    really_open = os.open

    def refusing(path: Path, flags: int) -> int:
        if Path(path).name == "notes.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(path, flags)

    monkeypatch.setattr(listing.os, "open", refusing)
    report = await load_folder(folder, sink, OPTIONS)
    assert report.failed == {"file:///notes.txt": "Permission denied"}
    assert (report.state, report.updated, report.removed) == ("partial", 1, 0)
    assert sink.documents("notes.txt")[0].content == "Plain notes."
    assert adds_up(report)


async def test_a_file_that_vanishes_after_listing_goes_with_the_next_run(
    folder: Path, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_folder(folder, sink, OPTIONS)
    list_folder = listing.list_folder

    def and_then_gone(root: Path, patterns: Sequence[str]) -> listing.Listing:
        found = list_folder(root, patterns)
        (folder / "notes.txt").unlink()
        return found

    monkeypatch.setattr("knowledge_store.ingest.load.list_folder", and_then_gone)
    report = await load_folder(folder, sink, OPTIONS)
    assert list(report.failed) == ["file:///notes.txt"]
    assert report.removed == 0
    monkeypatch.undo()
    assert (await load_folder(folder, sink, OPTIONS)).removed == 1


@pytest.mark.parametrize("name", ["missing", "a file"])
async def test_a_root_that_is_no_folder_stops_the_run(folder: Path, sink: MemorySink, name: str) -> None:
    await load_folder(folder, sink, OPTIONS)
    write(folder / "a file", "x")
    with pytest.raises(FatalSync, match=name):
        await load_folder(folder / name, sink, OPTIONS)
    assert len(sink.sets) == 3


async def test_an_emptied_root_is_refused_unless_forced(folder: Path, sink: MemorySink, tmp_path_factory) -> None:
    await load_folder(folder, sink, OPTIONS)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FatalSync, match="3 of source 'ops'"):
        await load_folder(empty, sink, OPTIONS)
    assert len(sink.sets) == 3
    forced = await load_folder(empty, sink, LoadOptions(source="ops", force=True))
    assert (forced.removed, sink.sets) == (3, {})


async def test_an_empty_root_is_no_error_where_the_store_has_nothing(tmp_path: Path, sink: MemorySink) -> None:
    assert (await load_folder(tmp_path, sink, OPTIONS)).listed == 0


async def test_one_refused_file_fails_alone(folder: Path, sink: MemorySink) -> None:
    sink.fails["ops:file:///notes.txt"] = Conflict("it is in the way", ids=["x"])
    report = await load_folder(folder, sink, OPTIONS)
    assert report.failed == {"file:///notes.txt": "it is in the way"}
    assert report.added == 2
    assert adds_up(report)


async def test_a_store_that_does_not_answer_stops_the_run_and_removes_nothing(folder: Path, sink: MemorySink) -> None:
    await load_folder(folder, sink, OPTIONS)
    (folder / "notes.txt").unlink()
    write(folder / "README.MD", "edited")
    sink.fails["ops:file:///README.MD"] = BackendUnavailable("down")
    with pytest.raises(BackendUnavailable):
        await load_folder(folder, sink, OPTIONS)
    assert "ops:file:///notes.txt" in sink.sets


async def test_four_files_are_under_way_at_once_and_no_more(tmp_path: Path, sink: MemorySink) -> None:
    for n in range(20):
        write(tmp_path / f"{n}.md", f"text {n}")
    sink.pause_s = 0.05
    await load_folder(tmp_path, sink, OPTIONS)
    assert sink.most_at_once == 4


async def test_progress_counts_every_file_once(folder: Path, sink: MemorySink) -> None:
    seen: list[tuple[int, int]] = []
    await load_folder(folder, sink, OPTIONS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_equal_passages_of_a_file_have_ids_of_their_own(tmp_path: Path, sink: MemorySink) -> None:
    write(tmp_path / "twice.txt", "\n\n".join(["the same words again and again " * 6] * 3))
    await load_folder(tmp_path, sink, LoadOptions(source="ops", budget=Budget(40, lambda text: len(text.split()), "w")))
    ids = [document.id for document in sink.documents("twice.txt")]
    assert len(ids) == len(set(ids)) == 3


async def test_names_of_any_kind_give_one_stable_uri(tmp_path: Path, sink: MemorySink) -> None:
    for name in ["a b#c%.md", "U\u0308ber.md", "日本.md"]:
        write(tmp_path / name, name)
    (tmp_path / os.fsdecode(b"bad\xff.md")).write_text("bytes that are no UTF-8")
    write(tmp_path / ("deep" * 50) / ("folder" * 40) / ("x" * 240 + ".md"), "a long path")
    report = await load_folder(tmp_path, sink, OPTIONS)
    assert (report.added, report.failed) == (5, {})
    uris = {parent.uri for parent, _ in sink.sets.values()}
    assert {"file:///a%20b%23c%25.md", "file:///%C3%9Cber.md", "file:///bad%FF.md"} <= uris
    assert (await load_folder(tmp_path, sink, OPTIONS)).unchanged == 5


async def test_a_second_name_that_differs_only_in_its_composition_is_skipped(tmp_path: Path, sink: MemorySink) -> None:
    write(tmp_path / "U\u0308ber.md", "decomposed")
    write(tmp_path / "\u00dcber.md", "composed")
    report = await load_folder(tmp_path, sink, OPTIONS)
    assert (report.added, report.skipped) == (1, {"duplicate_name": 1})
    assert (await load_folder(tmp_path, sink, OPTIONS)).unchanged == 1


async def test_a_path_longer_than_an_id_may_be_is_loaded_and_removed(tmp_path: Path, sink: MemorySink) -> None:
    path = write(tmp_path.joinpath(*["\u65e5" * 80] * 4) / "\u672c.md", "deep")
    write(tmp_path / "other.md", "other")
    assert (await load_folder(tmp_path, sink, OPTIONS)).added == 2
    assert (await load_folder(tmp_path, sink, OPTIONS)).unchanged == 2
    path.unlink()
    assert (await load_folder(tmp_path, sink, OPTIONS)).removed == 1


@pytest.mark.parametrize("wrong", [{"source": "my docs"}, {"source": ""}, {"source": "ops", "tags": ("a b",)}])
def test_a_source_or_tag_that_the_store_would_refuse_is_refused_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidField):
        LoadOptions(**wrong)


async def test_the_report_is_json_and_a_sentence(folder: Path, sink: MemorySink) -> None:
    write(folder / "blank.md", "")
    report = await load_folder(folder, sink, OPTIONS)
    assert orjson.loads(orjson.dumps(asdict(report)))["skipped"] == {"no_text": 1}
    assert str(report) == "4 files: 3 added, 0 updated, 0 unchanged, 1 skipped (no_text); 3 chunks written"


async def test_the_event_loop_turns_while_a_large_file_is_prepared(tmp_path: Path, sink: MemorySink) -> None:
    write(tmp_path / "large.md", "## Part\n\nA sentence of a few words.\n\n" * 2_000)
    gaps, done = [], asyncio.Event()

    async def watch() -> None:
        before = time.monotonic()
        while not done.is_set():
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - before)
            before = time.monotonic()

    watching = asyncio.create_task(watch())
    await load_folder(tmp_path, sink, OPTIONS)
    done.set()
    await watching
    assert len(gaps) > 10
    assert max(gaps) < 1.0
