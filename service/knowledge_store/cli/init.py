"""`knowledge-store init`: brings the backend's schema up to this version before the first start."""

from __future__ import annotations

import asyncio

from knowledge_store.app import open_index
from knowledge_store.cli.root import app, configuration, output


@app.command()
def init() -> None:
    """Install the backend's templates and indices; what is there already is left alone or upgraded."""
    asyncio.run(_init())


async def _init() -> None:
    given = configuration()
    index = await asyncio.to_thread(open_index, given)
    try:
        await index.open()
        identity = await index.identity()
    finally:
        await index.close()
    built = f"its vectors are made by {identity}" if identity else "no embedder is bound to it yet"
    output.print(f"{given.settings.backend}: ready; {built}", highlight=False, markup=False)
