"""How fast documents are written that need no new vectors, in turns with `helpers.async_bulk` and the same bodies.

    load -> record what the service writes -> take turns: bulk-upsert, async_bulk -> ratio of documents a second

Twice: by a service that made the vectors lately, and by one that was started since and finds them in the store. And
beside the client as it comes (json, vectors as lists) stands the fastest that it can be (orjson, vectors of numpy).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, Final

import numpy as np
import orjson
from elasticsearch.helpers import async_bulk

from benchmarks.process import ServiceProcess, service
from benchmarks.recorder import Exchange, recorder
from benchmarks.reference import Reference
from benchmarks.report import Figure, figures
from benchmarks.stage import Stage, load
from benchmarks.wire import request
from knowledge_store_sdk import KnowledgeDocument

REQUEST_DOCUMENTS: Final = 500  # as many as `async_bulk` puts into one request by itself


async def run(stage: Stage, *, documents: int, rounds: int) -> None:
    """Prints the table. Writes over the first documents of the store, as often as there are rounds."""
    written = stage.data.documents[:documents]
    sources = await _record(stage, written)
    twin, own = (replace(stage, prefix=f"{stage.prefix}-{name}") for name in ("twin", "written"))
    async with service(stage.folder / "twin", twin.settings()):
        index = f"{twin.prefix}-documents"  # its start made it, with the same mapping
    async with service(stage.folder / "writing", own.settings()) as subject:
        await load(subject, replace(stage.data, documents=list(written)))
        rows = await _turns("made lately", subject, stage.server.url, written, index, sources, rounds)
    async with service(stage.folder / "writing-again", own.settings()) as subject:
        rows += await _turns("found in the store", subject, stage.server.url, written, index, sources, rounds)
    figures(f"How fast: {documents:,} documents whose vectors are at hand, {REQUEST_DOCUMENTS} a request", rows)


async def _record(stage: Stage, documents: Sequence[KnowledgeDocument]) -> list[dict[str, Any]]:
    """The bodies that a service stores for these documents, vectors included, as numpy arrays."""
    async with (
        recorder(stage.server.url) as between,
        service(stage.folder / "writing-recorded", stage.settings(url=between.url)) as subject,
        subject.connect() as wire,
    ):
        between.taken()
        for whole in _requests(documents, 0):
            await wire.send(whole)
        noted = [one for requests in between.taken() for one in requests]
    return [source for one in noted if "/_bulk" in one.path for source in _sources(one)]


def _sources(exchange: Exchange) -> Iterator[dict[str, Any]]:
    for action, line in list(pairwise(exchange.body.splitlines()))[::2]:
        source = orjson.loads(line)
        source["embedding"] = np.array(source["embedding"], dtype=np.float32)
        yield {"_op_type": "index", "_id": next(iter(orjson.loads(action).values()))["_id"], "_source": source}


async def _turns(
    kind: str,
    subject: ServiceProcess,
    url: str,
    documents: Sequence[KnowledgeDocument],
    index: str,
    sources: Sequence[dict[str, Any]],
    rounds: int,
) -> list[Figure]:
    rates: dict[str, list[float]] = {"bulk-upsert": [], "async_bulk": [], "async_bulk, json": []}
    async with (
        Reference(url, fast=True) as fast,
        Reference(url, fast=False) as plain,
        subject.connect() as wire,
    ):
        for number in range(rounds + 1):  # the first one warms up
            requests = _requests(documents, number + 1)
            started = time.perf_counter()
            for whole in requests:
                answer = orjson.loads(await wire.send(whole))
                assert answer["failed"] == 0, answer
            rates["bulk-upsert"].append(len(documents) / (time.perf_counter() - started))
            for name, client, actions in (
                ("async_bulk", fast, sources),
                ("async_bulk, json", plain, [_listed(one) for one in sources]),
            ):
                started = time.perf_counter()
                await async_bulk(client.client, actions, index=index, chunk_size=REQUEST_DOCUMENTS)
                rates[name].append(len(documents) / (time.perf_counter() - started))
    rate = {name: median(values[1:]) for name, values in rates.items()}
    rows = [Figure(f"{kind}: {name}", value, "documents/s") for name, value in rate.items()]
    ratios = [
        Figure(f"{kind}: bulk-upsert / {name}", rate["bulk-upsert"] / rate[name], "x", at_least=0.8)
        for name in ("async_bulk", "async_bulk, json")
    ]
    return [*rows, *ratios]


def _listed(action: dict[str, Any]) -> dict[str, Any]:
    source = action["_source"]
    return {**action, "_source": {**source, "embedding": source["embedding"].tolist()}}


def _requests(documents: Sequence[KnowledgeDocument], number: int) -> list[bytes]:
    """Whole requests. Each round changes the metadata, so that there is something to write."""
    bodies = [
        {**one.model_dump(mode="json", exclude_none=True, exclude_defaults=True), "metadata": {"round": number}}
        for one in documents
    ]
    return [
        request("/api/v1/knowledge/bulk-upsert", {"documents": bodies[at : at + REQUEST_DOCUMENTS]})
        for at in range(0, len(bodies), REQUEST_DOCUMENTS)
    ]
