"""A client for tests of what uses one: no service, no network, the same methods, limits and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Self, Unpack
from uuid import uuid4

from knowledge_store_sdk._wire import encoded
from knowledge_store_sdk.cache import KnowledgeCache
from knowledge_store_sdk.client import ClientOptions, KnowledgeClient
from knowledge_store_sdk.limits import RetrievalLimits
from knowledge_store_sdk.models import KnowledgeDocument
from knowledge_store_sdk.testing._memory import MemoryStore


def _utc_now() -> datetime:
    return datetime.now(UTC)


class FakeKnowledgeClient(KnowledgeClient):
    """A KnowledgeClient whose store is a dict, to be given to code under test in place of the real one.

    Holds `documents` from the start. A hit's score is the share of the question's words that the document has, in every
    mode; what shares none is no hit. `now` is the clock that documents expire by. `for_analysis` reads no environment.
    """

    def __init__(
        self,
        documents: Iterable[KnowledgeDocument] = (),
        retrieval_limits: RetrievalLimits | Mapping[str, Any] | None = None,
        *,
        cache: KnowledgeCache | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        super().__init__("http://fake.invalid", retrieval_limits=retrieval_limits, cache=cache, retries=0)
        store = MemoryStore(now)
        for document in documents:
            store.keep(encoded(document))
        self._wire = store
        self._cache_scope = uuid4().hex

    @classmethod
    def for_analysis(
        cls,
        payload: object,
        *,
        environ: Mapping[str, str] | None = None,
        documents: Iterable[KnowledgeDocument] = (),
        **options: Unpack[ClientOptions],
    ) -> Self:
        """As the real one's, on a store of its own that holds `documents`; timeouts and retries have no effect."""
        client = cls(documents, options.get("retrieval_limits"), cache=options.get("cache"))
        client._take(payload)
        return client
