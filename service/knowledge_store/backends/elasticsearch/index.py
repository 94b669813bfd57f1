"""`ElasticsearchIndex`: the backend behind the seam. What each method does stands in the module that it names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import orjson

from knowledge_store.backends.elasticsearch import (
    fetching,
    finding,
    listing,
    purging,
    replacing,
    schema,
    writing,
)
from knowledge_store.backends.elasticsearch.config import ElasticsearchConfig
from knowledge_store.backends.elasticsearch.connection import Connection, Reply, Sending, encoded
from knowledge_store.backends.elasticsearch.errors import unavailable_later
from knowledge_store.backends.elasticsearch.names import short
from knowledge_store.backends.elasticsearch.records import EXISTING_FIELDS, existing_of, stored_of
from knowledge_store.backends.elasticsearch.refreshing import SharedRefresh
from knowledge_store_sdk.errors import BackendUnavailable, IdentityMismatch, KnowledgeStoreError
from knowledge_store_sdk.models import Parent, Stats
from knowledge_store_sdk.protocols import (
    Candidates,
    EmbedderIdentity,
    Existing,
    Fetched,
    FetchRequest,
    Filter,
    Outcome,
    Page,
    ParentWrite,
    Question,
    Replaced,
    Stored,
    Write,
)
from knowledge_store_sdk.vectors import Vector

_IDENTITY: Final = "identity"


class ElasticsearchIndex:
    """Documents in Elasticsearch. Any number of processes may use the same indices at the same time."""

    def __init__(self, config: ElasticsearchConfig) -> None:
        self._config = config
        self._names = schema.Names.of(config.index_prefix)
        self._connection = _Opened(config)
        self._refresh = SharedRefresh(self._refresh_now)

    @property
    def name(self) -> str:
        return "elasticsearch"

    async def open(self) -> None:
        """Connects, and installs or upgrades templates and indices; raises ConfigError with a remedy."""
        await self.install_templates()
        self._connection.opened = True

    async def install_templates(self) -> None:
        """What `open` does, for a command that does no more."""
        await self._connection.open()
        await schema.install_templates(self._connection, self._config)

    async def close(self) -> None:
        await self._refresh.close()
        await self._connection.close()

    async def ping(self) -> None:
        path = f"/{self._names.documents}/_search?size=0&terminate_after=1&allow_partial_search_results=false"
        finding.whole((await self._connection.request("GET", path)).body)

    # what is remembered beside the documents

    async def identity(self) -> EmbedderIdentity | None:
        kept = await self.state(_IDENTITY)
        return None if kept is None else EmbedderIdentity.model_validate_json(kept)

    async def bind(self, identity: EmbedderIdentity) -> None:
        """The first of several at once is the one that is bound."""
        path = f"/{self._names.state}/_create/{short(_IDENTITY)}?require_alias=true"
        record = {"name": _IDENTITY, "value": identity.model_dump_json()}
        bound = await self.identity()
        if bound is None:
            await self._connection.request("PUT", path, encoded(record), send="once", expect=(409,))
            bound = await self.identity()
        if bound is None or not bound.same_as(identity):
            raise IdentityMismatch(
                f"{self._names.documents} was built with {bound}, and the embedder is {identity}: their vectors cannot "
                "be compared. Configure the first one again, or run `knowledge-store reindex`"
            )
        await schema.add_vectors(self._connection, self._names.documents, bound)

    async def state(self, name: str) -> str | None:
        [hit] = await fetching.mget(self._connection, [{"_index": self._names.state, "_id": short(name)}])
        return str(hit["_source"]["value"]) if hit["found"] else None

    async def set_state(self, name: str, value: str) -> None:
        path = f"/{self._names.state}/_doc/{short(name)}?require_alias=true"
        await self._connection.request("PUT", path, encoded({"name": name, "value": value}), send="change")

    async def epoch(self) -> str:
        """A digest of every shard copy's last write and number of refreshes that made writes visible."""
        path = (
            f"/{self._names.documents},{self._names.parents}/_stats/refresh?level=shards"
            "&filter_path=indices.*.shards.*.seq_no.max_seq_no,indices.*.shards.*.refresh.external_total,"
            "indices.*.shards.*.routing.node"
        )
        reply = await self._connection.request("GET", path)
        return hashlib.sha256(orjson.dumps(reply.body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]

    # writing

    async def lookup(self, ids: Sequence[str]) -> dict[str, Existing]:
        found = await fetching.look_up(self._connection, self._names, ids, EXISTING_FIELDS)
        return {id: existing_of(hit) for id, hit in found.items()}

    async def upsert(self, writes: Sequence[Write], *, refresh: bool = False) -> list[Outcome]:
        outcomes = await writing.upsert(self._connection, self._names, writes)
        await self._visible(refresh and bool(writes))
        return outcomes

    async def set_vectors(self, vectors: Mapping[str, tuple[str, Vector]]) -> int:
        return await writing.set_vectors(self._connection, self._names, vectors)

    async def replace(
        self,
        parent: ParentWrite,
        writes: Sequence[Write],
        *,
        refresh: bool = False,
        seen_before: datetime | None = None,
    ) -> Replaced:
        """As the seam says, and as `replacing` draws it."""
        replaced = await replacing.replace(self._connection, self._names, self._refresh, parent, writes, seen_before)
        await self._visible(refresh)
        return replaced

    async def delete(
        self, ids: Sequence[str], *, versions: Mapping[str, str] | None = None, refresh: bool = False
    ) -> int:
        removed = await writing.delete(self._connection, self._names, ids, versions)
        await self._visible(refresh and removed > 0)
        return removed

    async def vectors(self, text_hashes: Sequence[str]) -> dict[str, Vector]:
        return await listing.vectors(self._connection, self._names, text_hashes)

    async def purge(self) -> int:
        await self._refresh()
        return await purging.purge(self._connection, self._names)

    # finding

    async def candidates(self, questions: Sequence[Question]) -> list[Candidates]:
        return await finding.candidates(self._connection, self._names.documents, questions)

    async def fetch(self, requests: Sequence[FetchRequest]) -> list[Fetched]:
        return await fetching.fetch(self._connection, self._names, requests)

    async def get(self, id: str) -> Stored | None:
        hit = (await fetching.look_up(self._connection, self._names, [id])).get(id)
        return None if hit is None else stored_of(hit)

    async def parent(self, id: str) -> Parent | None:
        return await listing.parent(self._connection, self._names, short(id))

    async def scan(self, filter: Filter, *, limit: int, cursor: str | None = None) -> Page:
        return await listing.scan(self._connection, self._names, filter, limit, cursor)

    async def count(self, filter: Filter) -> int:
        return await listing.count(self._connection, self._names, filter)

    async def stats(self, filter: Filter) -> Stats:
        return await listing.stats(self._connection, self._names, filter)

    async def parents(
        self, source: str, *, limit: int, cursor: str | None = None, seen_before: datetime | None = None
    ) -> tuple[list[Parent], str | None]:
        return await listing.parents(self._connection, self._names, source, limit, cursor, seen_before)

    # making writes searchable

    async def _visible(self, wanted: bool) -> None:
        if wanted:
            await self._refresh()

    async def _refresh_now(self) -> None:
        path = f"/{self._names.documents},{self._names.parents}/_refresh"
        shards = (await self._connection.request("POST", path, send="change")).body["_shards"]
        if shards["failed"]:
            raise BackendUnavailable("a part of the index could not be refreshed", retry_after_s=1)


class _Opened(Connection):
    """Once the index is open, what only a person could mend at the start is an outage."""

    opened = False

    async def request(
        self, method: str, path: str, body: bytes | None = None, *, send: Sending = "read", expect: tuple[int, ...] = ()
    ) -> Reply:
        try:
            return await super().request(method, path, body, send=send, expect=expect)
        except KnowledgeStoreError as error:
            raise unavailable_later(error) if self.opened else error from error
