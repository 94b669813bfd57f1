from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic

import numpy as np
import pytest

from knowledge_store.embedding import Embedded, Embedding
from knowledge_store.embedding.passages import batched, mean
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.testing.embedder_suite import cosine
from knowledge_store_sdk.vectors import pack
from tests.service.embedding.conftest import Counts, Kept, Make, Watched

LONG = " ".join(f"step {number} restarts the broker" for number in range(200))  # 1,000 words; the window has 256


async def slowly(texts: Sequence[str]) -> None:
    await asyncio.sleep(0.2)


# questions


async def test_a_question_gets_the_vector_that_the_embedder_gives_it(embedding: Embedding, watched: Watched) -> None:
    assert await embedding.embed_query("kafka", 5) == (await watched.embed(["kafka"], "query"))[0]


async def test_a_question_asked_again_is_not_embedded_again(
    embedding: Embedding, watched: Watched, counts: Counts
) -> None:
    first = await embedding.embed_query("kafka", 5)
    assert await embedding.embed_query("kafka", 5) == first
    assert watched.calls == [["kafka"]]
    assert (counts.hits, counts.misses) == (1, 1)


async def test_a_question_and_a_passage_of_the_same_text_do_not_share_a_vector(
    embedding: Embedding, watched: Watched
) -> None:
    await embedding.embed_query("kafka", 5)
    await embedding.embed_passages(["kafka"])
    assert watched.calls == [["kafka"], ["kafka"]]


async def test_equal_questions_at_the_same_time_are_one_call(
    embedding: Embedding, watched: Watched, counts: Counts
) -> None:
    watched.before = slowly
    vectors = await asyncio.gather(*(embedding.embed_query("kafka", 5) for _ in range(20)))
    assert len(set(vectors)) == 1
    assert watched.calls == [["kafka"]]
    assert (counts.hits, counts.misses) == (19, 1)


async def test_many_questions_at_the_same_time_are_a_few_calls_at_a_time(
    embedding: Embedding, watched: Watched
) -> None:
    watched.before = slowly
    await asyncio.gather(*(embedding.embed_query(f"question {number}", 5) for number in range(20)))
    assert len(watched.calls) == 20
    assert watched.most_at_once == 8


async def test_a_question_beyond_the_window_is_the_mean_of_its_windows(embedding: Embedding, watched: Watched) -> None:
    windows = watched.windows(LONG, "query")
    assert len(windows) == 4
    expected = mean([(await watched.embed([window], "query"))[0] for window in windows])
    assert await embedding.embed_query(LONG, 5) == expected


async def test_a_question_without_an_answer_in_time_says_why_and_its_vector_is_there_later(
    embedding: Embedding, watched: Watched
) -> None:
    watched.before = slowly
    with pytest.raises(BackendUnavailable, match="not answered yet"):
        await embedding.embed_query("kafka", 0.05)
    assert watched.at_once == 1, "it returned before the embedder did, and left the call alone"
    await asyncio.sleep(0.3)
    await embedding.embed_query("kafka", 0.05)
    assert watched.calls == [["kafka"]]


async def test_a_long_question_does_not_hold_up_others(embedding: Embedding, watched: Watched) -> None:
    processor = asyncio.Lock()

    async def by_the_text(texts: Sequence[str]) -> None:
        async with processor:
            await asyncio.sleep(0.03 * len(texts))

    watched.before = by_the_text
    long = asyncio.create_task(embedding.embed_query(" ".join([LONG] * 10), 30))
    await asyncio.sleep(0.3)
    await embedding.embed_query("short", 0.3)
    assert not long.done()
    long.cancel()


# passages


async def test_each_passage_gets_its_vector_in_order(embedding: Embedding, watched: Watched) -> None:
    texts = [f"host {number}" for number in range(50)]
    expected = await watched.embed(texts, "passage")
    assert await embedding.embed_passages(texts) == [Embedded(vector) for vector in expected]


async def test_passages_go_in_batches_of_at_most_16_two_at_a_time(embedding: Embedding, watched: Watched) -> None:
    watched.before = slowly
    await embedding.embed_passages([f"host {number}" for number in range(100)])
    assert max(len(call) for call in watched.calls) <= 16
    assert len(watched.calls) == 7
    assert watched.most_at_once == 2


async def test_two_lists_of_passages_share_the_two_places(embedding: Embedding, watched: Watched) -> None:
    watched.before = slowly
    lists = [[f"{name} {number}" for number in range(64)] for name in "ab"]
    await asyncio.gather(*(embedding.embed_passages(texts) for texts in lists))
    assert watched.most_at_once == 2


async def test_equal_passages_are_embedded_once_in_a_call_and_never_again(
    embedding: Embedding, watched: Watched, counts: Counts
) -> None:
    first = await embedding.embed_passages(["a", "b", "a"])
    assert first[0] == first[2]
    await embedding.embed_passages(["b", "a"])
    assert watched.calls == [["a", "b"]]
    assert (counts.hits, counts.misses) == (2, 2)


async def test_equal_passages_of_two_callers_are_embedded_once(embedding: Embedding, watched: Watched) -> None:
    watched.before = slowly
    one, other = await asyncio.gather(embedding.embed_passages(["a", "b"]), embedding.embed_passages(["b", "c"]))
    assert sorted(text for call in watched.calls for text in call) == ["a", "b", "c"]
    assert one[1] == other[0]
    assert other[0].vector


async def test_a_passage_beyond_the_window_is_the_mean_of_its_windows(embedding: Embedding, watched: Watched) -> None:
    expected = mean([(await watched.embed([window], "passage"))[0] for window in watched.windows(LONG, "passage")])
    assert await embedding.embed_passages(["a", LONG, "b"]) == [
        Embedded((await watched.embed(["a"], "passage"))[0]),
        Embedded(expected),
        Embedded((await watched.embed(["b"], "passage"))[0]),
    ]


async def test_what_is_not_embedded_by_the_deadline_says_so_and_what_was_begun_is_kept(
    embedding: Embedding, watched: Watched
) -> None:
    async def more_slowly(texts: Sequence[str]) -> None:
        await asyncio.sleep(0.6)

    watched.before = more_slowly
    texts = [f"host {number}" for number in range(160)]
    started = monotonic()
    results = await embedding.embed_passages(texts, deadline_s=0.9)
    assert monotonic() - started < 1.1
    assert sum(1 for one in results if one.vector) == 32
    assert {one.reason for one in results if not one.vector} == {"there was no time left to embed it"}
    assert not any(one.refused for one in results)
    await asyncio.sleep(0.6)
    assert len(watched.calls) == 4, "no batch begins after the deadline"
    watched.forget()
    results = await embedding.embed_passages(texts)
    assert all(one.vector for one in results)
    assert sum(map(len, watched.calls)) == 160 - 64


async def test_a_caller_who_gives_up_does_not_take_the_work_from_another(
    embedding: Embedding, watched: Watched
) -> None:
    watched.before = slowly
    texts = [f"host {number}" for number in range(100)]
    impatient = asyncio.create_task(embedding.embed_passages(texts))
    await asyncio.sleep(0.05)
    patient = asyncio.create_task(embedding.embed_passages(texts))
    await asyncio.sleep(0.05)
    impatient.cancel()
    assert all(one.vector for one in await patient)
    assert sum(map(len, watched.calls)) == 100


async def test_a_blank_passage_is_refused_and_the_others_are_embedded(embedding: Embedding, watched: Watched) -> None:
    blank, other = await embedding.embed_passages([" \n", "a"])
    assert (blank.vector, blank.refused) == (None, True)
    assert other.vector
    assert watched.calls == [["a"]]


async def test_no_passages_are_no_call(embedding: Embedding, watched: Watched) -> None:
    assert await embedding.embed_passages([]) == []
    assert watched.calls == []


async def test_an_embedder_that_breaks_its_contract_loses_vectors_not_the_caller(
    embedding: Embedding, watched: Watched
) -> None:
    async def break_down(texts: Sequence[str]) -> None:
        if "b" in texts:
            raise ZeroDivisionError

    watched.before = break_down
    one, two, three = await embedding.embed_passages(["a", "b", "c"])
    assert one.vector
    assert three.vector
    assert (two.vector, two.reason) == (None, "the embedder failed with a ZeroDivisionError")
    assert embedding.status.state == "ready"


async def test_closing_ends_what_is_under_way_with_a_reason(embedding: Embedding, watched: Watched) -> None:
    async def hang(texts: Sequence[str]) -> None:
        await asyncio.sleep(60)

    watched.before = hang
    passages = asyncio.create_task(embedding.embed_passages(["a"]))
    question = asyncio.create_task(embedding.embed_query("b", 30))
    await asyncio.sleep(0.05)
    await embedding.close()
    assert (await passages)[0].reason == "the service is stopping"
    with pytest.raises(BackendUnavailable, match="stopping"):
        await question
    await embedding.close()


# mu


async def test_mu_is_measured_once_for_an_identity(make: Make, kept: Kept) -> None:
    first, second, other = Watched(), Watched(), Watched(dims=32)
    embedding = make(first)
    await embedding.start(5)
    assert sum(map(len, first.calls)) == 81
    again = make(second)
    await again.start(5)
    assert sum(map(len, second.calls)) == 1
    assert embedding.mu is not None
    assert again.mu == pytest.approx(embedding.mu)
    assert list(kept.states) == [f"mu.{first.identity.key}"]
    kept.bound = None
    await make(other).start(5)
    assert sum(map(len, other.calls)) == 81


async def test_an_embedder_to_which_all_texts_are_the_same_is_a_config_error(make: Make) -> None:
    class Same(Watched):
        async def embed(self, texts: Sequence[str], role: object) -> list[bytes]:
            return [pack([1.0] * 64) for _ in texts]

    status = await make(Same()).start(5)
    assert status.state == "down"
    assert "nearly the same vector" in str(status.reason)


# arithmetic


def test_the_mean_has_length_1_and_lies_between() -> None:
    one, other = pack([1, 0, 0]), pack([0, 1, 0])
    between = mean([one, other])
    assert np.linalg.norm(np.frombuffer(between, "<f4")) == pytest.approx(1)
    assert cosine(between, one) == pytest.approx(cosine(between, other)) == pytest.approx(0.7071, abs=1e-4)


def test_vectors_that_cancel_one_another_out_leave_the_first() -> None:
    assert mean([pack([1, 0]), pack([-1, 0])]) == pack([1, 0])


def test_batches_are_even_and_hold_at_most_16() -> None:
    assert [len(batch) for batch in batched(range(17))] == [9, 8]
    assert [len(batch) for batch in batched(range(100))] == [15, 15, 15, 15, 15, 15, 10]
    assert batched([]) == []
    assert [item for batch in batched(range(100)) for item in batch] == list(range(100))
