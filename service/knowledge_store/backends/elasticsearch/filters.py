"""Filter -> the clauses of a `bool` query: one pure compilation, used by both legs, by lists, counts and statistics."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from knowledge_store.backends.elasticsearch.names import excluded, short
from knowledge_store_sdk.protocols import Filter, Scope
from knowledge_store_sdk.tags import TagExpression

Clause = dict[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_PROJECT: Final[Clause] = {"bool": {"must_not": [{"exists": {"field": "project_id"}}]}}


def micros(at: datetime) -> int:
    """Microseconds since 1970, exact: the server's own dates end at milliseconds, or at the year 2262."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def clauses(filter: Filter, exclude: Collection[str] = ()) -> dict[str, list[Clause]]:
    """The `filter` and `must_not` of a bool query, each only where it has a clause; {} where nothing is filtered.

    `exclude` is what `fetch` named superseded.
    """
    generations, keys = excluded(exclude)
    must = [
        None if filter.tags is None else _tags(filter.tags),
        None if filter.sources is None else {"terms": {"source": sorted(filter.sources)}},
        None if filter.parent_id is None else {"term": {"parent": short(filter.parent_id)}},
        None if filter.scope is None else _scope(filter.scope),
        _until("expires_us", "lte", filter.expired_at),
        _until("seen_us", "lt", filter.seen_before),
        None if filter.pending is None else {"term": {"pending": filter.pending}},
    ]
    must_not = [
        _until("expires_us", "lte", filter.live_at),
        {"terms": {"generation": generations}} if generations else None,
        {"terms": {"key": keys}} if keys else None,
    ]
    given = {name: [one for one in found if one] for name, found in (("filter", must), ("must_not", must_not))}
    return {name: found for name, found in given.items() if found}


def _until(field: str, operator: str, at: datetime | None) -> Clause | None:
    return None if at is None else {"range": {field: {operator: micros(at)}}}


def _tags(tags: TagExpression) -> Clause:
    single = [all_of[0] for all_of in tags.any_of if len(all_of) == 1]
    branches: list[Clause] = [{"terms": {"tags": single}}] if single else []
    branches += [{"bool": {"filter": [_tag(tag) for tag in all_of]}} for all_of in tags.any_of if len(all_of) > 1]
    return branches[0] if len(branches) == 1 else {"bool": {"should": branches, "minimum_should_match": 1}}


def _tag(tag: str) -> Clause:
    return {"term": {"tags": tag}}


def _scope(scope: Scope) -> Clause:
    if scope.project_id is None:
        return _NO_PROJECT
    own: Clause = {"term": {"project_id": scope.project_id}}
    if not scope.include_global:
        return own
    return {"bool": {"should": [own, _NO_PROJECT], "minimum_should_match": 1}}
