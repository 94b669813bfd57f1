"""The service as a process of its own, as an operator runs it: for signals, kills and blocking clients."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

_STARTS_WITHIN_S = 60


class Process:
    """`knowledge-store serve` on a free port. The log goes to a file that tests may read."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], *arguments: str) -> None:
        self._folder = folder
        self._config = folder / "service.yaml"
        whole = {"embedder": {"provider": "hashing"}, **settings}
        whole["http"] = {"port": 0, **whole.get("http", {})}
        self._config.write_text(yaml.safe_dump(json.loads(json.dumps(whole))))
        self._arguments = arguments
        self._log = folder / "service.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Returns once the service says where it listens."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
        with self._log.open("ab") as log:
            already = log.tell()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    "dev",
                    "-m",
                    "knowledge_store",
                    "--config",
                    str(self._config),
                    "serve",
                    *self._arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environ,
            )
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < deadline:
            said = re.search(r"listening on (\S+)", self._log.read_bytes()[already:].decode(errors="replace"))
            if said:
                self.url = said[1]
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the service did not start:\n{self.log}")

    def stop(self, number: int = signal.SIGTERM, within_s: float = 10) -> int:
        """Sends the signal; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(within_s)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def process(folder: Path, settings: Mapping[str, Any], *arguments: str) -> Iterator[Process]:
    """A started process, killed on the way out if it still runs."""
    one = Process(folder, settings, *arguments)
    try:
        one.start()
        yield one
    finally:
        one.close()
