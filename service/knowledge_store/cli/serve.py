"""`knowledge-store serve`: the service, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import structlog
import typer

from knowledge_store.api.services import Services
from knowledge_store.app import listening, load_budget, running
from knowledge_store.cli.root import app, configuration, output
from knowledge_store.configuration import Configuration
from knowledge_store.ingest.load import LoadOptions, load_folder
from knowledge_store.logs import configure_logs
from knowledge_store_sdk.errors import KnowledgeStoreError
from knowledge_store_sdk.tags import tag_from

log = structlog.get_logger(__name__)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on.")] = None,
    load: Annotated[list[Path] | None, typer.Option(help="A folder to keep in the store, loaded at start.")] = None,
) -> None:
    """Run the service."""
    given = configuration()
    changed = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    http = given.settings.http.model_copy(update=changed)
    settings = given.settings.model_copy(update={"http": http})
    configure_logs(settings.log)
    asyncio.run(_serve(replace(given, settings=settings), load or []))


async def _serve(given: Configuration, folders: list[Path]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    http = given.settings.http
    async with running(given) as services, listening(services, http.host, http.port) as url:
        output.print(f"listening on {url}", highlight=False)
        loading = asyncio.create_task(_load(services, folders))
        output.print(_curl(url, bool(folders)), highlight=False, soft_wrap=True, markup=False)
        await stop.wait()
        log.info("knowledge.service.stopping")
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)


async def _load(services: Services, folders: list[Path]) -> None:
    for folder in folders:
        try:
            options = LoadOptions(
                source=tag_from(folder.resolve().name), tags=("document",), budget=await load_budget(services)
            )
            report = await load_folder(folder, services.loader, options)
            output.print(f"loaded {folder}: {report}", highlight=False, markup=False, soft_wrap=True)
        except KnowledgeStoreError as error:
            log.error("knowledge.load.failed", folder=str(folder), reason=error.detail)


def _curl(url: str, loaded: bool) -> str:
    question = "how is a hit scored?" if loaded else "your question"
    return (
        f"try: curl -s {url}/api/v1/knowledge/query -H 'Content-Type: application/json' "
        f"""-d '{{"text": "{question}", "top_k": 3}}'"""
    )
