"""Finding: the scales of both legs, windows, plain words, and what `fetch` reads."""

from __future__ import annotations

import math

import pytest

from knowledge_store_sdk.protocols import FetchRequest, KnowledgeIndex, Question
from knowledge_store_sdk.testing.index_cases import READER, IndexRules, at_cosine, axis, find, stored, write
from knowledge_store_sdk.vectors import Vector, unpack


def expected_bm25(documents: list[list[str]], words: list[str]) -> list[float]:
    """BM25 as Elasticsearch computes it (k1 1.2, b 0.75, Lucene's idf, times k1 + 1), for texts already analysed."""
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in words:
            have = sum(word in one for one in documents)
            idf = math.log(1 + (len(documents) - have + 0.5) / (have + 0.5))
            tf = document.count(word)
            score += 2.2 * idf * tf / (tf + 1.2 * (0.25 + 0.75 * len(document) / average))
        scores.append(score)
    return scores


class FindingRules(IndexRules):
    """What each leg finds and how it scores."""

    async def test_bm25_is_on_the_scale_of_elasticsearch(self, store: KnowledgeIndex) -> None:
        texts = ["kafka broker", "kafka kafka partit lag", "zebra", "kafka lunch menu monday soup bread"]
        written = [
            "the kafka broker",
            "Kafka: KAFKA partitions, and a lag",
            "zebras",
            "kafka lunch menu monday soup bread",
        ]
        await stored(store, *[write(f"d{n}", text) for n, text in enumerate(written)])
        for question, words in (
            ("kafka", ["kafka"]),
            ("the kafka partitions", ["kafka", "partit"]),
            ("zebra", ["zebra"]),
        ):
            expected = expected_bm25([text.split() for text in texts], words)
            found = (await find(store, question)).keyword
            assert found == pytest.approx({f"d{n}": score for n, score in enumerate(expected) if score}, rel=0.02)

    async def test_a_word_of_every_document_still_counts(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(f"d{n}", "kafka broker") for n in range(4)])
        found = (await find(store, "kafka")).keyword
        assert found == pytest.approx({f"d{n}": math.log(1 + 0.5 / 4.5) for n in range(4)}, rel=0.02)

    async def test_title_context_and_content_are_one_field(self, store: KnowledgeIndex) -> None:
        await stored(
            store,
            write("title", "one two", title="kafka"),
            write("context", "one two", context="kafka"),
            write("content", "kafka one two"),
            write("section", "one two three", section="kafka"),
            write("metadata", "one two three", metadata={"kafka": "kafka"}, tags=("kafka",)),
        )
        found = (await find(store, "kafka")).keyword
        assert found is not None
        assert set(found) == {"title", "context", "content"}
        assert max(found.values()) == pytest.approx(min(found.values()), rel=0.001)

    async def test_words_are_stemmed_and_case_does_not_matter(self, store: KnowledgeIndex) -> None:
        await stored(store, write("shrink", "ISR shrinking on the brokers"), write("other", "lunch"))
        for question in ("shrink", "SHRINKS", "isr", "broker's", "Brokers"):
            assert (await find(store, question)).keyword_ids == {"shrink"}, question

    async def test_stop_words_find_nothing(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "the broker and the partition of it"))
        for question in ("the", "the of and", "is it not"):
            assert (await find(store, question)).keyword == {}, question

    async def test_cosines_are_raw(self, store: KnowledgeIndex) -> None:
        cosines = {"one": 1.0, "most": 0.93, "half": 0.5, "none": 0.0, "against": -0.5}
        await stored(store, *[write(id, "text", vector=at_cosine(cosine)) for id, cosine in cosines.items()])
        found = (await find(store, None, axis(0))).vector
        assert found == pytest.approx(cosines, abs=0.003)
        assert list(found or ()) == list(cosines), "not best first"

    async def test_windows_are_honoured_exactly(self, store: KnowledgeIndex) -> None:
        await stored(store, *[write(f"d{n}", "kafka " + "lag " * n, vector=at_cosine(n / 200)) for n in range(150)])
        for window in (1, 3, 100, 149, 150, 400):
            [legs] = await store.candidates([Question("kafka", axis(0), READER, window)])
            assert legs.keyword is not None
            assert legs.vector is not None
            assert (len(legs.keyword), len(legs.vector)) == (min(window, 150), min(window, 150))
        found = await find(store, "kafka", axis(0), window=3)
        assert list(found.vector or ()) == ["d149", "d148", "d147"]
        assert next(iter(found.keyword or ())) == "d0"

    async def test_a_leg_that_is_not_asked_is_none(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka"))
        by_text, by_vector = await store.candidates(
            [Question("kafka", None, READER, 10), Question(None, axis(0), READER, 10)]
        )
        assert by_text.vector is None
        assert len(by_text.keyword or ()) == 1
        assert by_vector.keyword is None
        assert len(by_vector.vector or ()) == 1

    async def test_questions_of_one_call_are_answered_in_order(self, store: KnowledgeIndex) -> None:
        words = ["kafka", "zebra", "lunch"]
        await stored(store, *[write(word, word, vector=axis(n)) for n, word in enumerate(words)])
        answers = await store.candidates([Question(word, axis(n), READER, 1) for n, word in enumerate(words)])
        fetched = await store.fetch(
            [FetchRequest([hit.key for hit in [*(one.keyword or ()), *(one.vector or ())]]) for one in answers]
        )
        found = [{one.document.id for one in part.found.values()} for part in fetched]
        assert found == [{"kafka"}, {"zebra"}, {"lunch"}]

    async def test_no_questions_get_no_answers(self, store: KnowledgeIndex) -> None:
        assert await store.candidates([]) == []
        assert await store.fetch([]) == []

    async def test_pending_documents_are_found_by_keyword_and_not_by_vector(self, store: KnowledgeIndex) -> None:
        await stored(store, write("waits", "kafka", vector=None), write("ready", "lunch"))
        found = await find(store, "kafka", axis(0))
        assert (found.keyword_ids, found.vector_ids) == ({"waits"}, {"ready"})
        assert (found.documents["waits"].pending, found.documents["ready"].pending) == (True, False)

    @pytest.mark.parametrize(
        "question",
        [
            "kafka AND zebra", "kafka OR NOT zebra", "NOT kafka zebra", "+kafka -zebra", '"zebra kafka"',
            "kafka* zebra*", "title: kafka title: zebra", "content:[kafka TO zebra]", "(kafka zebra", "kafka~2 zebra~",
            "kafka^9 zebra", r"C:\kafka (zebra", 'kafka/zebra "x', "{!parser} kafka zebra", "/kafka/ /zebra/",
            "kafka && zebra || !x", "NEAR(kafka zebra, 1)", "kafka'); zebra --", "\N{GRINNING FACE} kafka zebra",
        ],
    )  # fmt: skip
    async def test_question_text_is_plain_words(self, store: KnowledgeIndex, question: str) -> None:
        await stored(store, write("kafka", "kafka mill"), write("zebra", "zebra mill"), write("other", "lunch menu"))
        assert (await find(store, question)).keyword_ids == {"kafka", "zebra"}

    @pytest.mark.parametrize(
        "question",
        [
            "AND OR NOT",
            "*",
            "field:value",
            "title:[1 TO",
            '"',
            "\\",
            "???",
            "lun*",
            "lunc~1",
            "source:suite",
            "_id:one",
        ],
    )
    async def test_question_text_that_names_no_word_finds_nothing(self, store: KnowledgeIndex, question: str) -> None:
        await stored(store, write("one", "lunch menu", title="notes", metadata={"field": "value"}, tags=("value",)))
        assert (await find(store, question)).keyword == {}

    async def test_very_long_questions_are_answered(self, store: KnowledgeIndex) -> None:
        await stored(store, write("one", "kafka lag"), write("other", "lunch menu"))
        long = " ".join(f"w{n}" for n in range(4_000))[:19_990] + " kafka"
        for question in (long, "kafka " + "x" * 40_000, "kafka " * 3_000):
            assert (await find(store, question)).keyword_ids == {"one"}, question[:20]

    async def test_of_many_words_the_most_telling_128_count(self, store: KnowledgeIndex) -> None:
        common = [f"common{n}" for n in range(300)]
        rare = [f"rare{n}" for n in range(100)]
        await stored(
            store,
            *[write(f"c{n}", " ".join(common)) for n in range(9)],
            write("rare", " ".join(rare)),
        )
        found = (await find(store, " ".join(common + rare))).keyword
        assert found is not None
        assert next(iter(found)) == "rare"
        all_rare = (await find(store, " ".join(rare))).keyword
        assert found["rare"] == pytest.approx((all_rare or {})["rare"], rel=0.02)

    async def test_fetch_takes_exact_cosines_of_those_asked_for(self, store: KnowledgeIndex) -> None:
        await stored(
            store,
            write("half", "kafka", vector=at_cosine(0.5)),
            write("against", "kafka", vector=at_cosine(-0.25)),
            write("waits", "kafka", vector=None),
            write("not-asked", "kafka", vector=at_cosine(0.7)),
        )
        [legs] = await store.candidates([Question("kafka", None, READER, 10)])
        keys = [hit.key for hit in legs.keyword or ()]
        [plain] = await store.fetch([FetchRequest(keys)])
        assert plain.cosines == {}
        by_id = {one.document.id: key for key, one in plain.found.items()}
        exact = [by_id[id] for id in ("half", "against", "waits")]
        [fetched] = await store.fetch([FetchRequest(keys, exact=exact, vector=axis(0))])
        expected = {by_id["half"]: 0.5, by_id["against"]: -0.25}
        assert fetched.cosines == pytest.approx(expected, abs=0.003)
        assert set(fetched.found) == set(keys)

    async def test_fetch_reads_vectors_on_request(self, store: KnowledgeIndex) -> None:
        vectors = {"one": at_cosine(0.3), "two": axis(5)}
        await stored(store, *[write(id, "kafka", vector=vector) for id, vector in vectors.items()])
        await stored(store, write("waits", "kafka", vector=None))
        [legs] = await store.candidates([Question("kafka", None, READER, 10)])
        keys = [hit.key for hit in legs.keyword or ()]
        [without] = await store.fetch([FetchRequest(keys)])
        assert without.vectors == {}
        [fetched] = await store.fetch([FetchRequest(keys, with_vectors=True)])
        read = {fetched.found[key].document.id: vector for key, vector in fetched.vectors.items()}
        assert set(read) == {"one", "two"}
        for id, vector in vectors.items():
            assert_same_vector(read[id], vector)

    async def test_a_candidate_that_has_gone_is_in_no_part(self, store: KnowledgeIndex) -> None:
        await stored(store, write("stays", "kafka"), write("goes", "kafka"))
        [legs] = await store.candidates([Question("kafka", axis(0), READER, 10)])
        keys = [hit.key for hit in legs.keyword or ()]
        assert len(keys) == 2
        await store.delete(["goes"], refresh=True)
        [fetched] = await store.fetch([FetchRequest(keys, exact=keys, vector=axis(0), with_vectors=True)])
        assert [one.document.id for one in fetched.found.values()] == ["stays"]
        assert set(fetched.cosines) <= set(fetched.found)
        assert set(fetched.vectors) <= set(fetched.found)


def assert_same_vector(read: Vector, written: Vector) -> None:
    assert list(unpack(read)) == pytest.approx(list(unpack(written)), abs=1e-3)
