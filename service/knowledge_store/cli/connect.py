"""How a command reaches the store: a running service by its address, else a service of its own on a free port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from knowledge_store.app import listening, running
from knowledge_store.cli.root import configuration
from knowledge_store.configuration import Configuration
from knowledge_store.logs import configure_logs
from knowledge_store_sdk import KnowledgeClient


@asynccontextmanager
async def connected(url: str | None, api_key: str | None) -> AsyncIterator[KnowledgeClient]:
    """A client of the service at `url`; without one, of the store that the configuration names, opened here."""
    if url:
        async with KnowledgeClient(url, api_key) as client:
            yield client
        return
    local = local_configuration()
    async with (
        running(local) as services,
        listening(services, "127.0.0.1", 0) as address,
        KnowledgeClient(address) as client,
    ):
        yield client


def local_configuration() -> Configuration:
    """The configuration for a store that only this process uses: its loopback port needs no key."""
    given = configuration()
    quiet = given.settings.log.model_copy(update={"level": "error"})
    configure_logs(quiet)
    http = given.settings.http.model_copy(update={"host": "127.0.0.1", "port": 0})
    return replace(given, settings=given.settings.model_copy(update={"http": http, "keys": (), "log": quiet}))
