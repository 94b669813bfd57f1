"""Mistakes that the index conformance suite must notice: each wraps a correct index and spoils one thing.

for saboteur in SABOTEURS:
    each test named in `saboteur.caught_by` fails on `saboteur(index)`, and passes on `Untouched(index)`
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from datetime import datetime
from typing import Any, ClassVar, Final

from knowledge_store_sdk.models import Stats
from knowledge_store_sdk.protocols import (
    Candidate,
    Candidates,
    Existing,
    Fetched,
    FetchRequest,
    Filter,
    KnowledgeIndex,
    Outcome,
    Page,
    ParentWrite,
    Question,
    Replaced,
    Stored,
    Write,
)


class Untouched:
    """Passes everything on."""

    caught_by: ClassVar[tuple[str, ...]] = ()

    def __init__(self, index: KnowledgeIndex) -> None:
        self.inner = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class KeywordLegUnfiltered(Untouched):
    caught_by = (
        "test_every_narrowing_binds_both_legs",
        "test_scopes_see_what_they_say",
        "test_a_filter_that_nothing_matches_finds_nothing",
    )

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        right = await self.inner.candidates(questions)
        wrong = await self.inner.candidates([changed(one, filter=Filter()) for one in questions])
        return [Candidates(bad.keyword, good.vector) for good, bad in zip(right, wrong, strict=True)]


class VectorLegUnfiltered(Untouched):
    caught_by = KeywordLegUnfiltered.caught_by

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        right = await self.inner.candidates(questions)
        wrong = await self.inner.candidates([changed(one, filter=Filter()) for one in questions])
        return [Candidates(good.keyword, bad.vector) for good, bad in zip(right, wrong, strict=True)]


class FilterAfterTheChoice(Untouched):
    """Takes the nearest of all, and then leaves out those that do not pass."""

    caught_by = ("test_every_narrowing_binds_both_legs",)

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        right = await self.inner.candidates(questions)
        near = await self.inner.candidates([changed(one, filter=Filter()) for one in questions])
        late = []
        for good, bad in zip(right, near, strict=True):
            passing = {hit.key for hit in good.vector or ()}
            kept = None if bad.vector is None else [hit for hit in bad.vector if hit.key in passing]
            late.append(Candidates(good.keyword, kept))
        return late


class ExpiryIgnored(Untouched):
    caught_by = (
        "test_every_narrowing_binds_both_legs",
        "test_a_document_expires_at_the_exact_instant",
        "test_an_expiry_is_an_instant_in_any_zone",
    )

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        return await self.inner.candidates(
            [changed(one, filter=changed(one.filter, live_at=None)) for one in questions]
        )

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        return await self.inner.scan(changed(filter, live_at=None), limit=limit, cursor=cursor)

    async def count(self, filter: Filter) -> int:
        return await self.inner.count(changed(filter, live_at=None))

    async def stats(self, filter: Filter) -> Stats:
        return await self.inner.stats(changed(filter, live_at=None))


class DeletedKept(Untouched):
    caught_by = ("test_deleted_documents_are_gone_everywhere", "test_delete_spares_a_document_of_another_version")

    async def delete(
        self, ids: Sequence[str], *, versions: Mapping[str, str] | None = None, refresh: bool = False
    ) -> int:
        return len(await self.inner.lookup(ids))


class OldVersionsServed(Untouched):
    """Still reads candidates of a set that another one has replaced."""

    caught_by = ("test_candidates_of_a_replaced_set_never_mix_with_the_new_one",)

    def __init__(self, index: KnowledgeIndex) -> None:
        super().__init__(index)
        self._seen: dict[str, Stored] = {}

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        answers = await self.inner.candidates(questions)
        keys = {hit.key for one in answers for leg in (one.keyword, one.vector) for hit in leg or ()}
        [fetched] = await self.inner.fetch([FetchRequest(list(keys))])
        self._seen |= fetched.found
        return answers

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        fetched = await self.inner.fetch(requests)
        return [
            changed(
                one,
                found={key: found for key in request.keys if (found := one.found.get(key) or self._seen.get(key))},
                superseded=frozenset(),
            )
            for request, one in zip(requests, fetched, strict=True)
        ]


class ReplacedInSteps(Untouched):
    """Writes a set in two steps, so that readers meet a part of it."""

    caught_by = ("test_a_reader_sees_the_old_set_or_the_new_one",)

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        await self.inner.replace(parent, writes[: len(writes) // 2], refresh=True, seen_before=seen_before)
        await asyncio.sleep(0.05)
        return await self.inner.replace(parent, writes, refresh=refresh)


class OldSetKept(Untouched):
    """Adds the new documents of a set and forgets to take the old ones away."""

    caught_by = ("test_the_writes_become_the_whole_set", "test_an_empty_set_removes_the_parent")

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        page = await self.inner.scan(Filter(parent_id=parent.id), limit=100)
        new = {one.document.id for one in writes}
        kept = [
            Write(one.document, None, one.text_hash, parent.seen_at)
            for one in page.documents
            if one.document.id not in new
        ]
        return await self.inner.replace(parent, [*writes, *kept], refresh=refresh, seen_before=seen_before)


class AlwaysEmpty(Untouched):
    """Finds nothing and fails at nothing."""

    caught_by = (
        "test_every_narrowing_binds_both_legs",
        "test_scopes_see_what_they_say",
        "test_bm25_is_on_the_scale_of_elasticsearch",
        "test_windows_are_honoured_exactly",
        "test_deleted_documents_are_gone_everywhere",
        "test_the_writes_become_the_whole_set",
        "test_content_comes_back_verbatim",
        "test_a_scan_is_newest_first_then_by_id",
        "test_stats_count_what_the_filter_leaves",
    )

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        return {}

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        return [Candidates([] if one.text else None, [] if one.vector else None) for one in questions]

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        return [Fetched({}) for _ in requests]

    async def get(self, id: str) -> Stored | None:
        return None

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        return Page([], None)

    async def count(self, filter: Filter) -> int:
        return 0

    async def stats(self, filter: Filter) -> Stats:
        return Stats(total=0, pending_vectors=0, tags={}, sources={})


class MetadataMapped(Untouched):
    """Reads a dot in a key as a path, as a mapping of fields does."""

    caught_by = ("test_metadata_comes_back_as_it_is",)

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        return await self.inner.upsert([_with_metadata_mapped(one) for one in writes], refresh=refresh)


class IdsCut(Untouched):
    """Keeps the first 512 characters of an id."""

    caught_by = ("test_ids_are_compared_exactly",)

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        short = [changed(one, document=one.document.model_copy(update={"id": one.document.id[:512]})) for one in writes]
        outcomes = await self.inner.upsert(list({one.document.id: one for one in short}.values()), refresh=refresh)
        by_id = {one.id: one for one in outcomes}
        return [changed(by_id[one.document.id[:512]], id=one.document.id) for one in writes]

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        found = await self.inner.lookup(list({id[:512] for id in ids}))
        return {id: changed(found[id[:512]], id=id) for id in ids if id[:512] in found}

    async def get(self, id: str) -> Stored | None:
        return await self.inner.get(id[:512])


class WindowsOfTopK(Untouched):
    """Lets each leg return ten hits, however many were asked for."""

    caught_by = ("test_windows_are_honoured_exactly",)

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        return await self.inner.candidates([changed(one, window=min(one.window, 10)) for one in questions])


class CosinesBeyondTheirRange(Untouched):
    """Reports 1 + cosine, as an engine whose scores may not be negative does."""

    caught_by = ("test_cosines_are_raw",)

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        answers = await self.inner.candidates(questions)
        return [
            changed(one, vector=one.vector and [Candidate(hit.key, 1 + hit.raw) for hit in one.vector])
            for one in answers
        ]


class Bm25OnAnotherScale(Untouched):
    """Leaves out the factor of k1 + 1, as Lucene does and Elasticsearch does not."""

    caught_by = ("test_bm25_is_on_the_scale_of_elasticsearch", "test_a_word_of_every_document_still_counts")

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        answers = await self.inner.candidates(questions)
        return [
            changed(one, keyword=one.keyword and [Candidate(hit.key, hit.raw / 2.2) for hit in one.keyword])
            for one in answers
        ]


class LastWriteWins(Untouched):
    """Does not look at what a write expects."""

    caught_by = (
        "test_an_id_that_is_not_as_expected_is_a_conflict_and_stays",
        "test_of_concurrent_writes_of_one_new_id_one_is_stored",
    )

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        outcomes = []
        for one in writes:
            while True:
                have = await self.inner.lookup([one.document.id])
                version = have[one.document.id].version if have else None
                [outcome] = await self.inner.upsert([changed(one, expect=version)], refresh=refresh)
                if outcome.state != "conflict":
                    outcomes.append(outcome)
                    break
        return outcomes


class EpochStands(Untouched):
    caught_by = ("test_the_epoch_changes_with_every_kind_of_write",)

    async def epoch(self) -> str:
        return "1"


class EpochRuns(Untouched):
    """Is new at every question, so that nothing can be kept by it."""

    caught_by = ("test_the_epoch_stays_while_nothing_is_written",)

    def __init__(self, index: KnowledgeIndex) -> None:
        super().__init__(index)
        self._asked = 0

    async def epoch(self) -> str:
        self._asked += 1
        return str(self._asked)


SABOTEURS: Final[tuple[type[Untouched], ...]] = tuple(Untouched.__subclasses__())


def _with_metadata_mapped(write: Write) -> Write:
    mapped: dict[str, Any] = {}
    for key, value in write.document.metadata.items():
        inner = mapped
        *path, last = [part for part in key.split(".") if part] or ["_"]
        for part in path:
            deeper = inner.setdefault(part, {})
            if not isinstance(deeper, dict):
                break
            inner = deeper
        inner[last] = value
    return changed(write, document=write.document.model_copy(update={"metadata": mapped}))
