from __future__ import annotations

from knowledge_store.embedding import VectorCache, text_key, vector_key
from knowledge_store_sdk.protocols import EmbedderIdentity

A = EmbedderIdentity(model="a", dims=8)
B = EmbedderIdentity(model="b", dims=8)


def test_a_vectors_key_is_its_embedder_role_and_text() -> None:
    keys = {vector_key(identity, role, text) for identity in (A, B) for role in ("query", "passage") for text in "xy"}
    assert len(keys) == 8
    assert vector_key(A, "query", "x") == vector_key(EmbedderIdentity(model="a:latest", dims=8), "query", "x")


def test_a_texts_key_is_stable_across_releases() -> None:
    # it stands in every index: another value would embed every document again
    assert text_key("Kafka") == "b6caabcdb81fdeda66adc37e92dbb61dbfc049e280a2db3d14a943dd86090eeb"


def test_the_least_recently_used_vector_goes_first() -> None:
    cache = VectorCache(3 * (1_000 + 250))
    for name in "abc":
        cache.put(name, bytes(1_000))
    assert cache.get("a")
    cache.put("d", bytes(1_000))
    assert cache.get("b") is None
    assert all(cache.get(name) for name in "acd")


def test_the_cache_stays_within_its_bytes() -> None:
    cache = VectorCache(100_000)
    for number in range(1_000):
        cache.put(str(number), bytes(1_536))
        cache.put(str(number), bytes(1_536))
    assert len(cache) == 100_000 // (1_536 + 250)
