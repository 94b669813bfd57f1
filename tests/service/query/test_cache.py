"""The query cache: bounded, dead when expired, and never read where the epoch may be out of date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from knowledge_store.query.cache import Kept, QueryCache, WriteEpoch
from knowledge_store_sdk.errors import BackendUnavailable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_least_recently_used_answer_goes_first_when_the_bytes_run_out() -> None:
    cache = QueryCache(ttl_s=60, max_bytes=3_000)
    for key in "abc":
        cache.put(key, Kept(b"x" * 400, 1, None))
        assert cache.get("a", NOW)
    cache.put("d", Kept(b"x" * 400, 1, None))
    assert cache.bytes <= 3_000
    assert cache.get("a", NOW)
    assert cache.get("b", NOW) is None


def test_an_answer_larger_than_the_cache_is_not_kept() -> None:
    cache = QueryCache(ttl_s=60, max_bytes=100)
    cache.put("a", Kept(b"x" * 400, 1, None))
    assert cache.get("a", NOW) is None
    assert cache.bytes == 0


def test_an_answer_dies_with_the_first_of_its_documents() -> None:
    cache = QueryCache(ttl_s=60, max_bytes=10_000)
    cache.put("a", Kept(b"[]", 1, NOW + timedelta(seconds=1)))
    assert cache.get("a", NOW)
    assert cache.get("a", NOW + timedelta(seconds=1)) is None


def test_an_answer_is_kept_for_its_time_only() -> None:
    seconds = [0.0]
    cache = QueryCache(ttl_s=60, max_bytes=10_000, clock=lambda: seconds[0])
    cache.put("a", Kept(b"[]", 1, None))
    seconds[0] = 61
    assert cache.get("a", NOW) is None


async def test_the_epoch_is_unknown_before_the_first_poll_and_after_a_failed_one() -> None:
    answers: list[str | None] = ["1"]

    async def read() -> str:
        if answers[0] is None:
            raise BackendUnavailable("down")
        return answers[0]

    epoch = WriteEpoch(read)
    assert epoch.current() is None
    await epoch.poll()
    first = epoch.current()
    assert first is not None
    epoch.changed()
    second = epoch.current()
    assert second not in (None, first)
    answers[0] = "2"
    await epoch.poll()
    assert epoch.current() not in (None, first, second)
