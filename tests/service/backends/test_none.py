"""The backend `none` says to every request that no store is configured, and lets a service start."""

import inspect
from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_store.backends.none import open_backend
from knowledge_store_sdk.errors import BackendUnavailable
from knowledge_store_sdk.protocols import EmbedderIdentity, Filter, KnowledgeIndex, ParentWrite

QUIET = {"open", "close", "identity", "bind"}
ARGUMENTS: dict[str, Any] = {
    "filter": Filter(),
    "limit": 1,
    "parent": ParentWrite("p", "s", None, None, None, None, datetime(2026, 5, 1, tzinfo=UTC)),
    "vectors": {},
}
METHODS = [name for name, _ in inspect.getmembers(KnowledgeIndex, inspect.iscoroutinefunction)]


@pytest.mark.parametrize("method", sorted(set(METHODS) - QUIET))
async def test_what_would_read_or_write_is_unavailable_and_names_the_setting(method: str) -> None:
    call = getattr(open_backend({}), method)
    needed = [one for one in inspect.signature(call).parameters.values() if one.default is inspect.Parameter.empty]
    with pytest.raises(BackendUnavailable) as refused:
        await call(**{one.name: ARGUMENTS.get(one.name, "") for one in needed})
    assert "`backend` is none" in refused.value.detail


async def test_a_service_without_a_store_starts_and_stops() -> None:
    index = open_backend({})
    await index.open()
    await index.bind(EmbedderIdentity(model="m", dims=8))
    assert await index.identity() is None
    assert index.name == "none"
    await index.close()
    await index.close()
