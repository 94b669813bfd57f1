"""Embeds on an Ollama server.

    open    /api/show -> dims and window, /api/tags -> digest of the weights
    embed   prefix + text -> /api/embed, 16 texts a call -> vectors

The server is told the window (`num_ctx`) and told to refuse what exceeds it (`truncate: false`): left alone, it cuts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge_store.embedders.remote import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, embed_in_batches, windows_within
from knowledge_store.embedders.windows import estimated_tokens
from knowledge_store_sdk.errors import BackendUnavailable, InvalidField, ModelMissing, WrongCredentials
from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector

if TYPE_CHECKING:
    from ollama import AsyncClient, ShowResponse

_WINDOW_AT_MOST: Final = 8192  # the server reserves memory for the whole window; no document needs more
_WINDOW_UNKNOWN: Final = 2048  # what old servers, which do not report it, give every model


class OllamaConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(default="http://127.0.0.1:11434", pattern=r"^https?://\S+$", description="The server's address.")
    model: str = Field(default="bge-m3", min_length=1, description="The model, as `ollama list` names it.")
    query_prefix: str = Field(default="", description="What the model wants before a question.")
    passage_prefix: str = Field(default="", description="What the model wants before a passage.")


def open_embedder(settings: Mapping[str, Any]) -> OllamaEmbedder:
    """The entry point `ollama`."""
    return OllamaEmbedder(OllamaConfig(**settings))


class OllamaEmbedder:
    def __init__(self, config: OllamaConfig) -> None:
        self._config = config
        self._prefixes: dict[Role, str] = {"query": config.query_prefix, "passage": config.passage_prefix}
        self._client: AsyncClient | None = None
        self._identity: EmbedderIdentity | None = None
        self._max_tokens = 0

    @property
    def identity(self) -> EmbedderIdentity:
        if self._identity is None:
            raise BackendUnavailable("the embedder is not open")
        return self._identity

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    async def open(self) -> None:
        if self._client is None:
            self._client = await asyncio.to_thread(_client, self._config.url)
        client = self._client
        with self._translated():
            shown = await client.show(self._config.model)
            listed = await client.list()
        model = _full_name(self._config.model)
        digest = next((one.digest for one in listed.models if one.model and _full_name(one.model) == model), None)
        self._max_tokens = _window(shown)
        self._identity = EmbedderIdentity(
            model=self._config.model,
            dims=_model_info(shown, "embedding_length") or len((await self._ask(["dimensions"]))[0]),
            pooling="server",
            query_prefix=self._config.query_prefix,
            passage_prefix=self._config.passage_prefix,
            digest=digest,
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
        client, self._client = self._client, None
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]

    async def _ask(self, texts: list[str]) -> Sequence[Sequence[float]]:
        if self._client is None:
            raise BackendUnavailable("the embedder is not open")
        with self._translated():
            answer = await self._client.embed(
                self._config.model, texts, truncate=False, options={"num_ctx": self._max_tokens}
            )
        if len(answer.embeddings) != len(texts):
            raise BackendUnavailable(f"Ollama sent {len(answer.embeddings)} vectors for {len(texts)} texts")
        return answer.embeddings

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the ollama library raises, as the seam's errors."""
        from httpx import HTTPError
        from ollama import ResponseError

        try:
            yield
        except ResponseError as error:
            raise self._translate(error.status_code, error.error) from None
        except (HTTPError, OSError) as error:
            reason = str(error).partition("\n")[0] if isinstance(error, HTTPError) else "it cannot be reached"
            raise BackendUnavailable(
                f"Ollama at {self._config.url} does not answer: {reason or type(error).__name__}"
            ) from error
        except (ValidationError, ValueError) as error:
            raise BackendUnavailable(f"what answers at {self._config.url} is not Ollama") from error

    def _translate(self, status: int, message: str) -> Exception:
        model = self._config.model
        if status == 404:
            return ModelMissing(f"Ollama at {self._config.url} has no model {model}: run `ollama pull {model}`")
        if status in (401, 403):
            return WrongCredentials(f"embedder.url: {self._config.url} refuses access ({status})")
        if "does not support embed" in message:
            return ModelMissing(f"embedder.model: {model} is no embedding model: choose another, for example bge-m3")
        # some versions say so with a 500
        if status == 400 or "input length exceeds" in message:
            return InvalidField(f"Ollama refuses the text: {message}")
        return BackendUnavailable(f"Ollama at {self._config.url} answers {status}: {message[:200]}")


def _client(url: str) -> AsyncClient:
    """Called in a thread: the import takes a third of a second, and a client reads the system's certificates."""
    from httpx import Timeout  # what the ollama library is built on
    from ollama import AsyncClient

    return AsyncClient(url, timeout=Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S))


def _full_name(model: str) -> str:
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"


def _model_info(shown: ShowResponse, name: str) -> int | None:
    """A number of the model, whose key begins with its architecture: `bert.context_length`."""
    found = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(f".{name}"))
    return next((int(value) for value in found if isinstance(value, (int, float))), None)


def _window(shown: ShowResponse) -> int:
    """The window in tokens: what the model was trained for, less where its own parameters or memory say less."""
    parameter = re.search(r"^num_ctx\s+(\d+)", shown.parameters or "", re.MULTILINE)
    trained = _model_info(shown, "context_length")
    asked = int(parameter.group(1)) if parameter else None
    known = [window for window in (trained, asked) if window]
    return min([*known, _WINDOW_AT_MOST]) if known else _WINDOW_UNKNOWN
