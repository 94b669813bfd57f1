"""What the query path and the ingest path embed with.

embed_query      text  -> cache -> one flight a text, a few at a time -> its vector within the budget, or an error
embed_passages   texts -> cache -> flights of others -> `Passages` for the rest -> what became of each
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

import structlog

from knowledge_store.embedding.cache import VectorCache, vector_key
from knowledge_store.embedding.connection import Connection, LoadState, OnIdentity, Patience, SaveState, Status
from knowledge_store.embedding.metrics import EmbeddingMetrics
from knowledge_store.embedding.passages import BATCHES_UNDER_WAY, Embedded, Passages, Wish, mean
from knowledge_store.embedding.salvage import Refusal, salvage
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import Embedder, EmbedderIdentity
from knowledge_store_sdk.vectors import Vector

_CACHE_BYTES: Final = 16 * 1024 * 1024
_QUERIES_UNDER_WAY: Final = 8
_QUERY_WINDOWS_A_CALL: Final = 4  # a question of many windows lets others pass in between
_REFUSALS_KEPT: Final = 10_000
_STOPPING: Final = "the service is stopping"
_log = structlog.get_logger(__name__)


class Embedding:
    """An embedder with a cache in front of it and a guard around it. See `Connection` for `on_identity` and the states.

    `load_state` and `save_state` keep small texts by name (`mu.<identity>`) beyond this process.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        on_identity: OnIdentity,
        load_state: LoadState,
        save_state: SaveState,
        metrics: EmbeddingMetrics,
        patience: Patience | None = None,
    ) -> None:
        self._connection = Connection(
            embedder,
            on_identity=on_identity,
            load_state=load_state,
            save_state=save_state,
            metrics=metrics,
            patience=patience or Patience(),
        )
        self._embedder = embedder
        self._metrics = metrics
        self._cache = VectorCache(_CACHE_BYTES)
        self._refused: dict[str, Embedded] = {}
        self._questions: dict[str, asyncio.Task[Vector]] = {}
        self._question_slots = asyncio.Semaphore(_QUERIES_UNDER_WAY)
        self._passages: dict[str, asyncio.Future[Embedded]] = {}
        self._passage_slots = asyncio.Semaphore(BATCHES_UNDER_WAY)

    @property
    def status(self) -> Status:
        """ready, warming, down or mismatch; the reason; since when."""
        return self._connection.status

    @property
    def identity(self) -> EmbedderIdentity | None:
        """None until the embedder was reached and the index bound to it."""
        return self._connection.identity

    @property
    def max_tokens(self) -> int | None:
        """The embedder's window; None until it was reached."""
        return self._embedder.max_tokens if self.identity else None

    @property
    def mu(self) -> float | None:
        """The cosine of unrelated texts, -1 to 1; None until the embedder was ready for the first time."""
        return self._connection.mu

    async def start(self, budget_s: float) -> Status:
        """Begins to connect, in the background, and returns with an outcome, or after that long without one.

        A service starts with an embedder that is down; it may refuse to start with `Status.error`.
        """
        return await self._connection.start(budget_s)

    async def close(self) -> None:
        """Cancels and awaits all work, then closes the embedder; may be called twice."""
        await self._connection.close()

    def at_hand(self, text: str) -> Vector | None:
        """The vector of a passage where it was made lately."""
        known = self._cached_passage(text)
        if known is None or known.vector is None:
            return None
        self._metrics.cache_hit()
        return known.vector

    async def windows(self, text: str) -> list[str]:
        """A passage as pieces that each fit the embedder's window. Raises BackendUnavailable before it was reached."""
        if self.identity is None:
            raise BackendUnavailable(self.status.reason or "the embedder was not reached yet")
        [windows] = await self._connection.windows([text], "passage")
        return windows

    def forget_refusals(self, texts: Sequence[str]) -> None:
        """Lets these texts be tried again, although the embedder refused them before."""
        if self.identity is not None:
            for text in texts:
                self._refused.pop(vector_key(self.identity, "passage", text), None)

    def count_tokens(self, text: str) -> int:
        """The tokens of a text, without special ones; meaningful once the embedder was reached."""
        return self._embedder.count_tokens(text)

    async def embed_query(self, text: str, budget_s: float) -> Vector:
        """The vector of a question, which is not blank; beyond the window, the mean of its windows.

        Raises BackendUnavailable, whose `detail` is the reason, where there is none within the budget. The work goes on
        then, and its result is in the cache for the next who asks.
        """
        deadline = monotonic() + budget_s
        cached = self._cached_question(text)
        if cached is not None:
            return cached
        await self._connection.require_ready(budget_s, look_again=False)
        assert self.identity is not None
        key = vector_key(self.identity, "query", text)
        flight = self._questions.get(key)
        if flight is None:
            flight = await self._take_off(key, text, deadline - monotonic())
        else:
            self._metrics.cache_hit()
        await asyncio.wait({flight}, timeout=max(0.0, deadline - monotonic()))
        if not flight.done():
            self._connection.note_overrun()
            raise BackendUnavailable(self.status.reason or f"the embedder did not answer within {budget_s:g} s")
        if flight.cancelled():
            raise BackendUnavailable(_STOPPING)
        return flight.result()

    async def embed_passages(self, texts: Sequence[str], deadline_s: float | None = None) -> list[Embedded]:
        """What became of each text, in order; never raises for the embedder's sake.

        After `deadline_s` from now (None: no limit) the rest has no vector and says so; what was begun goes on, and its
        result is in the cache.
        """
        wish = Wish(None if deadline_s is None else monotonic() + deadline_s)
        try:
            await self._connection.require_ready(deadline_s, look_again=True)
        except BackendUnavailable as error:
            return [self._cached_passage(text) or Embedded(None, error.detail) for text in texts]
        assert self.identity is not None
        wanted = {vector_key(self.identity, "passage", text): text for text in texts}
        found: dict[str, Embedded] = {}
        try:
            while missing := {key: text for key, text in wanted.items() if key not in found}:
                found |= await self._embed_missing(missing, wish)
        finally:
            wish.dropped = True
        return [found[vector_key(self.identity, "passage", text)] for text in texts]

    # questions

    def _cached_question(self, text: str) -> Vector | None:
        if self.identity is None:
            return None
        vector = self._cache.get(vector_key(self.identity, "query", text))
        if vector is not None:
            self._metrics.cache_hit()
        return vector

    async def _take_off(self, key: str, text: str, within_s: float) -> asyncio.Task[Vector]:
        """A flight for the text as soon as there is a slot; the one that another caller began meanwhile, if any."""
        try:
            async with asyncio.timeout(within_s):
                await self._question_slots.acquire()
        except TimeoutError:
            self._connection.note_overrun()
            raise BackendUnavailable("the embedder is busy with other questions") from None
        if key in self._questions:
            self._question_slots.release()
            self._metrics.cache_hit()
            return self._questions[key]
        self._metrics.cache_miss()
        self._questions[key] = flight = self._connection.spawn(self._embed_question(key, text))
        flight.add_done_callback(lambda _: self._landed(key))
        return flight

    def _landed(self, key: str) -> None:
        del self._questions[key]
        self._question_slots.release()

    async def _embed_question(self, key: str, text: str) -> Vector:
        [windows] = await self._connection.windows([text], "query")
        vectors: list[Vector] = []
        for at in range(0, len(windows), _QUERY_WINDOWS_A_CALL):
            for result in await salvage(windows[at : at + _QUERY_WINDOWS_A_CALL], self._call, self._connection.alive):
                if isinstance(result, Refusal):
                    raise BackendUnavailable(f"the embedder refuses the question: {result.reason}")
                vectors += result
        vector = mean(vectors)
        self._cache.put(key, vector)
        return vector

    async def _call(self, texts: list[str]) -> list[Vector]:
        return await self._connection.call(texts, "query")

    # passages

    def _cached_passage(self, text: str) -> Embedded | None:
        if not text.strip():
            return Embedded(None, "a blank text has no vector", refused=True)
        if self.identity is None:
            return None
        key = vector_key(self.identity, "passage", text)
        vector = self._cache.get(key)
        return Embedded(vector) if vector is not None else self._refused.get(key)

    async def _embed_missing(self, missing: Mapping[str, str], wish: Wish) -> dict[str, Embedded]:
        """What is known, or becomes known in time. Leaves out what another caller gave up: it is free again."""
        found: dict[str, Embedded] = {}
        others: dict[str, asyncio.Future[Embedded]] = {}
        own: dict[str, str] = {}
        for key, text in missing.items():
            known = self._cached_passage(text)
            if known is not None:
                found[key] = known
                self._metrics.cache_hit()
            elif key in self._passages:
                others[key] = self._passages[key]
                self._metrics.cache_hit()
            else:
                own[key] = text
                self._metrics.cache_miss()
        futures = others | self._begin(own, wish)
        if futures:
            await asyncio.wait(futures.values(), timeout=wish.left_s())
        over = wish.over()
        for key, future in futures.items():
            if future.done() and not future.cancelled():
                found[key] = future.result()
            elif over or not future.done():
                found[key] = Embedded(None, "there was no time left to embed it")
        if over:
            self._connection.note_overrun()
        return found

    def _begin(self, own: Mapping[str, str], wish: Wish) -> dict[str, asyncio.Future[Embedded]]:
        if not own:
            return {}
        loop = asyncio.get_running_loop()
        futures = {key: loop.create_future() for key in own}
        self._passages |= futures
        self._connection.spawn(self._embed_own(own, futures, wish))
        return futures

    async def _embed_own(
        self, own: Mapping[str, str], futures: Mapping[str, asyncio.Future[Embedded]], wish: Wish
    ) -> None:
        def settle(key: str, embedded: Embedded) -> None:
            if embedded.vector is not None:
                self._cache.put(key, embedded.vector)
            elif embedded.refused:
                self._remember_refusal(key, embedded)
            self._passages.pop(key, None)
            futures[key].set_result(embedded)

        failure: str | None = None
        try:
            failure = await Passages(own, wish, self._connection, self._passage_slots, settle).run()
        except asyncio.CancelledError:
            failure = _STOPPING
            raise
        except Exception as error:
            _log.exception("embedding_failed")
            failure = f"embedding failed with a {type(error).__name__}"
        finally:
            for key, future in futures.items():
                if not future.done():
                    self._passages.pop(key, None)
                    if failure:
                        future.set_result(Embedded(None, failure))
                    else:
                        future.cancel()

    def _remember_refusal(self, key: str, embedded: Embedded) -> None:
        """So that the next run, with the same text, does not fail the same way again."""
        if len(self._refused) >= _REFUSALS_KEPT:
            self._refused.pop(next(iter(self._refused)))
        self._refused[key] = embedded
