"""The official client with nothing around it: sends again what a service was seen to send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson
from elasticsearch import AsyncElasticsearch, JsonSerializer, OrjsonSerializer

from benchmarks.recorder import Exchange


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as a caller of the official client writes it: values, not bytes."""

    path: str
    content_type: str
    body: Any

    @classmethod
    def of(cls, exchange: Exchange) -> Sent:
        lines = exchange.path.partition("?")[0].endswith(("_msearch", "_bulk"))
        if lines:
            return cls(exchange.path, "application/x-ndjson", [orjson.loads(one) for one in exchange.body.splitlines()])
        return cls(exchange.path, "application/json", orjson.loads(exchange.body))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a service asked for one question: stages one after the other, the requests of a stage together."""

    stages: Sequence[Sequence[Sent]]
    sent_bytes: int
    answer_bytes: int

    @classmethod
    def of(cls, stages: Sequence[Sequence[Exchange]]) -> Recorded:
        flat = [one for stage in stages for one in stage]
        return cls(
            [[Sent.of(one) for one in stage] for stage in stages],
            sum(len(one.body) for one in flat),
            sum(one.answer_bytes for one in flat),
        )


class Reference:
    """The client as it comes, or with the faster of its serializers."""

    def __init__(self, url: str, *, fast: bool, connections: int = 16) -> None:
        self._fast = fast
        serializer = OrjsonSerializer() if fast else JsonSerializer()
        self.client = AsyncElasticsearch(
            url, serializers={"application/json": serializer}, connections_per_node=connections
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()

    async def bare(self, recorded: Recorded) -> None:
        """The `_msearch` of both legs alone."""
        await self._send(recorded.stages[0][0])

    async def same(self, recorded: Recorded) -> None:
        """Everything that the service asked, in its order."""
        for stage in recorded.stages:
            if len(stage) == 1:
                await self._send(stage[0])
            else:
                await asyncio.gather(*(self._send(one) for one in stage))

    async def _send(self, sent: Sent) -> None:
        headers = {"accept": "application/json", "content-type": sent.content_type}
        body = sent.body
        if self._fast and isinstance(body, list):  # the client has no fast serializer for lines
            body = b"".join(orjson.dumps(line) + b"\n" for line in body)
        await self.client.perform_request("POST", sent.path, headers=headers, body=body)
