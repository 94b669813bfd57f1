"""A stand-in for an Ollama server that knows the vectors of a synthetic store: an embedder that costs nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from aiohttp import web

from benchmarks.synthetic import DIMS, Synthetic

MODEL: Final = "prepared"
_WINDOW: Final = 8192


@asynccontextmanager
async def prepared_embedder(data: Synthetic) -> AsyncIterator[dict[str, Any]]:
    """Serves on a free port; yields the `embedder` section of a configuration that uses it."""

    async def show(request: web.Request) -> web.Response:
        info = {"general.architecture": "bert", "bert.context_length": _WINDOW, "bert.embedding_length": DIMS}
        return web.json_response({"model_info": info, "parameters": "", "capabilities": ["embedding"], "details": {}})

    async def tags(request: web.Request) -> web.Response:
        model = {"name": f"{MODEL}:latest", "model": f"{MODEL}:latest", "digest": "d" * 64}
        return web.json_response({"models": [model]})

    async def embed(request: web.Request) -> web.Response:
        texts = orjson.loads(await request.read())["input"]
        answer = {"model": MODEL, "embeddings": [data.vector(text) for text in texts]}
        body = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
        return web.Response(body=body, content_type="application/json")

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.add_routes([web.post("/api/show", show), web.get("/api/tags", tags), web.post("/api/embed", embed)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        yield {"provider": "ollama", "url": f"http://127.0.0.1:{port}", "model": MODEL, "write_timeout_s": 600}
    finally:
        await runner.cleanup()
