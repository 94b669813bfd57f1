"""An embedding around any embedder, with what it keeps and reports at hand, and the stand-ins for embedding servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from knowledge_store.embedders.hashing import HashingConfig, HashingEmbedder
from knowledge_store.embedding import Embedding, Patience
from knowledge_store_sdk.errors import IdentityMismatch
from knowledge_store_sdk.protocols import Embedder, EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector
from tests.service.embedders.servers import OllamaServer, OpenAIServer

# a hundredth of what the service waits, but for what a busy machine needs
QUICK = Patience(call_s=5.0, first_retry_s=0.05, longest_retry_s=0.2, mended_s=0.1)


@dataclass
class Kept:
    """What an index keeps for the embedding."""

    states: dict[str, str] = field(default_factory=dict)
    bound: EmbedderIdentity | None = None
    binds: int = 0

    async def load(self, name: str) -> str | None:
        return self.states.get(name)

    async def save(self, name: str, value: str) -> None:
        self.states[name] = value

    async def bind(self, identity: EmbedderIdentity) -> None:
        self.binds += 1
        if self.bound is not None and not self.bound.same_as(identity):
            raise IdentityMismatch(f"the index was built with {self.bound}, and {identity} is configured: reindex")
        self.bound = self.bound or identity


@dataclass
class Counts:
    calls: int = 0
    hits: int = 0
    misses: int = 0

    def observe_embed(self, seconds: float) -> None:
        assert seconds >= 0
        self.calls += 1

    def cache_hit(self) -> None:
        self.hits += 1

    def cache_miss(self) -> None:
        self.misses += 1


class Watched(HashingEmbedder):
    """The hashing embedder, whose calls are kept, and run `before` first."""

    def __init__(self, **settings: int) -> None:
        super().__init__(HashingConfig(**settings))
        self.calls: list[list[str]] = []
        self.before: Callable[[Sequence[str]], Awaitable[None]] | None = None
        self.at_once = self.most_at_once = 0

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        self.calls.append(list(texts))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.before is not None:
                await self.before(texts)
            return await super().embed(texts, role)
        finally:
            self.at_once -= 1

    def forget(self) -> None:
        self.calls.clear()


Make = Callable[..., Embedding]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def make(kept: Kept, counts: Counts) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def make(embedder: Embedder, patience: Patience = QUICK) -> Embedding:
            embedding = Embedding(
                embedder,
                on_identity=kept.bind,
                load_state=kept.load,
                save_state=kept.save,
                metrics=counts,
                patience=patience,
            )
            stack.push_async_callback(embedding.close)
            return embedding

        yield make
    left = [task for task in asyncio.all_tasks() if "Connection" in repr(task) or "Embedding" in repr(task)]
    assert not left, "a task outlived its embedding"


@pytest.fixture
async def watched() -> Watched:
    return Watched()


@pytest.fixture
async def embedding(make: Make, watched: Watched) -> Embedding:
    """Ready, and nothing but the start behind it."""
    embedding = make(watched)
    await embedding.start(5)
    watched.forget()
    return embedding


@pytest.fixture
async def ollama() -> AsyncIterator[OllamaServer]:
    server = OllamaServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def openai() -> AsyncIterator[OpenAIServer]:
    server = OpenAIServer()
    await server.start()
    yield server
    await server.stop()
