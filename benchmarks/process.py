"""The service in a process of its own, as an operator starts it, and what it costs: memory and CPU time."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.wire import Wire
from tests.servers.rest import call

START_S: Final = 120
STOP_S: Final = 20
KNOWLEDGE_STORE: Final = (str(Path(sys.executable).with_name("knowledge-store")),)
_LISTENING: Final = b"listening on "


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A service that answers at `url`."""

    url: str
    pid: int

    def resident_mib(self) -> float:
        """Resident memory in MiB."""
        return psutil.Process(self.pid).memory_info().rss / 1024**2

    def connect(self) -> Wire:
        """A connection to the service, not yet open."""
        return Wire(self.url)


@asynccontextmanager
async def service(
    folder: Path, settings: Mapping[str, Any], *, command: Sequence[str] = KNOWLEDGE_STORE, profile: Path | None = None
) -> AsyncIterator[ServiceProcess]:
    """Starts `command` with these settings, on a free port, and waits until both legs are ready.

    Its log is in the folder. With `profile` it runs under cProfile and writes its statistics there when it stops.
    """
    configuration, log = folder / "knowledge.yaml", folder / "service.log"
    _write(configuration, {"http": {"port": 0}, **settings})
    profiled = (sys.executable, "-m", "cProfile", "-o", str(profile)) if profile else ()
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *profiled, *command, "--config", str(configuration), "serve", stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    try:
        url = await asyncio.wait_for(_address(process, log), START_S)
        await _until_ready(url, log)
        yield ServiceProcess(url, process.pid)
    finally:
        await _stop(process)


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _write(configuration: Path, settings: Mapping[str, Any]) -> None:
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text(json.dumps(settings), encoding="utf-8")


async def _address(process: asyncio.subprocess.Process, log: Path) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        if line.startswith(_LISTENING):
            return line.removeprefix(_LISTENING).decode().strip()
    raise RuntimeError(f"the service ended at its start:\n{_tail(log)}")


async def _until_ready(url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        answer = await asyncio.to_thread(call, "GET", url, "/ready")
        if answer.body["status"] == "ready":
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the service was not ready within {START_S} s:\n{_tail(log)}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.communicate(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-20:])
