from __future__ import annotations

import pytest

from knowledge_store.embedders.hashing import open_embedder
from knowledge_store_sdk.errors import InvalidField
from knowledge_store_sdk.testing.embedder_suite import cosine


async def test_vectors_are_the_same_in_every_process() -> None:
    [vector] = await open_embedder({"dims": 8}).embed(["Kafka broker, kafka"], "query")
    assert vector.hex() == "0000000000000000000000002ef9643f000000002ef9e43e0000000000000000"


async def test_texts_that_share_words_are_near_whatever_their_case() -> None:
    embedder = open_embedder({})
    one, same, other = await embedder.embed(["Kafka broker", "BROKER kafka", "soup"], "passage")
    assert cosine(one, same) == pytest.approx(1)
    assert cosine(one, other) < 0.5


async def test_more_words_than_the_window_are_refused() -> None:
    with pytest.raises(InvalidField, match="5 words are more than the window of 4"):
        await open_embedder({"max_tokens": 4}).embed(["a b c d e"], "query")
