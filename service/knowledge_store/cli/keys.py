"""`knowledge-store keys create`: a new key, shown once, and the line for the configuration."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from knowledge_store.api.auth import key_hash, new_key
from knowledge_store.cli.root import AsJson, app, output
from knowledge_store.settings import KeySettings, Role
from knowledge_store_sdk.errors import ConfigError
from knowledge_store_sdk.tags import is_tag

keys = typer.Typer(no_args_is_help=True, help="Keys of the service.")
app.add_typer(keys, name="keys")


@keys.command()
def create(
    role: Annotated[Role, typer.Option(help="What the key may do.")],
    source: Annotated[list[str] | None, typer.Option(help="A source that a writer may write.")] = None,
    name: Annotated[str | None, typer.Option(help="What the log calls it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once; the configuration holds only its hash."""
    sources = tuple(source or ())
    if role == "writer" and not sources:
        raise ConfigError("--source: a writer is bound to sources; name each that this key may write")
    if role != "writer" and sources:
        raise ConfigError(f"--source: only a writer is bound to sources, and this is a {role}")
    if wrong := [one for one in sources if not is_tag(one)]:
        raise ConfigError(f"--source: {wrong[0]!r} is no source name; it holds 1 to 128 of A-Z a-z 0-9 _ . : -")
    key = new_key()
    made = KeySettings(name=name or "-".join((role, *sources))[:128], role=role, hash=key_hash(key), sources=sources)
    entry = made.model_dump(exclude_defaults=True)
    if as_json:
        output.print_json(orjson.dumps({"key": key, "entry": entry}).decode())
        return
    line = ", ".join(f"{field}: {_yaml(value)}" for field, value in entry.items())
    output.print(
        f"key (shown once): {key}\n\nadd to knowledge.yaml:\n\nkeys:\n  - {{{line}}}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )


def _yaml(value: object) -> str:
    return f"[{', '.join(_yaml(one) for one in value)}]" if isinstance(value, tuple) else orjson.dumps(value).decode()
