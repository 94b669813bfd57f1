"""The wire: every request of the backend goes through `Connection.request`, JSON as bytes in, parsed JSON out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Literal, NamedTuple, TypeVar

import orjson
from elastic_transport import ApiError
from elastic_transport.client_utils import DEFAULT
from elasticsearch import AsyncElasticsearch, OrjsonSerializer

from knowledge_store.backends.elasticsearch.config import ElasticsearchConfig
from knowledge_store.backends.elasticsearch.errors import translated
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError

_JSON: Final = {"accept": "application/json", "content-type": "application/json"}
First = TypeVar("First")
Second = TypeVar("Second")
_CHANGE_TIMES: Final = 12  # a change may wait for a new primary to be chosen, a read asks another copy


class Reply(NamedTuple):
    """`body` is parsed JSON."""

    status: int
    body: Any


Sending = Literal["read", "change", "once"]


class Connection:
    """A client of the cluster. Raises what `errors.translated` says, and nothing else.

    A `read` that finds a node down is asked again at another one. So is a `change`, which comes to the same when it is
    made twice and may take longer. What is sent `once` is sent once: only its writer knows what a repetition would do.
    """

    def __init__(self, config: ElasticsearchConfig) -> None:
        self._config = config
        self._clients: dict[Sending, AsyncElasticsearch] = {}

    async def open(self) -> None:
        """Makes the client, and asks the server nothing; may be called twice. Raises ConfigError."""
        if self._clients:
            return
        try:
            client = await asyncio.to_thread(_client, self._config)
        except (OSError, ValueError) as error:
            raise ConfigError(f"elasticsearch: {error}; see elasticsearch.url and elasticsearch.ca_certs") from error
        patient_s = _CHANGE_TIMES * self._config.request_timeout_s
        self._clients = {
            "read": client,
            "change": client.options(request_timeout=patient_s),
            "once": client.options(request_timeout=patient_s, max_retries=0),
        }

    async def request(
        self, method: str, path: str, body: bytes | None = None, *, send: Sending = "read", expect: tuple[int, ...] = ()
    ) -> Reply:
        """Sends one request. A status of `expect` is returned; any other beyond 299 is raised."""
        if not self._clients:
            raise BackendUnavailable("the connection to Elasticsearch is not open")
        try:
            answer = await self._clients[send].perform_request(method, path, headers=_JSON, body=body)
            return Reply(answer.meta.status, answer.body)
        except ApiError as error:
            if error.meta.status in expect:
                return Reply(error.meta.status, error.body)
            raise translated(error) from error
        except Exception as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Closes the connections; may be called twice."""
        clients, self._clients = self._clients, {}
        if clients:
            await clients["read"].close()


async def together(first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]) -> tuple[First, Second]:
    """Both results. Where one fails the other is stopped, and nothing goes on behind the caller's back."""
    try:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(first), group.create_task(second)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return one.result(), two.result()


def encoded(value: Any) -> bytes:
    """The value as JSON; float32 arrays of numpy are numbers, not lists of Python's."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _client(config: ElasticsearchConfig) -> AsyncElasticsearch:
    basic_auth = None
    if config.username is not None and config.password is not None:
        basic_auth = (config.username, config.password.get_secret_value())
    return AsyncElasticsearch(
        list(config.url),
        api_key=config.api_key.get_secret_value() if config.api_key else None,
        basic_auth=basic_auth,
        ca_certs=config.ca_certs or DEFAULT,
        serializers={"application/json": OrjsonSerializer()},
        request_timeout=config.request_timeout_s,
        max_retries=max(2, len(config.url)),
        retry_on_timeout=False,
        retry_on_status=(502, 503, 504),
        retry_backoff_base=0.1,
        retry_backoff_cap=1.0,
        connections_per_node=64,
    )
