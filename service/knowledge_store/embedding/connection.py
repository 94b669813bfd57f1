"""The embedder's state, and every call to it.

    open -> bind the index to its identity -> a first text, which loads a cold model -> mu -> ready
    ready -> a call fails, and so does a short text -> down -> the same line again, at growing distances -> ready
    ready -> nothing is answered within somebody's time -> warming -> the call ends -> ready, or down

A call is never cut off before `Patience.call_s`: a server that loads a model starts over for a client that hung up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, Literal, TypeVar

import structlog

from knowledge_store.embedding.baseline import SENTENCES, median_cosine
from knowledge_store.embedding.metrics import EmbeddingMetrics
from knowledge_store_sdk.errors import (
    BackendUnavailable,
    ConfigError,
    IdentityMismatch,
    InvalidField,
    KnowledgeStoreError,
)
from knowledge_store_sdk.protocols import Embedder, EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector

State = Literal["ready", "warming", "down", "mismatch"]
LoadState = Callable[[str], Awaitable[str | None]]
SaveState = Callable[[str, str], Awaitable[None]]
OnIdentity = Callable[[EmbedderIdentity], Awaitable[None]]

_PROBE: Final = "Is anybody there?"
_BATCH_TEXTS: Final = 16
_MU_AT_MOST: Final = 0.98
_INLINE_CHARS: Final = 1_000  # are tokenized in less time than the way to a thread and back takes
_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for what, in seconds. Tests scale it down; the relations matter."""

    call_s: float = 120.0
    """For one call: a cold model on a slow disk takes a minute."""
    first_retry_s: float = 0.5
    longest_retry_s: float = 30.0
    """Between two attempts to reach an embedder that is down; the distance doubles from the first to this."""
    mended_s: float = 30.0
    """Before a wrong configuration (a model that is missing) is looked at again, and only when vectors are wanted."""


@dataclass(frozen=True, slots=True)
class Status:
    """`reason` is a sentence, None when ready. `error` is there where only a person can mend it."""

    state: State
    reason: str | None
    since: datetime
    error: ConfigError | None = None


class Connection:
    """Owns the embedder. `on_identity` binds the index and raises IdentityMismatch where it is bound to another."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        on_identity: OnIdentity,
        load_state: LoadState,
        save_state: SaveState,
        metrics: EmbeddingMetrics,
        patience: Patience,
    ) -> None:
        self._embedder = embedder
        self._on_identity = on_identity
        self._load_state = load_state
        self._save_state = save_state
        self._metrics = metrics
        self._patience = patience
        self._status = Status("warming", "the embedder was not reached yet", datetime.now(UTC))
        self._moved = asyncio.Event()
        self._identity: EmbedderIdentity | None = None
        self._mu: float | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[bool] | None = None
        self._gave_up_at = 0.0
        self._under_way: dict[int, float] = {}
        self._calls = 0
        self._answered_at = 0.0
        self._logged: str | None = None

    @property
    def status(self) -> Status:
        return self._status

    @property
    def identity(self) -> EmbedderIdentity | None:
        """None until the embedder was reached and the index bound to it."""
        return self._identity

    @property
    def mu(self) -> float | None:
        """None until it was measured, or read: before the first `ready`."""
        return self._mu

    async def start(self, budget_s: float) -> Status:
        """Begins to connect and waits at most that long for an outcome; it goes on by itself in any case."""
        self._connect(after_s=0)
        await self._wait_while(lambda: self._status.state == "warming", budget_s)
        return self._status

    async def close(self) -> None:
        """Cancels what is under way, waits for its end, and closes the embedder; may be called twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._embedder.close()

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Runs it to its end, whoever stops waiting for it; `close` cancels and awaits it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def require_ready(self, within_s: float | None, *, look_again: bool) -> None:
        """Returns once the embedder is ready. Raises BackendUnavailable with the reason: at once where it is down,
        after `within_s` (None: no limit) where it warms up. A wrong configuration is looked at again, at long
        distances; `look_again` waits for what comes of it."""
        deadline = None if within_s is None else monotonic() + within_s
        gave_up = self._status.error is not None and self._status.state != "mismatch"
        if gave_up and monotonic() - self._gave_up_at >= self._patience.mended_s:
            looking = self._connect(after_s=0)
            if look_again:
                await self._wait_while(lambda: not looking.done() and self._status.error is not None, within_s)
        left_s = None if deadline is None else deadline - monotonic()
        await self._wait_while(lambda: self._status.state == "warming", left_s)
        if self._status.state != "ready":
            raise BackendUnavailable(self._status.reason or "the embedder is not ready")

    async def windows(self, texts: Sequence[str], role: Role) -> list[list[str]]:
        """`Embedder.windows` of each text, in a thread where it may take long."""
        if sum(map(len, texts)) <= _INLINE_CHARS:
            return [self._embedder.windows(text, role) for text in texts]
        return await asyncio.to_thread(lambda: [self._embedder.windows(text, role) for text in texts])

    async def call(self, texts: Sequence[str], role: Role) -> list[Vector]:
        """One call to the embedder, at most `Patience.call_s` long. Raises InvalidField and BackendUnavailable."""
        self._calls = number = self._calls + 1
        self._under_way[number] = started = monotonic()
        try:
            async with asyncio.timeout(self._patience.call_s):
                vectors = await self._embedder.embed(texts, role)
        except TimeoutError:
            self._become("down", f"the embedder did not answer for {self._patience.call_s:g} s")
            self._connect(after_s=self._patience.first_retry_s)
            raise BackendUnavailable(self._status.reason or "") from None
        except ConfigError as error:
            self._give_up(error)
            raise BackendUnavailable(error.detail) from error
        except (InvalidField, BackendUnavailable) as error:
            if isinstance(error, InvalidField) or error.retry_after_s is not None:
                self._answered()
            raise
        except Exception as error:
            raise BackendUnavailable(self._unexpected(error)) from error
        finally:
            del self._under_way[number]
            self._metrics.observe_embed(monotonic() - started)
        if len(vectors) != len(texts):
            raise BackendUnavailable(f"the embedder gave {len(vectors)} vectors for {len(texts)} texts")
        self._answered()
        return vectors

    async def alive(self, error: KnowledgeStoreError) -> bool:
        """Whether a short text is still embedded after this error; if not, the embedder counts as down from now on."""
        if self._status.state in ("down", "mismatch"):
            return False
        if isinstance(error, BackendUnavailable) and error.retry_after_s is not None:
            return False  # busy, not down: it said itself when to come back
        if self._probing is None or self._probing.done():
            self._probing = self.spawn(self._probe())
        return await asyncio.shield(self._probing)

    def note_overrun(self) -> None:
        """Somebody's time ran out. Where nothing was answered since the oldest call began, the embedder warms up."""
        oldest = min(self._under_way.values(), default=None)
        if self._status.state == "ready" and oldest is not None and self._answered_at < oldest:
            self._become("warming", "the embedder has not answered yet; it may be loading its model")

    # connecting

    def _connect(self, *, after_s: float) -> asyncio.Task[None]:
        if self._connecting is None or self._connecting.done():
            self._connecting = self.spawn(self._connect_until_settled(after_s))
        return self._connecting

    async def _connect_until_settled(self, after_s: float) -> None:
        distance_s = self._patience.first_retry_s
        while True:
            await asyncio.sleep(after_s)
            try:
                await self._connect_once()
            except ConfigError as error:
                return self._give_up(error)
            except KnowledgeStoreError as error:
                self._become("down", error.detail)
                asked_s = error.retry_after_s if isinstance(error, BackendUnavailable) else None
                after_s = max(distance_s, asked_s or 0)
            except TimeoutError:
                self._become("down", f"the embedder did not answer for {self._patience.call_s:g} s")
                after_s = distance_s
            except Exception as error:
                self._become("down", self._unexpected(error))
                after_s = distance_s
            else:
                return self._become("ready", None)
            distance_s = min(distance_s * 2, self._patience.longest_retry_s)

    async def _connect_once(self) -> None:
        # each time, because the server may have come back with other weights
        async with asyncio.timeout(self._patience.call_s):
            await self._embedder.open()
        identity = self._embedder.identity
        if identity != self._identity:
            await self._on_identity(identity)
            self._identity = identity
        if self._status.state == "warming":
            self._become("warming", "the embedder loads its model")
        await self.call([_PROBE], "query")
        if self._mu is None:
            self._mu = await self._baseline(identity)

    async def _baseline(self, identity: EmbedderIdentity) -> float:
        name = f"mu.{identity.key}"
        kept = await self._load_state(name)
        if kept is not None:
            return float(kept)
        mu = median_cosine(await self._embed_sentences("query"), await self._embed_sentences("passage"))
        if mu > _MU_AT_MOST:
            raise ConfigError(
                f"embedder: {identity} gives unrelated texts nearly the same vector (their cosine is {mu:.3f}): it is "
                "no embedding model, or it is used the wrong way"
            )
        await self._save_state(name, repr(mu))
        return mu

    async def _embed_sentences(self, role: Role) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(SENTENCES), _BATCH_TEXTS):
            vectors += await self.call(SENTENCES[start : start + _BATCH_TEXTS], role)
        return vectors

    async def _probe(self) -> bool:
        try:
            await self.call([_PROBE], "query")
        except KnowledgeStoreError as error:
            if self._status.error is None:
                self._become("down", error.detail)
                self._connect(after_s=self._patience.first_retry_s)
            return False
        return True

    # the state

    def _answered(self) -> None:
        self._answered_at = monotonic()
        if self._status.state == "warming" and self._mu is not None:
            self._become("ready", None)

    def _unexpected(self, error: Exception) -> str:
        """The reason that an error outside the seam's contract gives, logged with its place the first time."""
        reason = f"the embedder failed with a {type(error).__name__}"
        if reason != self._logged:
            self._logged = reason
            _log.error("embedder_failed", exc_info=error)
        return reason

    def _give_up(self, error: ConfigError) -> None:
        self._gave_up_at = monotonic()
        self._become("mismatch" if isinstance(error, IdentityMismatch) else "down", error.detail, error)

    def _become(self, state: State, reason: str | None, error: ConfigError | None = None) -> None:
        before = self._status
        same = (before.state, type(before.error)) == (state, type(error))
        self._status = Status(state, reason, before.since if same else datetime.now(UTC), error)
        self._moved.set()
        self._moved = asyncio.Event()
        if same:
            return
        if state == "ready":
            _log.info("embedder_ready", model=str(self._identity), mu=self._mu)
        else:
            _log.warning(f"embedder_{state}", reason=reason)

    async def _wait_while(self, condition: Callable[[], bool], within_s: float | None) -> None:
        """Returns when the condition no longer holds, or after that long."""
        try:
            async with asyncio.timeout(within_s):
                while condition():
                    await self._moved.wait()
        except TimeoutError:
            pass

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it; nobody did, and it is no news
