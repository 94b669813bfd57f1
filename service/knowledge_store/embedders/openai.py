"""Embeds on any server that speaks OpenAI's `/embeddings`: OpenAI, vLLM, TEI, LM Studio, llama.cpp and others.

    prefix + text -> POST {url}/embeddings, 16 texts a call -> vectors, put in order by their `index`

Such servers do not tell a model's window, and some cut what is longer without a word: `max_tokens` says it, and no text
that may exceed it is sent.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from knowledge_store.embedders.remote import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, embed_in_batches, windows_within
from knowledge_store.embedders.windows import estimated_tokens
from knowledge_store_sdk.errors import (
    BackendUnavailable,
    ConfigError,
    InvalidField,
    KnowledgeStoreError,
    ModelMissing,
    WrongCredentials,
)
from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector


class OpenAIConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        default="https://api.openai.com/v1", pattern=r"^https?://\S+$", description="Where `/embeddings` is found."
    )
    model: str = Field(default="text-embedding-3-small", min_length=1, description="The model, as the server names it.")
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token; none for a local server.")
    dims: int | None = Field(
        default=None, ge=1, le=65_536, description="Shortens the vectors, where the model can do that (`dimensions`)."
    )
    max_tokens: int = Field(
        default=512, ge=16, le=1_048_576, description="The model's window; longer text is embedded in several parts."
    )
    query_prefix: str = Field(default="", description="What the model wants before a question.")
    passage_prefix: str = Field(default="", description="What the model wants before a passage.")


def open_embedder(settings: Mapping[str, Any]) -> OpenAIEmbedder:
    """The entry point `openai`."""
    return OpenAIEmbedder(OpenAIConfig(**settings))


class OpenAIEmbedder:
    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config
        self._prefixes: dict[Role, str] = {"query": config.query_prefix, "passage": config.passage_prefix}
        self._session: aiohttp.ClientSession | None = None
        self._identity: EmbedderIdentity | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        if self._identity is None:
            raise BackendUnavailable("the embedder is not open")
        return self._identity

    @property
    def max_tokens(self) -> int:
        return self._config.max_tokens

    async def open(self) -> None:
        self._session = self._session or self._new_session()
        try:
            [values] = await self._ask(["dimensions"])
        except InvalidField as error:
            raise ConfigError(f"embedder: {error.detail}") from None
        if self._config.dims not in (None, len(values)):
            raise ConfigError(
                f"embedder.dims: {self._config.dims} were asked for, and {self._config.model} gives {len(values)}"
            )
        self._identity = EmbedderIdentity(
            model=self._config.model,
            dims=len(values),
            pooling="server",
            query_prefix=self._config.query_prefix,
            passage_prefix=self._config.passage_prefix,
        )

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        return await embed_in_batches(
            texts, self._prefixes[role], max_tokens=self.max_tokens, dims=self.identity.dims, ask=self._ask
        )

    def windows(self, text: str, role: Role) -> list[str]:
        return windows_within(text, self._prefixes[role], self.max_tokens)

    def count_tokens(self, text: str) -> int:
        return estimated_tokens(text)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _new_session(self) -> aiohttp.ClientSession:
        key = self._config.api_key
        return aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S),
        )

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        if self._session is None:
            raise BackendUnavailable("the embedder is not open")
        url = f"{self._config.url.rstrip('/')}/embeddings"
        request: dict[str, Any] = {"model": self._config.model, "input": texts, "encoding_format": "float"}
        if self._config.dims is not None:
            request["dimensions"] = self._config.dims
        try:
            async with self._session.post(url, json=request) as response:
                body = await response.read()
                status, retry_after = response.status, response.headers.get("Retry-After")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise BackendUnavailable(f"{url} does not answer: {str(error) or type(error).__name__}") from error
        if status != 200:
            raise self._translate(url, status, body, retry_after)
        return await asyncio.to_thread(_vectors, url, body, len(texts))

    def _translate(self, url: str, status: int, body: bytes, retry_after: str | None) -> KnowledgeStoreError:
        message = _message(body)
        if status in (401, 403):
            return WrongCredentials(f"embedder.api_key: {url} refuses it ({status}): {message}")
        if status == 404:
            return ModelMissing(f"embedder.model: {url} has no model {self._config.model}: {message}")
        if status == 405:
            return ConfigError(f"embedder.url: {url} is not where embeddings are made")
        if status in (400, 413, 422):
            return InvalidField(f"{url} refuses the text: {message}")
        return BackendUnavailable(f"{url} answers {status}: {message}", retry_after_s=_seconds(retry_after))


def _vectors(url: str, body: bytes, texts: int) -> list[list[float]]:
    try:
        by_index = {int(one["index"]): one["embedding"] for one in json.loads(body)["data"]}
        return [by_index[index] for index in range(texts)]
    except (ValueError, TypeError, KeyError) as error:
        raise BackendUnavailable(f"{url} does not answer as OpenAI does: {error!r}") from error


def _message(body: bytes) -> str:
    """What the server says is wrong, in at most 200 characters."""
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:200]
    except (ValueError, TypeError, KeyError):
        return body.decode(errors="replace").strip()[:200]


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header, which holds seconds or a date, in seconds from now."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None
