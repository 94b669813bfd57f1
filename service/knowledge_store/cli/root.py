"""What all commands share: the application, the two streams, the configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from knowledge_store import __version__
from knowledge_store.configuration import Configuration, read_configuration

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
output = Console()
errors = Console(stderr=True)
_chosen: dict[str, Path] = {}

Url = Annotated[
    str | None,
    typer.Option(envvar="KNOWLEDGE_URL", help="A running service to speak to; without one, the store is opened here."),
]
ApiKey = Annotated[str | None, typer.Option(envvar="KNOWLEDGE_API_KEY", help="The key for that service.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def _version(wanted: bool) -> None:
    if wanted:
        output.print(f"knowledge-store {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def root(
    config: Annotated[Path | None, typer.Option(help="The configuration file; else ./knowledge.yaml.")] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Keeps what a company has written, and answers which passages matter."""
    _chosen.clear()
    if config is not None:
        _chosen["config"] = config


def configuration() -> Configuration:
    """The configuration that this call is to use. Raises ConfigError."""
    return read_configuration(_chosen.get("config"), os.environ)
