"""`knowledge-store doctor`: what would keep the service from running, and what to do about it.

configuration -> address -> backend -> embedder -> do the two fit
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import asdict, dataclass

import aiohttp
import orjson
import typer
from rich.table import Table

from knowledge_store.app import open_embedder, open_index
from knowledge_store.cli.exits import EXIT_CODES, exit_code
from knowledge_store.cli.root import AsJson, app, configuration, output
from knowledge_store.configuration import Configuration
from knowledge_store.settings import HttpSettings
from knowledge_store_sdk.errors import BackendUnavailable, KnowledgeStoreError, PathNotUsable
from knowledge_store_sdk.protocols import EmbedderIdentity

_EMBEDDER_S = 15.0


@dataclass(frozen=True)
class Finding:
    """One check. `exit_code` 0: nothing is wrong."""

    check: str
    told: str
    exit_code: int = 0


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check everything that the service needs. The exit code is that of the first thing that is wrong."""
    findings = asyncio.run(examine(configuration()))
    if as_json:
        output.print_json(orjson.dumps([asdict(one) for one in findings]).decode())
    else:
        table = Table("", "check", "finding", show_header=False)
        for one in findings:
            table.add_row("ok" if one.exit_code == 0 else f"exit {one.exit_code}", one.check, one.told)
        output.print(table)
    raise typer.Exit(next((one.exit_code for one in findings if one.exit_code), 0))


async def examine(given: Configuration) -> list[Finding]:
    """Every check, in order; each is made whatever the one before found."""
    settings = given.settings
    findings = [Finding("configuration", str(given.file or "defaults and the environment"))]
    address, running = await _address(settings.http)
    backend, built_with = await _backend(given, running)
    embedder, identity = await _embedder(given)
    findings += [address, backend, embedder]
    if built_with and identity:
        findings.append(_fit(built_with, identity))
    return findings


async def _address(http: HttpSettings) -> tuple[Finding, bool]:
    where = f"{http.host}:{http.port}"
    if http.port == 0 or await asyncio.to_thread(_is_free, http):
        return Finding("address", f"{where} is free"), False
    if await _is_ours(http):
        return Finding("address", f"a knowledge-store is running on {where}"), True
    told = f"{where} is taken by another program: stop it, or set http.port"
    return Finding("address", told, EXIT_CODES["port_taken"]), False


def _is_free(http: HttpSettings) -> bool:
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((http.host, http.port))
        except OSError:
            return False
    return True


async def _is_ours(http: HttpSettings) -> bool:
    host = f"[{http.host}]" if ":" in http.host else http.host
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
            session.get(f"http://{host}:{http.port}/version") as response,
        ):
            return "knowledge-store" in await response.text()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False


async def _backend(given: Configuration, running: bool) -> tuple[Finding, EmbedderIdentity | None]:
    name = given.settings.backend
    try:
        index = await asyncio.to_thread(open_index, given)
        try:
            await index.open()
            await index.ping()
            identity = await index.identity()
        finally:
            await index.close()
    except BackendUnavailable as error:
        url = given.settings.backend_options().get("url", "its default address")
        told = f"{name}: {error.detail} at {url}: start it, or correct `{name}.url` in the configuration"
        return Finding("backend", told, exit_code(error)), None
    except PathNotUsable as error:
        if running:
            return Finding("backend", f"{name}: in use by the running service"), None
        return Finding("backend", f"{name}: {error.detail}", exit_code(error)), None
    except KnowledgeStoreError as error:
        return Finding("backend", f"{name}: {error.detail}", exit_code(error)), None
    return Finding("backend", f"{name}: ready; built with {identity or 'no embedder yet'}"), identity


async def _embedder(given: Configuration) -> tuple[Finding, EmbedderIdentity | None]:
    name = given.settings.embedder.provider
    try:
        embedder = await asyncio.to_thread(open_embedder, given)
        try:
            async with asyncio.timeout(_EMBEDDER_S):
                await embedder.open()
                await embedder.embed(["Is the embedder there?"], "query")
            identity = embedder.identity
        finally:
            await embedder.close()
    except BackendUnavailable as error:
        return Finding("embedder", f"{name}: {error.detail}", EXIT_CODES["embedder_down"]), None
    except TimeoutError:
        told = f"{name}: no answer within {_EMBEDDER_S:.0f} s; it may still be loading its model: try again"
        return Finding("embedder", told, EXIT_CODES["embedder_down"]), None
    except KnowledgeStoreError as error:
        return Finding("embedder", f"{name}: {error.detail}", exit_code(error)), None
    return Finding("embedder", f"{name}: {identity}"), identity


def _fit(built_with: EmbedderIdentity, identity: EmbedderIdentity) -> Finding:
    if built_with.same_as(identity):
        return Finding("identity", "the index was built with this embedder")
    told = (
        f"the index was built with {built_with}, and {identity} is configured: go back to the former, "
        "or build the index again with `knowledge-store reindex`"
    )
    return Finding("identity", told, EXIT_CODES["identity_mismatch"])
