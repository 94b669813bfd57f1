from __future__ import annotations

import pytest

from knowledge_store.embedders import onnx
from knowledge_store.embedding.baseline import SENTENCES, median_cosine
from knowledge_store_sdk.vectors import pack


def test_the_median_is_over_pairs_of_different_sentences() -> None:
    queries = [pack([1, 0]), pack([0, 1]), pack([1, 1])]
    passages = [pack([1, 0]), pack([0, 1]), pack([1, 1])]
    # 0 and 0 between the axes, 0.707 four times with the diagonal; each with itself, which is 1, does not count
    assert median_cosine(queries, passages) == pytest.approx(0.7071, abs=1e-4)
    assert median_cosine(queries[:2], passages[:2]) == 0


def test_there_are_forty_sentences_and_no_two_are_the_same() -> None:
    assert len(set(SENTENCES)) == 40


async def test_mu_of_the_bundled_embedder() -> None:
    embedder = onnx.open_bundled({})
    await embedder.open()
    mu = median_cosine(await embedder.embed(SENTENCES, "query"), await embedder.embed(SENTENCES, "passage"))
    await embedder.close()
    assert mu == pytest.approx(0.045, abs=0.01)
