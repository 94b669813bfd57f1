"""What the client raises, as what the seam promises: one table, asked by the connection alone."""

from __future__ import annotations

from typing import Final

import elastic_transport
from elasticsearch import UnsupportedProductError

from knowledge_store_sdk.errors import (
    BackendUnavailable,
    ConfigError,
    InternalError,
    KnowledgeStoreError,
    WrongCredentials,
    WrongVersion,
)

RETRY_AFTER_S: Final = 1.0
BUSY: Final = frozenset({408, 429, 502, 503, 504})


def translated(error: Exception) -> KnowledgeStoreError:
    """The error of the seam that a foreign one stands for. The first line that fits counts."""
    if isinstance(error, KnowledgeStoreError):
        return error
    if isinstance(error, UnsupportedProductError):
        return WrongVersion("elasticsearch.url: what answers there is not Elasticsearch 9")
    if isinstance(error, elastic_transport.ApiError):
        return refused(error.meta.status, _reason(error))
    for kind, reason in _TRANSPORT:
        if isinstance(error, kind):
            return BackendUnavailable(f"Elasticsearch {reason}", retry_after_s=RETRY_AFTER_S)
    return InternalError(f"Elasticsearch could not be asked: {type(error).__name__}: {error}")


def refused(status: int, reason: str) -> KnowledgeStoreError:
    """The error that a status stands for, of a whole answer or of one part of it."""
    if status in BUSY:
        return BackendUnavailable(f"Elasticsearch cannot answer now ({status}: {reason})", retry_after_s=RETRY_AFTER_S)
    if status in (401, 403):
        return WrongCredentials(
            f"elasticsearch: the server refuses the credentials or what they may do ({status}: {reason}); "
            "set elasticsearch.api_key, or username and password, of a user who may manage and write these indices"
        )
    if status == 404:
        return BackendUnavailable(
            f"an index is missing in Elasticsearch ({reason}); `knowledge-store init` creates it",
            retry_after_s=RETRY_AFTER_S,
        )
    return InternalError(f"Elasticsearch refused a request ({status}: {reason})")


def unavailable_later(error: KnowledgeStoreError) -> KnowledgeStoreError:
    """After the start nobody can mend a configuration: what was one at the start is an outage then."""
    if isinstance(error, ConfigError):
        return BackendUnavailable(error.detail, retry_after_s=RETRY_AFTER_S)
    return error


_TRANSPORT: Final[tuple[tuple[type[Exception], str], ...]] = (
    (elastic_transport.ConnectionTimeout, "did not answer in time"),
    (elastic_transport.TlsError, "cannot be trusted: its certificate was not accepted; see elasticsearch.ca_certs"),
    (elastic_transport.ConnectionError, "cannot be reached"),
    (elastic_transport.SerializationError, "gave an answer that cannot be read"),
    (elastic_transport.TransportWarning, "warned of something that this version does not expect"),
    (elastic_transport.TransportError, "could not be asked"),
)


def _reason(error: elastic_transport.ApiError) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return reason_of(body["error"])
    return str(error.message)[:300]


def reason_of(error: dict[str, object]) -> str:
    """One line of what an `error` object says: its innermost cause, which is the one that tells."""
    cause: object = error
    while isinstance(cause, dict) and isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    if not isinstance(cause, dict):
        return str(error)[:300]
    return f"{cause.get('type')}: {cause.get('reason')}"[:300]
