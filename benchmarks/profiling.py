"""Where the service spends its time while it answers: cProfile over the query path."""

from __future__ import annotations

import pstats
from io import StringIO
from typing import Final

from benchmarks.process import service
from benchmarks.report import console
from benchmarks.stage import Stage, ask_all

ROUNDS: Final = 3
_LINES: Final = 45


async def run(stage: Stage) -> None:
    """Prints the functions with the most time of their own and of all that they call, a question, start included."""
    file = stage.folder / "query.prof"
    requests = stage.requests()
    async with service(stage.folder / "profiled", stage.settings(), profile=file) as subject:
        for _ in range(ROUNDS):
            await ask_all(subject, requests)
    console.print(f"profile of {ROUNDS * len(requests):,} questions and one start")
    for order in ("tottime", "cumtime"):
        text = StringIO()
        pstats.Stats(str(file), stream=text).sort_stats(order).print_stats(_LINES)
        console.print(text.getvalue(), highlight=False, markup=False)
