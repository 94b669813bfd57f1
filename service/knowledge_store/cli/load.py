"""`knowledge-store load DIR`: a folder of Markdown and text, kept in step with the store."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import aiohttp
import orjson
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from knowledge_store.app import load_budget, running
from knowledge_store.cli.connect import local_configuration
from knowledge_store.cli.root import ApiKey, AsJson, Url, app, errors, output
from knowledge_store.extract.budget import MIN_TOKENS, Budget
from knowledge_store.ingest.load import DEFAULT_TOKENS, MOST_TOKENS, LoadOptions, LoadReport, load_folder
from knowledge_store_sdk import KnowledgeClient
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.tags import tag_from

_RESERVED_TOKENS = 16  # special tokens, and the prefix that some models take


@app.command()
def load(
    folder: Annotated[Path, typer.Argument(help="The folder.")],
    source: Annotated[
        str | None, typer.Option(help="The source to write under; the folder's name, if not given.")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", "--tags", help="A tag for every document.")] = None,
    force: Annotated[bool, typer.Option(help="Go on although the folder is empty and the store is not.")] = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Load a folder: new and changed files are stored, deleted ones go, the rest is left alone."""
    options = LoadOptions(
        source=source or tag_from(folder.resolve().name),
        tags=tuple(one for given in tags or [] for one in given.split(",")),
        force=force,
    )
    report = asyncio.run(_load(folder, options, url, api_key))
    if as_json:
        output.print_json(orjson.dumps(asdict(report)).decode())
    else:
        output.print(str(report), highlight=False, markup=False)
    if report.failed:
        raise typer.Exit(1)


async def _load(folder: Path, options: LoadOptions, url: str | None, api_key: str | None) -> LoadReport:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        bar = progress.add_task("loading", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        if url:
            options = replace(options, budget=await _budget_of(url))
            async with KnowledgeClient(url, api_key) as client:
                return await load_folder(folder, client, options, progress=show)
        async with running(local_configuration()) as services:
            options = replace(options, budget=await load_budget(services))
            return await load_folder(folder, services.loader, options, progress=show)


async def _budget_of(url: str) -> Budget:
    """The window of the service's embedder, by the estimate: its tokenizer is not at hand here."""
    address = url.rstrip("/").removesuffix("/knowledge").removesuffix("/api/v1")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(f"{address}/ready") as response,
        ):
            known = (await response.json())["embedder"].get("max_tokens")
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        raise BackendUnavailable(f"{address}: no knowledge-store answers there ({error})") from None
    return Budget(max(MIN_TOKENS, min(known - _RESERVED_TOKENS, MOST_TOKENS)) if known else DEFAULT_TOKENS)
