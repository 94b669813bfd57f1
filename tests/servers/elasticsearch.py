"""Fixtures on a real Elasticsearch: the server that the environment names, else a container, else an assembled node.

A test that asks for one of them is skipped, loudly, where no server is to be had; with `--servers=require` it fails.
"""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import pytest

from tests.requirement import missing
from tests.servers.assembly import ServerUnavailableError, elasticsearch_version
from tests.servers.node import NODE_HEAP_MIB, ElasticsearchCluster, ElasticsearchNode
from tests.servers.rest import call

DOCKER_ANSWERS_WITHIN_S: Final = 3
Server = TypeVar("Server", ElasticsearchNode, ElasticsearchCluster)


@pytest.fixture(scope="session")
def elasticsearch_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """One server for the whole run. Tests share it, each under its own `index_prefix`."""
    named = os.environ.get("KNOWLEDGE_TEST_ELASTICSEARCH_URL")
    if named:
        try:
            call("GET", named, "/", timeout_s=10)
        except OSError as error:
            # never skipped: whoever names a server means it
            pytest.fail(f"KNOWLEDGE_TEST_ELASTICSEARCH_URL names a server that does not answer: {error}", pytrace=False)
        yield named.rstrip("/")
    elif _docker_answers():
        with _container() as url:
            yield url
    else:
        with _started(pytestconfig, ElasticsearchNode) as node:
            yield node.url


@pytest.fixture
def index_prefix(elasticsearch_url: str) -> Iterator[str]:
    """A prefix of this test's own; indices and templates that begin with it are removed afterwards."""
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    yield prefix
    remove_prefix(elasticsearch_url, prefix)


@pytest.fixture
def elasticsearch_node(pytestconfig: pytest.Config) -> Iterator[ElasticsearchNode]:
    """A node of the test's own, to stop, kill and start again (about 5 s)."""
    with _started(pytestconfig, lambda: ElasticsearchNode(short_lived=True)) as node:
        yield node


@pytest.fixture
def elasticsearch_cluster(pytestconfig: pytest.Config) -> Iterator[ElasticsearchCluster]:
    """Three nodes of the test's own, any of which it may kill (about 15 s)."""
    with _started(pytestconfig, ElasticsearchCluster) as cluster:
        yield cluster


def remove_prefix(url: str, prefix: str) -> None:
    """Deletes the indices and templates whose names begin so, each by its own name: servers refuse wildcards there."""
    for index in call("GET", url, f"/{prefix}*/_settings?expand_wildcards=all").body:
        call("DELETE", url, f"/{index}")
    # composable templates first: a component that one of them uses cannot be removed
    for kind in ("index_template", "component_template"):
        found = call("GET", url, f"/_{kind}/{prefix}*")
        for template in found.body[f"{kind}s"] if found.ok else ():
            call("DELETE", url, f"/_{kind}/{template['name']}")


@contextmanager
def _started(config: pytest.Config, make: Callable[[], Server]) -> Iterator[Server]:
    try:
        server = make()
    except ServerUnavailableError as error:
        missing(config, f"no Elasticsearch: {error}")
    with server:
        server.start()
        yield server


def _docker_answers() -> bool:
    try:
        asked = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            timeout=DOCKER_ANSWERS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.community.elasticsearch import ElasticSearchContainer

    container = ElasticSearchContainer(f"elasticsearch:{elasticsearch_version()}")
    container.with_env("discovery.type", "single-node").with_env(
        "ES_JAVA_OPTS", f"-Xms{NODE_HEAP_MIB}m -Xmx{NODE_HEAP_MIB}m"
    )
    with container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(container.port)}"
