"""The servers that the other tests stand on: what a node must answer, and that it goes when its owner does."""

import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from elasticsearch import AsyncElasticsearch
from elasticsearch.helpers import async_bulk

from tests.servers.elasticsearch import remove_prefix
from tests.servers.node import ElasticsearchCluster, ElasticsearchNode
from tests.servers.rest import call

MAPPINGS = {
    "dynamic": "strict",
    "properties": {
        "text": {"type": "text", "analyzer": "english"},
        "tag": {"type": "keyword"},
        "vector": {
            "type": "dense_vector",
            "dims": 3,
            "similarity": "cosine",
            "index_options": {"type": "int8_hnsw"},
        },
    },
}


def test_the_server_is_version_9_and_sends_the_product_header(elasticsearch_url: str) -> None:
    answer = call("GET", elasticsearch_url, "/")
    assert answer.headers["x-elastic-product"] == "Elasticsearch"
    assert answer.body["version"]["number"].startswith("9.")


async def test_the_official_client_finds_by_stem_and_by_filtered_vector(
    elasticsearch_url: str, index_prefix: str
) -> None:
    index = f"{index_prefix}-documents"
    rows = [
        ("a", "Restarting the brokers", "runbook", [1.0, 0.0, 0.0]),
        ("b", "Lunch menu", "office", [0.9, 0.1, 0.0]),
        ("c", "Disk is full", "runbook", [0.0, 1.0, 0.0]),
    ]
    async with AsyncElasticsearch(elasticsearch_url) as client:
        await client.indices.create(index=index, mappings=MAPPINGS)
        actions = [
            {"_index": index, "_id": key, "text": text, "tag": tag, "vector": vector} for key, text, tag, vector in rows
        ]
        assert await async_bulk(client, actions, refresh="wait_for") == (3, [])

        by_stem = await client.search(index=index, query={"match": {"text": "restart broker"}})
        assert [hit["_id"] for hit in by_stem["hits"]["hits"]] == ["a"]

        knn = {"field": "vector", "query_vector": [0.9, 0.1, 0.0], "k": 2, "num_candidates": 10}
        by_vector = await client.search(index=index, knn={**knn, "filter": {"term": {"tag": "runbook"}}})
        assert [hit["_id"] for hit in by_vector["hits"]["hits"]] == ["a", "c"]


@pytest.mark.parametrize(
    ("definition", "text", "tokens"),
    [
        ({"tokenizer": "whitespace", "filter": ["asciifolding", "kstem"]}, "cafés", ["cafe"]),
        (
            {"tokenizer": "whitespace", "filter": ["word_delimiter_graph", "flatten_graph", "lowercase"]},
            "maxPollRecords",
            ["max", "poll", "records"],
        ),
        (
            {"tokenizer": "standard", "filter": ["lowercase", {"type": "stemmer", "language": "possessive_english"}]},
            "Kafka's",
            ["kafka"],
        ),
        (
            {"tokenizer": "standard", "filter": ["keyword_repeat", "porter_stem", "remove_duplicates"]},
            "restarting now",
            ["restarting", "restart", "now"],
        ),
        ({"tokenizer": "standard", "filter": [{"type": "edge_ngram", "max_gram": 3}]}, "isr", ["i", "is", "isr"]),
    ],
)
def test_analysis_pieces_behave_as_in_the_distribution(
    elasticsearch_url: str, definition: dict[str, object], text: str, tokens: list[str]
) -> None:
    answer = call("POST", elasticsearch_url, "/_analyze", {**definition, "text": text})
    assert [token["token"] for token in answer.body["tokens"]] == tokens


def test_what_a_test_left_under_its_prefix_is_removed_and_nothing_else(elasticsearch_url: str) -> None:
    own, other = f"t-{uuid.uuid4().hex}", f"u-{uuid.uuid4().hex}"
    for prefix in (own, other):
        call("PUT", elasticsearch_url, f"/_component_template/{prefix}-base", {"template": {}})
        template = {"index_patterns": [f"{prefix}*"], "composed_of": [f"{prefix}-base"]}
        call("PUT", elasticsearch_url, f"/_index_template/{prefix}-documents", template)
        call("PUT", elasticsearch_url, f"/{prefix}-documents", {"settings": {"index.hidden": True}})

    remove_prefix(elasticsearch_url, own)
    assert left_under(elasticsearch_url, own) == ([], [], [])
    assert left_under(elasticsearch_url, other) == ([f"{other}-documents"], [f"{other}-documents"], [f"{other}-base"])
    remove_prefix(elasticsearch_url, other)


def left_under(url: str, prefix: str) -> tuple[list[str], list[str], list[str]]:
    indices = call("GET", url, f"/{prefix}*/_settings?expand_wildcards=all").body
    templates = call("GET", url, f"/_index_template/{prefix}*").body["index_templates"]
    components = call("GET", url, f"/_component_template/{prefix}*").body["component_templates"]
    return list(indices), [found["name"] for found in templates], [found["name"] for found in components]


def test_a_node_killed_and_started_again_has_its_port_and_its_data(elasticsearch_node: ElasticsearchNode) -> None:
    url = elasticsearch_node.url
    call("PUT", url, "/kept/_doc/1?refresh=true", {"n": 1})
    elasticsearch_node.kill()
    with pytest.raises(OSError):
        call("GET", url, "/")
    elasticsearch_node.start()
    assert elasticsearch_node.url == url
    assert call("GET", url, "/kept/_doc/1").body["_source"] == {"n": 1}


@pytest.mark.slow
def test_a_cluster_survives_the_death_of_its_master(elasticsearch_cluster: ElasticsearchCluster) -> None:
    settings = {"settings": {"number_of_shards": 1, "number_of_replicas": 1}}
    assert call("PUT", elasticsearch_cluster.urls[0], "/kept?wait_for_active_shards=all", settings).ok
    call("PUT", elasticsearch_cluster.urls[0], "/kept/_doc/1?refresh=true", {"n": 1})

    dead = elasticsearch_cluster.master()
    dead.kill()
    alive = next(node for node in elasticsearch_cluster.nodes if node.is_running)
    alive.wait_until_ready(nodes=2)
    health = call("GET", alive.url, "/_cluster/health?wait_for_nodes=2&wait_for_status=yellow&timeout=30s").body

    assert not health["timed_out"]
    assert elasticsearch_cluster.master() is not dead
    assert call("GET", alive.url, "/kept/_doc/1").body["_source"] == {"n": 1}


@pytest.mark.slow
def test_a_node_and_its_files_go_when_its_owner_is_killed() -> None:
    script = (
        "from tests.servers.node import ElasticsearchNode; import time\n"
        "node = ElasticsearchNode().start(); print(node.pid, node.home, flush=True); time.sleep(600)"
    )
    repository = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script], cwd=repository, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout
            pid, home = owner.stdout.readline().split()
        finally:
            owner.kill()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not psutil.pid_exists(int(pid))
    assert not Path(home).exists()
