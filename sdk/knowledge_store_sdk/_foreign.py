"""The one place where what goes wrong below the client becomes an error of the store."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import ValidationError

from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, InternalError, KnowledgeStoreError

# the first line that fits counts
_TABLE: Final[tuple[tuple[type[Exception], type[KnowledgeStoreError], str], ...]] = (
    (ssl.SSLError, ConfigError, "no trusted connection could be made"),
    (aiohttp.InvalidURL, ConfigError, "the address cannot be used"),
    (aiohttp.NonHttpUrlClientError, ConfigError, "the address cannot be used"),
    (TimeoutError, BackendUnavailable, "the service did not answer in time"),
    (aiohttp.ClientConnectorError, BackendUnavailable, "the service cannot be reached"),
    (aiohttp.ClientError, BackendUnavailable, "the connection broke off"),
    (HttpProcessingError, BackendUnavailable, "what came back is no HTTP"),
    (OSError, BackendUnavailable, "the connection broke off"),
    (ValidationError, InternalError, "what came back is no answer of this service; is the address right?"),
)
FOREIGN: Final = tuple(kind for kind, _, _ in _TABLE)


def own_error(error: Exception, place: str) -> KnowledgeStoreError:
    """The store's error for one of `FOREIGN`; `place` is the address that was asked."""
    own, says = next((own, says) for kind, own, says in _TABLE if isinstance(error, kind))
    told = "" if isinstance(error, ValidationError) or not str(error) else f" ({error})"
    return own(f"{place}: {says}{told}")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raises the store's errors in place of foreign ones, which stay their cause."""
    try:
        yield
    except FOREIGN as error:
        raise own_error(error, place) from error
