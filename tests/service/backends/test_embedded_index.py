"""What the embedded backend does beside the contract: reads that do not wait for writes, slots that are freed."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from knowledge_store.backends.embedded import open_backend
from knowledge_store.backends.embedded.corpus import Change
from knowledge_store.backends.embedded.index import EmbeddedIndex
from knowledge_store.backends.embedded.postings import _as_lucene_keeps
from knowledge_store_sdk.protocols import FetchRequest, Filter, Question
from knowledge_store_sdk.tags import parse_tags
from knowledge_store_sdk.testing.index_cases import (
    ALL,
    IDENTITY,
    READER,
    at_cosine,
    axis,
    find,
    parent_write,
    scanned,
    stored,
    write,
)


@pytest_asyncio.fixture
async def index(tmp_path: Path) -> AsyncIterator[EmbeddedIndex]:
    index = cast("EmbeddedIndex", open_backend({"path": tmp_path / "knowledge.db"}))
    await index.open()
    await index.bind(IDENTITY)
    yield index
    await index.close()


async def test_readers_do_not_wait_for_a_writer(index: EmbeddedIndex) -> None:
    await stored(index, write("one", "kafka"))
    with index._writing:  # as during the longest of transactions
        writing = asyncio.create_task(index.upsert([write("two", "kafka")]))
        async with asyncio.timeout(5):
            found = await find(index, "kafka", axis(0))
            assert found.vector_ids == {"one"}
            assert len(await scanned(index)) == await index.count(ALL) == (await index.stats(ALL)).total == 1
            assert await index.get("one") is not None
        assert not writing.done()
    await writing
    assert (await find(index, "kafka", axis(0))).vector_ids == {"one", "two"}


async def test_a_write_whose_caller_has_gone_is_finished(index: EmbeddedIndex) -> None:
    with index._writing:
        writing = asyncio.create_task(index.replace(parent_write("page"), [write("page#0", "kafka")]))
        await asyncio.sleep(0.05)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    await index.set_state("after", "the write")
    assert (await find(index, "kafka")).keyword_ids == {"page#0"}


async def test_slots_of_what_has_gone_are_freed(index: EmbeddedIndex) -> None:
    await stored(index, *[write(f"stays{n}", f"kafka word{n}", vector=at_cosine(n / 10)) for n in range(9)])
    right = await find(index, "kafka word3", axis(0))
    for n in range(14):
        chunks = [write(f"page#{part}", "kafka", vector=axis(1), tags=("t",)) for part in range(100)]
        await index.replace(parent_write("page", revision=str(n)), chunks)
    await index.replace(parent_write("page"), [])
    assert index._corpus._slots < 1400
    after = await find(index, "kafka word3", axis(0))
    assert after.keyword == pytest.approx(right.keyword)
    assert after.vector == pytest.approx(right.vector)
    assert (await index.stats(ALL)).tags == {}
    assert await index.count(ALL) == 9


async def test_the_matrix_grows_with_the_documents(index: EmbeddedIndex) -> None:
    await stored(index, *[write(f"d{n}", "kafka", vector=at_cosine(n / 3000)) for n in range(1000)])
    await stored(index, *[write(f"e{n}", "kafka", vector=at_cosine((1000 + n) / 3000)) for n in range(1500)])
    found = await find(index, None, axis(0), window=3)
    assert list(found.vector or ()) == ["e1499", "e1498", "e1497"]
    assert list((found.vector or {}).values()) == pytest.approx([2499 / 3000, 2498 / 3000, 2497 / 3000], abs=1e-5)


@pytest.mark.parametrize("part", [1, 10, 30, 90])
async def test_few_and_many_passing_documents_give_the_same_cosines(index: EmbeddedIndex, part: int) -> None:
    await stored(
        index,
        *[write(f"d{n}", vector=at_cosine(n / 100), tags=("in",) if n >= 100 - part else ()) for n in range(100)],
    )
    found = await find(index, None, axis(0), Filter(tags=parse_tags("in")))
    assert found.vector == pytest.approx({f"d{n}": n / 100 for n in range(100 - part, 100)}, abs=1e-5)


async def test_a_vanished_candidate_is_told_of_and_found_again(index: EmbeddedIndex) -> None:
    await stored(index, write("one", "kafka"))
    [legs] = await index.candidates([Question("kafka", None, READER, 10)])
    [hit] = legs.keyword or ()
    version = (await index.lookup(["one"]))["one"].version
    await stored(index, write("one", "kafka", revision="2", expect=version))
    [fetched] = await index.fetch([FetchRequest([hit.key])])
    assert (fetched.found, bool(fetched.superseded)) == ({}, True)
    assert (await find(index, "kafka")).documents["one"].document.revision == "2"


async def test_a_search_during_a_write_waits_until_it_can_see_what_took_the_place(
    index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index.replace(parent_write("page"), [write("page#0", "kafka", revision="1")])
    committed, apply = threading.Event(), index._corpus.apply

    def apply_late(change: Change, epoch: int) -> None:
        committed.set()
        time.sleep(0.3)
        apply(change, epoch)

    monkeypatch.setattr(index._corpus, "apply", apply_late)
    writing = asyncio.create_task(index.replace(parent_write("page"), [write("page#1", "kafka", revision="2")]))
    await asyncio.to_thread(committed.wait)
    assert list((await find(index, "kafka", axis(0))).documents) == ["page#1"]
    assert [one.document.id for one in await scanned(index)] == ["page#1"]
    await writing


async def test_a_document_that_has_a_vector_keeps_it(index: EmbeddedIndex) -> None:
    await stored(index, write("one", "kafka", vector=axis(0)))
    assert await index.set_vectors({"one": ((await index.lookup(["one"]))["one"].version, axis(1))}) == 0
    assert (await find(index, None, axis(0))).vector == pytest.approx({"one": 1.0})


async def test_a_store_that_is_too_large_says_so_when_it_opens(
    index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(index, write("one"), write("two"))
    await index.close()
    for limit, said in ((1, ["embedded_store_is_large"]), (2, [])):
        monkeypatch.setattr("knowledge_store.backends.embedded.index._MANY_DOCUMENTS", limit)
        again = open_backend({"path": index._path})
        with capture_logs() as logs:
            await again.open()
        await again.close()
        assert [one["event"] for one in logs] == said


def test_lengths_are_kept_in_a_byte_as_lucene_does() -> None:
    """Values of SmallFloat.byte4ToInt(intToByte4(length))."""
    known: dict[int, int] = {
        0: 0, 1: 1, 23: 23, 24: 24, 39: 39, 40: 40, 41: 40, 42: 42, 55: 54, 56: 56, 59: 56, 60: 60, 119: 112, 120: 120,
        151: 144, 1000: 984, 32_000: 30_744,
    }  # fmt: skip
    kept: Any = _as_lucene_keeps(np.array(list(known)))
    assert dict(zip(known, kept.tolist(), strict=True)) == known
