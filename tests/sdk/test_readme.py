"""The code in the SDK's README does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import knowledge_store_sdk
from knowledge_store_sdk.testing import FakeKnowledgeClient

README = Path(__file__).parents[2] / "sdk" / "README.md"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code blocks define, run together, with one fake store in place of every client's service."""
    store = FakeKnowledgeClient()

    class Client(FakeKnowledgeClient):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()
            self._wire = store._wire

    monkeypatch.setattr(knowledge_store_sdk, "KnowledgeClient", Client)
    defined: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(compile(block, str(README), "exec"), defined)
    return defined


async def test_what_is_stored_is_found(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    await names["store"]("http://knowledge.example")
    await names["ask"]("http://knowledge.example")
    assert "Alice Meier" in capsys.readouterr().out
    assert len(await names["analyze"]({"body": "a mail from the CFO"})) == 1
    assert await names["analyze"]({"body": ""}) == []


async def test_the_example_of_a_test_passes(names: dict[str, Any]) -> None:
    await names["test_the_sender_is_known"]()
