"""The OpenAPI document holds: schemathesis finds no 5xx, no undocumented status, no answer of another shape.

Random ids meet no document, so half of the calls that take one are given an id that is there: each operation has to be
seen succeeding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from knowledge_store.app import OPERATIONS
from tests.service.process import process

load_all_checks()
_WANTED = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
_EXAMPLES = 60


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("openapi")
    with process(folder, {"backend": "embedded", "embedded": {"path": str(folder / "k.db")}}) as running:
        yield running.url
        assert "defect" not in running.log


def known_id(url: str, counter: Iterator[int]) -> str:
    """A document that is there, deposited for one call."""
    id = f"known-{next(counter)}"
    body = {"id": id, "content": "alpha", "tags": ["known", id], "source": "fuzz"}
    requests.post(f"{url}/api/v1/knowledge/upsert", json=body, timeout=10).raise_for_status()
    return id


def help_to_succeed(case: Any, url: str, counter: Iterator[int]) -> None:
    """What random values hit too seldom: an id that is there, a count that is right, a tag that is one."""
    name = case.operation.definition.raw["operationId"]
    if name in ("get_document", "delete_document"):
        case.path_parameters = {"id": known_id(url, counter)}
        case.query = {}
    elif name == "delete_documents":
        case.query = {"tags": known_id(url, counter), "expect": 1}
    elif name in ("sweep", "replace"):
        case.query = {**({"id": f"parent-{next(counter)}"} if name == "replace" else {})}
        if name == "sweep":
            case.path_parameters = {"source": "fuzz"}
            case.body = {"not_seen_since": "2020-01-01T00:00:00Z"}
        else:
            case.body = {"documents": [{"id": f"part-{next(counter)}", "content": "alpha"}]}
    elif name in ("list_documents", "list_parents", "stats"):
        case.query = {"source": "fuzz"} if name == "list_parents" else {"tags": "known"}
    elif name in ("query", "query_batch"):
        asked = {"text": "alpha", "tags": "known|other", "explain": True}
        case.body = asked if name == "query" else {"queries": [asked]}
    elif name == "upsert":
        case.query = {"refresh": "wait_for"}
        case.body = {"id": f"put-{next(counter)}", "content": "alpha"}
    elif name == "bulk_upsert":
        case.query = {}
        case.body = {"documents": [{"id": f"put-{next(counter)}", "content": "alpha"}, {"id": 7}]}


# schemathesis leaves out the route that it read the document from
@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS if operation.name != "openapi"])
def test_an_operation_keeps_to_its_description(url: str, name: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operation = next(
        found.ok() for found in schema.get_all_operations() if found.ok().definition.raw["operationId"] == name
    )
    checks = [CHECKS.get_one(wanted) for wanted in _WANTED]
    counter = itertools.count()
    seen: set[int] = set()
    right = operation.as_strategy()
    takes_something = any(one.name == name and (one.request or one.parameters) for one in OPERATIONS)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE) if takes_something else right

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=right | wrong, helped=st.booleans())
    def call(case: Any, helped: bool) -> None:
        if helped:
            help_to_succeed(case, url, counter)
        response = case.call(base_url=url, timeout=20)
        seen.add(response.status_code)
        case.validate_response(response, checks=checks)

    call()
    assert any(200 <= status < 300 for status in seen), seen


def test_every_operation_is_described_and_has_no_default_response(url: str) -> None:
    document = requests.get(f"{url}/openapi.json", timeout=10).json()
    assert document["openapi"].startswith("3.1")
    described = {
        (method.upper(), path): one for path, methods in document["paths"].items() for method, one in methods.items()
    }
    assert set(described) == {(operation.method, operation.path) for operation in OPERATIONS}
    assert all("default" not in one["responses"] for one in described.values())
