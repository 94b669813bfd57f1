"""The service with the configured embedder's vectors kept on disk: `python -m benchmarks.serve --config FILE serve`.

Everything else is the service as it is; it takes the same arguments as `knowledge-store`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from benchmarks.vectors import CachedEmbedder, cache_folder
from knowledge_store.app import listening, open_embedder, running
from knowledge_store.configuration import read_configuration
from knowledge_store.logs import configure_logs


async def serve(configuration_file: Path) -> None:
    """Runs the service until SIGTERM."""
    configuration = read_configuration(configuration_file, {})
    configure_logs(configuration.settings.log)
    http = configuration.settings.http
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    embedder = CachedEmbedder(open_embedder(configuration), cache_folder())
    async with (
        running(configuration, embedder=embedder) as services,
        listening(services, http.host, http.port) as url,
    ):
        print(f"listening on {url}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("command", choices=["serve"])
    asyncio.run(serve(parser.parse_args().config))
