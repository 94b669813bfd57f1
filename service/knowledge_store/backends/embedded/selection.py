"""A filter -> the slots that pass it; and what is asked of those without words or vectors: their order and counts."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from knowledge_store.backends.embedded.corpus import NO_PROJECT, Corpus, Mask, View
from knowledge_store.backends.embedded.rows import micros
from knowledge_store_sdk.models import Stats
from knowledge_store_sdk.protocols import Filter, Scope
from knowledge_store_sdk.tags import TagExpression

MAX_TAGS_TOLD = 1_000


def passing(corpus: Corpus, view: View, filter: Filter) -> Mask:
    """Bool, shape (slots,): the live documents that satisfy each part of the filter that is given."""
    mask = view.live.copy()
    if filter.tags is not None:
        mask &= _tagged(corpus, view, filter.tags)
    if filter.sources is not None:
        numbers = [number for name in filter.sources if (number := corpus.number_of(name)) is not None]
        mask &= np.isin(view.column("source"), numbers)
    if filter.parent_id is not None:
        mask &= _at(corpus.parts_of(filter.parent_id, view), view)
    if filter.scope is not None:
        mask &= _in_scope(corpus, view, filter.scope)
    if filter.live_at is not None:
        mask &= view.column("expires_at") > micros(filter.live_at)
    if filter.expired_at is not None:
        mask &= view.column("expires_at") <= micros(filter.expired_at)
    if filter.seen_before is not None:
        mask &= view.column("seen_at") < micros(filter.seen_before)
    if filter.pending is not None:
        mask &= view.vectored != filter.pending
    return mask


def newest_first(
    corpus: Corpus, view: View, mask: Mask, after: tuple[int, str] | None, limit: int
) -> list[tuple[int, str, int]]:
    """(`updated_at` in microseconds, id, row) of the first documents that pass, newest first, then by id.

    `after` is the time and the id of the one before the first.
    """
    times, ids = view.column("updated_at"), corpus.ids
    slots = np.flatnonzero(mask)
    if after is not None:
        at, id = after
        equal = [slot for slot in slots[times[slots] == at].tolist() if ids[slot] > id]
        slots = np.concatenate([np.array(equal, np.int64), slots[times[slots] < at]])
    if len(slots) > limit:
        last = np.partition(times[slots], len(slots) - limit)[len(slots) - limit]
        newer, equal = slots[times[slots] > last], slots[times[slots] == last].tolist()
        first = heapq.nsmallest(limit - len(newer), equal, key=ids.__getitem__)
        slots = np.concatenate([newer, np.array(first, np.int64)])
    found = [(int(times[slot]), ids[slot], int(view.columns["row"][slot])) for slot in slots.tolist()]
    return sorted(found, key=lambda one: (-one[0], one[1]))


def stats_of(corpus: Corpus, view: View, mask: Mask) -> Stats:
    """Counts of the documents that pass."""
    tags = {tag: int(np.count_nonzero(mask[corpus.tagged(tag, view)])) for tag in corpus.tags()}
    numbers, counts = np.unique(view.column("source")[mask], return_counts=True)
    names = corpus.names()
    frequent = sorted(((count, tag) for tag, count in tags.items() if count), key=lambda one: (-one[0], one[1]))
    return Stats(
        total=int(np.count_nonzero(mask)),
        pending_vectors=int(np.count_nonzero(mask & ~view.vectored)),
        tags={tag: count for count, tag in frequent[:MAX_TAGS_TOLD]},
        sources={names[number]: int(count) for number, count in zip(numbers, counts, strict=True)},
    )


def _tagged(corpus: Corpus, view: View, tags: TagExpression) -> Mask:
    def have(tag: str) -> Mask:
        return _at(corpus.tagged(tag, view), view)

    every: Callable[[Mask, Mask], Mask] = np.logical_and
    either: Callable[[Mask, Mask], Mask] = np.logical_or
    return reduce(either, (reduce(every, map(have, all_of)) for all_of in tags.any_of))


def _in_scope(corpus: Corpus, view: View, scope: Scope) -> Mask:
    project = view.column("project")
    of_none: Mask = project == NO_PROJECT
    if scope.project_id is None:
        return of_none
    number = corpus.number_of(scope.project_id)
    own: Mask = project == number if number is not None else np.zeros(view.slots, np.bool_)
    return own | of_none if scope.include_global else own


def _at(slots: NDArray[np.int32], view: View) -> Mask:
    mask = np.zeros(view.slots, np.bool_)
    mask[slots] = True
    return mask
