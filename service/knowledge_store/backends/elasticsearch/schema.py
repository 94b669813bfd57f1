"""The indices: what they are called, how they come to be, and how an older one is brought up to this version.

    server's version -> templates -> indices behind aliases -> their mapping's version -> new fields, where it is older

The templates are data files (`index_templates/`). Each has a `version`; it goes into the template and into the mapping
of every index made from it. What is newer than this code is never touched.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import orjson

import knowledge_store
from knowledge_store.backends.elasticsearch.config import ElasticsearchConfig
from knowledge_store.backends.elasticsearch.connection import Connection, encoded
from knowledge_store.backends.elasticsearch.errors import reason_of
from knowledge_store_sdk.errors import ConfigError, IdentityMismatch, WrongVersion
from knowledge_store_sdk.protocols import EmbedderIdentity

OLDEST: Final = (9, 2)  # the first that keeps vectors out of `_source`
KINDS: Final = ("documents", "parents", "state")
_FIRST: Final = "000001"


@dataclass(frozen=True, slots=True)
class Names:
    """The aliases that everything else reads and writes through."""

    documents: str
    parents: str
    state: str

    @classmethod
    def of(cls, prefix: str) -> Names:
        return cls(*(f"{prefix}-{kind}" for kind in KINDS))


async def install_templates(connection: Connection, config: ElasticsearchConfig) -> None:
    """Makes templates and indices what this version needs; what is right already is left alone.

    Several services may do so at once. Raises ConfigError with a remedy.
    """
    await check_server(connection)
    templates = await asyncio.to_thread(load_templates)
    installing = (_install(connection, config, kind, templates[kind]) for kind in KINDS)
    for error in await asyncio.gather(*installing, return_exceptions=True):
        if error is not None:
            raise error


async def check_server(connection: Connection) -> None:
    """Raises WrongVersion where another server answers than one that this service can use."""
    reply = await connection.request("GET", "/")
    number = str(reply.body.get("version", {}).get("number", "unknown"))
    parts = number.split(".")
    fits = all(part.isdigit() for part in parts[:2]) and len(parts) > 1
    if not fits or int(parts[0]) != OLDEST[0] or int(parts[1]) < OLDEST[1]:
        raise WrongVersion(
            f"elasticsearch.url: the server there is Elasticsearch {number}; this service needs "
            f"{OLDEST[0]}.{OLDEST[1]} or a later {OLDEST[0]}.x: upgrade the server, or name another one"
        )


def load_templates() -> dict[str, dict[str, Any]]:
    """The data files, by kind: from the installed package, or from the working copy that it is part of."""
    folder: Traversable = files(knowledge_store) / "_index_templates"
    if not folder.is_dir():
        folder = Path(knowledge_store.__file__).parents[2] / "index_templates"
    return {kind: orjson.loads((folder / f"{kind}.json").read_bytes()) for kind in KINDS}


def template_body(config: ElasticsearchConfig, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The data file as an index template of this configuration."""
    settings, mappings = dict(data["template"]["settings"]["index"]), dict(data["template"]["mappings"])
    if kind == "documents":
        settings["number_of_shards"] = config.shards
        search_text = {**mappings["properties"]["search_text"], "analyzer": config.analyzer}
        mappings["properties"] = {**mappings["properties"], "search_text": search_text}
    if config.replicas is None:
        settings["auto_expand_replicas"] = "0-1"
    else:
        settings["number_of_replicas"] = config.replicas
    meta = {**data["_meta"], "version": data["version"]}
    return {
        "index_patterns": [f"{config.index_prefix}-{kind}-*"],
        "priority": 200,
        "version": data["version"],
        "_meta": meta,
        "template": {"settings": {"index": settings}, "mappings": {**mappings, "_meta": {"version": data["version"]}}},
    }


async def _install(connection: Connection, config: ElasticsearchConfig, kind: str, data: dict[str, Any]) -> None:
    name = f"{config.index_prefix}-{kind}"
    body = template_body(config, kind, data)
    found = await connection.request("GET", f"/_index_template/{name}", expect=(404,))
    there = found.body["index_templates"][0]["index_template"] if found.status == 200 else None
    if there is not None:
        _refuse_newer(f"the index template {name}", there.get("version", 0), data["version"])
    if there is None or there.get("version", 0) < data["version"]:
        reply = await connection.request("PUT", f"/_index_template/{name}", encoded(body), send="change", expect=(400,))
        if reply.status == 400:
            reason = reason_of(reply.body["error"])
            raise ConfigError(f"elasticsearch: the index template {name} is refused by the server: {reason}")
    mapped = await connection.request("GET", f"/{name}/_mapping", expect=(404,))
    if mapped.status == 404:
        await _create(connection, name)
        mapped = await connection.request("GET", f"/{name}/_mapping")
    for index, one in mapped.body.items():
        await _upgrade(connection, config, index, one["mappings"], body["template"]["mappings"])


async def _create(connection: Connection, name: str) -> None:
    wanted = {"aliases": {name: {"is_write_index": True}}}
    reply = await connection.request("PUT", f"/{name}-{_FIRST}", encoded(wanted), send="change", expect=(400,))
    if reply.status == 400 and reply.body["error"]["type"] != "resource_already_exists_exception":
        raise ConfigError(f"elasticsearch: the index {name}-{_FIRST} cannot be made: {reason_of(reply.body['error'])}")


async def _upgrade(
    connection: Connection, config: ElasticsearchConfig, index: str, there: dict[str, Any], ours: dict[str, Any]
) -> None:
    version, wanted = there.get("_meta", {}).get("version", 0), ours["_meta"]["version"]
    _refuse_newer(f"the index {index}", version, wanted)
    analyzer = there["properties"].get("search_text", {}).get("analyzer")
    if "search_text" in ours["properties"] and analyzer != config.analyzer:
        raise ConfigError(
            f"elasticsearch.analyzer: {index} was made with {analyzer!r}, not {config.analyzer!r}; set that one, or "
            "give another elasticsearch.index_prefix and load again"
        )
    if version < wanted:
        added = {"properties": ours["properties"], "_meta": {**there.get("_meta", {}), **ours["_meta"]}}
        reply = await connection.request("PUT", f"/{index}/_mapping", encoded(added), send="change", expect=(400,))
        if reply.status == 400:
            raise ConfigError(f"elasticsearch: {index} cannot be upgraded: {reason_of(reply.body['error'])}")


def _refuse_newer(what: str, version: int, ours: int) -> None:
    if version > ours:
        raise WrongVersion(
            f"elasticsearch: {what} has version {version} and this service knows {ours}: it was made by a newer "
            "service; upgrade this one, or give another elasticsearch.index_prefix"
        )


async def add_vectors(connection: Connection, name: str, identity: EmbedderIdentity) -> None:
    """Adds the field for vectors of these dims; changes nothing where it is there. Raises IdentityMismatch."""
    mapping = {
        "properties": {
            "embedding": {
                "type": "dense_vector",
                "dims": identity.dims,
                "index": True,
                "similarity": "dot_product",
                "index_options": {"type": "int8_hnsw", "m": 16, "ef_construction": 100},
            }
        }
    }
    reply = await connection.request("PUT", f"/{name}/_mapping", encoded(mapping), send="change", expect=(400,))
    if reply.status == 400:
        raise IdentityMismatch(
            f"{name} cannot hold vectors of {identity}: {reason_of(reply.body['error'])}; give another "
            "elasticsearch.index_prefix, or the embedder that it was built with"
        )
