"""Three nodes, one replica: one is killed with SIGKILL under a bulk of 20,000 documents and a stream of questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from knowledge_store_sdk import KnowledgeClient, KnowledgeDocument
from knowledge_store_sdk.errors import BackendUnavailable, Retryable
from tests.servers.node import ElasticsearchCluster
from tests.service.serving import serving

_DOCUMENTS = 20_000
_BATCH = 500
_SETTLED = 200  # documents that are there before, and that questions ask for
_OUTAGE_S = 15.0


@dataclass
class Asked:
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    unavailable_at: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.right + len(self.wrong) + len(self.unavailable_at)


async def ask_all_the_time(client: KnowledgeClient, asked: Asked, stop: asyncio.Event) -> None:
    n = 0
    while not stop.is_set():
        n = (n + 1) % _SETTLED
        try:
            found = await client.fetch(text=f"settled{n}", tags="settled", top_k=1, mode="keyword")
        except BackendUnavailable:
            asked.unavailable_at.append(time.monotonic())
        else:
            ids = [one.id for one in found]
            if ids == [f"settled-{n}"]:
                asked.right += 1
            else:
                asked.wrong.append(f"{n}: {ids}")
        await asyncio.sleep(0.05)


async def write_all(client: KnowledgeClient, acknowledged: set[str], failed: set[str]) -> None:
    for start in range(0, _DOCUMENTS, _BATCH):
        batch = [
            KnowledgeDocument(id=f"bulk-{n}", content=f"bulk document {n}", tags=["bulk"], source="bulk")
            for n in range(start, start + _BATCH)
        ]
        try:
            result = await client.bulk_upsert(batch)
        except Retryable:
            failed |= {document.id for document in batch}
            continue
        assert result.stored + result.failed == len(batch)
        acknowledged |= {one.id for one in result.results if one.state == "stored"}
        failed |= {one.id for one in result.results if one.state == "failed"}


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_killed_node_loses_no_acknowledged_document(
    elasticsearch_cluster: ElasticsearchCluster, record_property: Callable[[str, object], None]
) -> None:
    settings = {
        "backend": "elasticsearch",
        "elasticsearch": {"url": elasticsearch_cluster.urls, "index_prefix": "cluster", "replicas": 1},
        "embedder": {"provider": "hashing", "dims": 16},
        "cache": {"ttl_s": 0},
    }
    async with serving(settings) as service:
        settled = [
            KnowledgeDocument(id=f"settled-{n}", content=f"settled{n} text", tags=["settled"]) for n in range(_SETTLED)
        ]
        assert (await service.client.bulk_upsert(settled, refresh=True)).stored == _SETTLED
        acknowledged: set[str] = set()
        failed: set[str] = set()
        asked, stop = Asked(), asyncio.Event()
        async with KnowledgeClient(service.url, retries=0) as plain:
            asking = asyncio.create_task(ask_all_the_time(plain, asked, stop))
            writing = asyncio.create_task(write_all(service.client, acknowledged, failed))
            while len(acknowledged) < _DOCUMENTS // 5:
                assert not writing.done(), writing
                await asyncio.sleep(0.05)
            killed_at = time.monotonic()
            await asyncio.to_thread(elasticsearch_cluster.master().kill)
            await writing
            await asyncio.sleep(2)
            stop.set()
            await asking
        assert not acknowledged & failed
        assert len(acknowledged) + len(failed) == _DOCUMENTS
        record_property(
            "figures", f"{len(acknowledged)} acknowledged, {len(failed)} failed; {asked.right} of {asked.total} right"
        )

        await service.client.upsert(KnowledgeDocument(id="last", content="last"), refresh=True)
        stored = [document.id async for document in service.client.list(source="bulk")]
        assert len(stored) == len(set(stored)), "a document is doubled"
        assert acknowledged <= set(stored), f"{len(acknowledged - set(stored))} acknowledged documents are lost"
        assert not asked.wrong, asked.wrong[:5]
        assert asked.right >= 0.95 * asked.total
        assert all(killed_at <= at <= killed_at + _OUTAGE_S for at in asked.unavailable_at)
