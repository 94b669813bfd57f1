"""`knowledge-store search "text"`: a question from the terminal."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from knowledge_store.cli.connect import connected
from knowledge_store.cli.root import ApiKey, AsJson, Url, app, errors, output
from knowledge_store_sdk.models import Mode, Passage, Query, QueryResult

_SHOWN_CHARS = 240


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="The question, in plain words.")],
    tags: Annotated[str | None, typer.Option(help="A tag expression: a+b|c.")] = None,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many passages.")] = 5,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Leave out what scores less.")] = 0.0,
    mode: Annotated[Mode, typer.Option(help="Which legs search.")] = "hybrid",
    explain: Annotated[bool, typer.Option(help="Show what each leg found.")] = False,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Ask the store."""
    query = Query(text=text, tags=tags, top_k=top_k, min_score=min_score, mode=mode, explain=explain)
    result = asyncio.run(_ask(query, url, api_key))
    if as_json:
        output.print_json(result.model_dump_json(exclude_none=True))
        return
    for one in result.degraded:
        errors.print(f"without the {one.leg} leg: {one.reason}", highlight=False, markup=False)
    output.print(_table(result))


async def _ask(query: Query, url: str | None, api_key: str | None) -> QueryResult:
    async with connected(url, api_key) as client:
        return await client.query(query)


def _table(result: QueryResult) -> Table:
    table = Table(show_lines=True, expand=True, caption=f"{len(result.documents)} passages in {result.took_ms:.0f} ms")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("passage", overflow="fold", ratio=1)
    for one in result.documents:
        table.add_row("-" if one.score is None else f"{one.score:.2f}", _passage(one))
    return table


def _passage(one: Passage) -> Text:
    heading = " § ".join(part for part in (one.title, one.section) if part)
    text = Text()
    if heading:
        text.append(heading + "\n", style="bold")
    words = " ".join(one.content.split())
    text.append(words if len(words) <= _SHOWN_CHARS else words[: _SHOWN_CHARS - 1] + "…")
    text.append(f"\n{one.citation.uri}", style="dim")
    for leg, score in (one.explain or {}).items():
        text.append(f"\n{leg}: rank {score.rank}, raw {score.raw:.3f}, value {score.value:.3f}", style="dim")
    return text
