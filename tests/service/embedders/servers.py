"""Embedding servers for tests, which speak Ollama's and OpenAI's formats and keep count of what they are sent.

A token is a word here, unless a test says otherwise; vectors hash words, so that texts that share words are near.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from aiohttp import web

DIMS = 32
Long = Literal["refuse", "cut", "drop"]


def word_count(text: str) -> int:
    return len(text.split())


class EmbeddingServer:
    """What both formats share. Tests set the attributes while it runs.

    `long`: what it does with a text of more than `window` tokens. `before_answer` runs before each embedding.
    """

    def __init__(self) -> None:
        self.window = 256
        self.long: Long = "refuse"
        self.count: Callable[[str], int] = word_count
        self.batches: list[list[str]] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.before_answer: Callable[[], Awaitable[web.Response | None]] | None = None
        self.hung_up = 0
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    async def start(self) -> None:
        """Listens, on the port that it had before, if it had one."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(self.routes())
        # a handler learns that the client hung up as the real servers do
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def too_long(self) -> web.Response:
        raise NotImplementedError

    async def answer(self, request: web.Request, texts: list[str]) -> list[list[float]] | web.Response:
        self.requests.append(request.path)
        self.headers.append(dict(request.headers))
        self.batches.append(texts)
        if self.before_answer is not None:
            try:
                early = await self.before_answer()
            except asyncio.CancelledError:
                self.hung_up += 1
                raise
            if early is not None:
                return early
        if any(self.count(text) > self.window for text in texts):
            if self.long == "refuse":
                return self.too_long()
            if self.long == "drop":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """Counts the first words only, as many as the window holds."""
        values = [0.0] * DIMS
        for word in re.findall(r"\w+|[^\w\s]", text.lower())[: self.window]:
            checksum = zlib.crc32(word.encode())
            values[(checksum >> 1) % DIMS] += 1.0 if checksum & 1 else -1.0
        return values if any(values) else [1.0] * DIMS


class OllamaServer(EmbeddingServer):
    """The model is `words:latest`."""

    def __init__(self) -> None:
        super().__init__()
        self.model = "words:latest"
        self.digest = "d" * 64
        self.parameters = ""
        self.bodies: list[dict[str, Any]] = []
        self.dims_in_info = DIMS

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/api/show", self.show), web.get("/api/tags", self.tags), web.post("/api/embed", self.embed)]

    def missing(self, model: str) -> web.Response | None:
        if model in (self.model, self.model.removesuffix(":latest")):
            return None
        return web.json_response({"error": f"model '{model}' not found"}, status=404)

    async def show(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        body = await request.json()
        info: dict[str, Any] = {"general.architecture": "bert", "bert.context_length": self.window}
        if self.dims_in_info:
            info["bert.embedding_length"] = self.dims_in_info
        return self.missing(body["model"]) or web.json_response(
            {"model_info": info, "parameters": self.parameters, "capabilities": ["embedding"], "details": {}}
        )

    async def tags(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        models = [{"name": name, "model": name, "digest": digest} for name, digest in self.listed()]
        return web.json_response({"models": models})

    def listed(self) -> list[tuple[str, str]]:
        return [("other:latest", "0" * 64), (self.model, self.digest)]

    async def embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        missing = self.missing(body["model"])
        if missing is not None:
            self.requests.append(request.path)
            return missing
        answered = await self.answer(request, body["input"])
        if isinstance(answered, web.Response):
            return answered
        return web.json_response({"model": body["model"], "embeddings": answered, "total_duration": 1})

    def too_long(self) -> web.Response:
        return web.json_response({"error": "the input length exceeds the context length"}, status=400)


class OpenAIServer(EmbeddingServer):
    """The model is `words`, the key `secret`. Answers come in reverse, with their index, as the format allows."""

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/embeddings", self.embed)]

    async def embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.headers.get("Authorization") != "Bearer secret":
            return self.error(401, "Incorrect API key provided.")
        if body["model"] != "words":
            return self.error(404, f"The model `{body['model']}` does not exist.")
        answered = await self.answer(request, body["input"])
        if isinstance(answered, web.Response):
            return answered
        dims = body.get("dimensions", DIMS)
        data = [
            {"object": "embedding", "index": index, "embedding": values[:dims]} for index, values in enumerate(answered)
        ]
        return web.json_response({"object": "list", "model": "words", "data": data[::-1], "usage": {}})

    def error(self, status: int, message: str, **headers: str) -> web.Response:
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
        return web.json_response(
            body, status=status, headers={name.replace("_", "-"): headers[name] for name in headers}
        )

    def too_long(self) -> web.Response:
        return self.error(400, f"This model's maximum context length is {self.window} tokens.")
