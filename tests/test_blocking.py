"""The fixture that watches the event loop sees the project's code, and only that."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError

import knowledge_store_sdk


def as_project_code(source: str) -> Callable[[], Any]:
    """A function `f` of this source that the fixture takes for a part of the SDK."""
    scope: dict[str, Any] = {"time": time, "asyncio": asyncio, "Path": Path}
    file = Path(next(iter(knowledge_store_sdk.__path__))) / "made_up.py"
    exec(compile(source, str(file), "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("call", ["time.sleep(0.001)", "Path('/dev/null').read_bytes()", "list(Path('.').iterdir())"])
async def test_project_code_that_blocks_is_caught(call: str) -> None:
    with pytest.raises(BlockingError):
        as_project_code(f"def f(): {call}")()


async def test_project_code_may_block_in_a_thread() -> None:
    await as_project_code("async def f(): await asyncio.to_thread(time.sleep, 0.001)")()


async def test_a_test_may_read_its_own_files() -> None:
    assert Path(__file__).read_text("utf-8")


@pytest.mark.allow_blocking  # on purpose: this is the mark's own test
async def test_a_marked_test_may_block() -> None:
    as_project_code("def f(): time.sleep(0.001)")()


def test_a_test_without_an_event_loop_may_block() -> None:
    as_project_code("def f(): time.sleep(0.001)")()
