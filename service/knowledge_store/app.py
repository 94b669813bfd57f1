"""The composition root: the only file that constructs things, all on one exit stack, which takes them down in reverse.

configuration -> backend -> embedder -> query path, ingest path -> background work -> routes -> a listening socket
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web
from pydantic import ValidationError

from knowledge_store.api import query, reads, status, writes
from knowledge_store.api.auth import Authenticator, is_loopback
from knowledge_store.api.openapi import openapi_document
from knowledge_store.api.operations import Operation, answer_every_error
from knowledge_store.api.services import SERVICES, Services
from knowledge_store.configuration import Configuration
from knowledge_store.embedding import Embedding
from knowledge_store.extract.budget import MIN_TOKENS, Budget
from knowledge_store.ingest.load import DEFAULT_TOKENS, MOST_TOKENS
from knowledge_store.ingest.maintenance import BACKFILL_S, Maintenance, every
from knowledge_store.ingest.replace import Loader, Replacer
from knowledge_store.ingest.write import Writer
from knowledge_store.metrics import EmbeddingReport, Metrics
from knowledge_store.plugins import BACKENDS, EMBEDDERS, find
from knowledge_store.query.cache import QueryCache, WriteEpoch
from knowledge_store.query.fusion import Scoring
from knowledge_store.query.path import QueryPath
from knowledge_store.settings import Settings
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, ModelMissing, PortTaken, WrongCredentials
from knowledge_store_sdk.protocols import Embedder, KnowledgeIndex

# Routes with fixed names come before `/knowledge/{id}`, which would take them for ids.
OPERATIONS: list[Operation] = sorted(
    [*query.OPERATIONS, *writes.OPERATIONS, *reads.OPERATIONS, *status.OPERATIONS],
    key=lambda one: one.pattern is not None,
)
_REOPEN_S: Final = 1.0
_LOAD_WAITS_S: Final = 30.0
_SPECIAL_TOKENS: Final = 2  # one at each end, in the encoders that are common
_MAX_LINE_BYTES: Final = 64 * 1024  # in a query string an id takes up to 24 KiB, a tag expression 48
_EMBEDDER_START_S: Final = 2.0  # an embedder that takes longer is used once it is there

log = structlog.get_logger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_index(configuration: Configuration) -> KnowledgeIndex:
    """The configured backend, not yet connected. Raises ConfigError."""
    settings = configuration.settings
    make = find(BACKENDS, settings.backend, f"{configuration.place('backend')}: backend")
    try:
        index: KnowledgeIndex = make(settings.backend_options())
    except ValidationError as error:
        raise configuration.error(error, (settings.backend,)) from None
    return index


def open_embedder(configuration: Configuration) -> Embedder:
    """The configured embedder, not yet loaded. Raises ConfigError."""
    settings = configuration.settings.embedder
    if settings.provider == "hashing" and not is_loopback(configuration.settings.http.host):
        raise ConfigError("embedder.provider: hashing knows no meaning and is for tests; it serves on loopback only")
    make = find(EMBEDDERS, settings.provider, f"{configuration.place('embedder', 'provider')}: embedder.provider")
    try:
        embedder: Embedder = make(settings.options)
    except ValidationError as error:
        raise configuration.error(error, ("embedder",)) from None
    return embedder


@asynccontextmanager
async def running(
    configuration: Configuration,
    *,
    embedder: Embedder | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> AsyncIterator[Services]:
    """Everything behind the routes, with its background work. Tests hand in an embedder and a clock of their own.

    Raises ConfigError where only a person can help. A backend or an embedder that is down does not stop the start:
    questions are answered with 503, or by keyword, until it is there.
    """
    settings = configuration.settings
    authenticator = Authenticator(settings.keys, settings.http.host)
    metrics = Metrics()
    # Loading a plugin reads files: off the event loop, which a test's other service may be using.
    index = await asyncio.to_thread(open_index, configuration)
    if embedder is None:
        embedder = await asyncio.to_thread(open_embedder, configuration)
    embedding = Embedding(
        embedder,
        on_identity=index.bind,
        load_state=index.state,
        save_state=index.set_state,
        metrics=EmbeddingReport(metrics, settings.embedder.provider),
    )
    epoch = WriteEpoch(index.epoch)
    stored = partial(_count_stored, metrics)
    queries = QueryPath(
        index,
        embedding,
        QueryCache(settings.cache.ttl_s, settings.cache.max_bytes),
        epoch,
        partial(_scoring, settings),
        budget_s=settings.embedder.query_timeout_s,
        window=settings.score.window,
        clock=clock,
    )
    deadline_s = settings.embedder.write_timeout_s
    writing = partial(Writer, index, embedding, clock=clock, changed=epoch.changed, stored=stored)
    replacing = partial(Replacer, index, embedding, clock=clock, changed=epoch.changed, stored=stored)
    maintenance = Maintenance(
        index,
        embedding,
        clock=clock,
        changed=epoch.changed,
        removed=metrics.cleanup_deleted.inc,
        deadline_s=deadline_s,
    )
    services = Services(
        http=settings.http,
        backend=settings.backend,
        provider=settings.embedder.provider,
        index=index,
        embedding=embedding,
        queries=queries,
        writer=writing(deadline_s=deadline_s),
        replacer=replacing(deadline_s=deadline_s),
        loader=Loader(index, replacing(deadline_s=None)),
        maintenance=maintenance,
        metrics=metrics,
        authenticator=authenticator,
        clock=clock,
        openapi=openapi_document(OPERATIONS),
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(index.close)
        stack.push_async_callback(embedding.close)
        opened = await _open(services)
        stack.push_async_callback(_cancelled, opened)
        epoch.start()
        stack.push_async_callback(epoch.stop)
        stack.push_async_callback(services.writes.close, settings.http.stop_timeout_s)
        for work, interval_s, name in (
            (maintenance.backfill, BACKFILL_S, "backfill"),
            (maintenance.clean_up, settings.cleanup_interval_s, "cleanup"),
        ):
            task = asyncio.create_task(_after(opened, every(interval_s, work, name)), name=name)
            stack.push_async_callback(_cancelled, task)
        yield services


@asynccontextmanager
async def listening(services: Services, host: str, port: int) -> AsyncIterator[str]:
    """The routes on a socket; yields the base address. On the way out requests under way may end."""
    runner = web.AppRunner(
        create_app(services),
        access_log=None,
        shutdown_timeout=services.http.stop_timeout_s,
        max_line_size=_MAX_LINE_BYTES,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise _cannot_listen(error, host, port) from None
        bound = runner.addresses[0]
        yield f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
    finally:
        await runner.cleanup()


def create_app(services: Services) -> web.Application:
    """The routes as an aiohttp application."""
    app = web.Application(middlewares=[answer_every_error], client_max_size=services.http.max_body_bytes)
    app[SERVICES] = services
    app.router.add_routes([operation.route() for operation in OPERATIONS])
    return app


async def load_budget(services: Services) -> Budget:
    """How large a chunk may be for the embedder of this service; waits for one that is still loading its model."""
    embedding = services.embedding
    deadline = asyncio.get_running_loop().time() + _LOAD_WAITS_S
    while embedding.identity is None and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 (a state, no event)
        await asyncio.sleep(0.1)
    if embedding.identity is None or embedding.max_tokens is None:
        return Budget(DEFAULT_TOKENS)
    taken = _SPECIAL_TOKENS + embedding.count_tokens(embedding.identity.passage_prefix)
    room = min(embedding.max_tokens - taken, MOST_TOKENS)
    return Budget(max(MIN_TOKENS, room), embedding.count_tokens, embedding.identity.key)


async def _open(services: Services) -> asyncio.Task[None]:
    """Opens the backend, then the embedder. Where the backend does not answer yet, this goes on in the background."""
    try:
        await services.index.open()
    except BackendUnavailable as error:
        log.warning("knowledge.backend.down", backend=services.backend, reason=error.detail)
        return asyncio.create_task(_open_later(services), name="open-backend")
    await _start_embedding(services)
    return asyncio.create_task(asyncio.sleep(0), name="open-backend")


async def _open_later(services: Services) -> None:
    while True:
        await asyncio.sleep(_REOPEN_S)
        with contextlib.suppress(BackendUnavailable):
            await services.index.open()
            break
    log.info("knowledge.backend.up", backend=services.backend)
    await _start_embedding(services)


async def _start_embedding(services: Services) -> None:
    status = await services.embedding.start(_EMBEDDER_START_S)
    if status.error is not None and not isinstance(status.error, ModelMissing | WrongCredentials):
        raise status.error
    services.opened = True


async def _after(opened: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    try:
        await asyncio.shield(opened)
    except BaseException:
        work.close()
        raise
    await work


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("knowledge.background.failed", task=task.get_name(), reason=str(error))


def _scoring(settings: Settings, mu: float) -> Scoring:
    score = settings.score
    return Scoring(score.keyword_weight, score.bm25_half, mu, score.rrf_k)


def _count_stored(metrics: Metrics, source: str, count: int) -> None:
    metrics.upserts.labels(source=source).inc(count)


def _cannot_listen(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(f"{host}:{port} is in use by another program: stop it, or choose another http.port")
    return ConfigError(f"http.host, http.port: cannot listen on {host}:{port}: {error.strerror}")
