"""The Elasticsearch that the benchmarks run on: the one that the environment names, else a node of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.servers.node import ElasticsearchNode

HEAP_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Server:
    """`pid` is None where the server is not ours: then its CPU time is not known."""

    url: str
    pid: int | None


@contextmanager
def elasticsearch() -> Iterator[Server]:
    """A running server, gone afterwards with all its data where it is ours."""
    named = os.environ.get("KNOWLEDGE_TEST_ELASTICSEARCH_URL")
    if named:
        yield Server(named.rstrip("/"), None)
        return
    with ElasticsearchNode(heap_mib=HEAP_MIB) as node:
        node.start()
        yield Server(node.url, node.pid)
