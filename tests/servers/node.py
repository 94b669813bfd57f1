"""Starts and stops assembled Elasticsearch nodes, alone or as a cluster.

Nothing here picks a port: a node binds port 0 and reports what it got, so that runs side by side cannot collide. A node
outlives neither `close()` nor the process that started it (the launcher watches its owner and removes its own files).
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.servers.assembly import Assembly, assembled
from tests.servers.rest import call

START_TIMEOUT_S: Final = 240  # a node takes 6 s alone; three of them on two busy cores have taken 66 s
STOP_TIMEOUT_S: Final = 10
POLL_INTERVAL_S: Final = 0.1
NODE_HEAP_MIB: Final = 512
CLUSTER_HEAP_MIB: Final = 384

_SETTINGS: Final[Mapping[str, object]] = {
    "network.host": "127.0.0.1",
    "http.port": 0,
    "transport.port": 0,
    "node.portsfile": True,
    "cluster.routing.allocation.disk.threshold_enabled": False,  # a full disk of the developer is no test failure
    "action.destructive_requires_name": True,
}


class ElasticsearchNode:
    """One server process with its own home folder. After `stop` or `kill` it can `start` again, same port and data."""

    def __init__(
        self,
        name: str = "node-0",
        *,
        settings: Mapping[str, object] | None = None,
        heap_mib: int = NODE_HEAP_MIB,
        short_lived: bool = False,
    ) -> None:
        self.name = name
        self._assembly: Assembly = assembled()
        self._heap_mib = heap_mib
        self._short_lived = short_lived
        self._settings = {**_SETTINGS, "node.name": name, **(settings or {"discovery.type": "single-node"})}
        self._process: subprocess.Popen[bytes] | None = None
        self.home = Path(tempfile.mkdtemp(prefix="knowledge-store-node-")).resolve()
        for folder in ("config", "data", "logs", "plugins", "tmp", "snapshots"):
            (self.home / folder).mkdir()
        self._settings.setdefault("path.repo", str(self.home / "snapshots"))
        (self.home / "modules").symlink_to(self._assembly.folder / "modules")
        self.log = self.home / "node.log"

    @property
    def pid(self) -> int:
        assert self._process, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        return "http://" + self._bound("http")

    @property
    def transport_address(self) -> str:
        return self._bound("transport")

    def start(self) -> Self:
        """Starts the process and waits until it answers and can hold data."""
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Starts the process without waiting for it to be ready: the members of a cluster start side by side."""
        assert not self.is_running, f"{self.name} runs already"
        for kind in ("http", "transport"):
            file = self._ports_file(kind)
            if file.exists():
                self._settings[f"{kind}.port"] = self._bound(kind).rpartition(":")[2]
                file.unlink()
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in self._settings.items()]
        (self.home / "config" / "elasticsearch.yml").write_text("".join(lines), "utf-8")
        command = self._assembly.command(
            self.home, owner_pid=os.getpid(), heap_mib=self._heap_mib, short_lived=self._short_lived
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)

    def wait_until_ready(self, *, nodes: int = 1, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        self.wait_until_bound(deadline)
        while time.monotonic() < deadline:
            self._require_alive()
            try:
                health = call("GET", self.url, "/_cluster/health", timeout_s=5)
            except OSError:
                health = None
            if health and health.ok and health.body["status"] != "red" and health.body["number_of_nodes"] >= nodes:
                return
            time.sleep(POLL_INTERVAL_S)
        raise TimeoutError(f"{self.name} was not ready within {timeout_s:.0f} s:\n{self.log_tail()}")

    def wait_until_bound(self, deadline: float) -> None:
        while not all(self._ports_file(kind).exists() for kind in ("http", "transport")):
            self._require_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} bound no port in time:\n{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)

    def seed(self, addresses: Iterable[str]) -> None:
        """Names the members to look for; a running node reads the file again by itself."""
        file = self.home / "config" / "unicast_hosts.txt"
        staged = file.with_suffix(".new")
        staged.write_text("\n".join(addresses) + "\n", "utf-8")
        staged.replace(file)

    def stop(self) -> None:
        """As an operator would: SIGTERM, and SIGKILL where that is not heeded."""
        if self._process and self.is_running:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """As a crash would: nothing is flushed, nobody is told."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        self.kill()  # the data goes with it: there is nothing to flush
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _require_alive(self) -> None:
        if not self.is_running:
            raise RuntimeError(f"{self.name} ended at start:\n{self.log_tail()}")

    def _ports_file(self, kind: str) -> Path:
        return self.home / "logs" / f"{kind}.ports"

    def _bound(self, kind: str) -> str:
        return self._ports_file(kind).read_text("utf-8").split()[0]


class ElasticsearchCluster:
    """Members that find each other. `cluster.nodes[1].kill()` kills one, `cluster.master().kill()` the leading one."""

    def __init__(self, size: int = 3, *, heap_mib: int = CLUSTER_HEAP_MIB) -> None:
        names = [f"node-{number}" for number in range(size)]
        settings = {
            "cluster.initial_master_nodes": names,
            # a member learns its peers only after all have bound their ports, so it must not wait for them before that
            "discovery.seed_providers": "file",
            "discovery.initial_state_timeout": "0s",
            "discovery.find_peers_interval": "200ms",
            # a dead member is noticed by its closed connections; these are for one that merely hangs
            "cluster.fault_detection.leader_check.interval": "500ms",
            "cluster.fault_detection.follower_check.interval": "500ms",
        }
        with ExitStack() as stack:
            self.nodes = [
                stack.enter_context(ElasticsearchNode(name, heap_mib=heap_mib, short_lived=True, settings=settings))
                for name in names
            ]
            self._stack = stack.pop_all()

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def start(self) -> Self:
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_bound(deadline)
        addresses = [node.transport_address for node in self.nodes]
        for node in self.nodes:
            node.seed(addresses)
        for node in self.nodes:
            node.wait_until_ready(nodes=len(self.nodes))
        return self

    def master(self) -> ElasticsearchNode:
        """The member that leads now, as the living ones see it."""
        alive = next(node for node in self.nodes if node.is_running)
        state = call("GET", alive.url, "/_cluster/state/master_node,nodes").body
        name = state["nodes"][state["master_node"]]["name"]
        return next(node for node in self.nodes if node.name == name)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
