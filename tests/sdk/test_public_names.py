"""What the package offers by name, and what its import costs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import knowledge_store_sdk
from knowledge_store_sdk import errors, locators, models

# what no caller of the client meets by name: raised by sources and by a service's start, and bases
NOT_OFFERED = {"SkippableItem", "FatalSync", "MethodNotAllowed", "Record", "Answer"}


def test_every_name_offered_exists_and_the_list_is_sorted() -> None:
    offered = knowledge_store_sdk.__all__
    assert offered == sorted(set(offered))
    assert all(hasattr(knowledge_store_sdk, name) for name in offered)


def test_nothing_else_is_public() -> None:
    modules = {name for name in vars(knowledge_store_sdk) if f"knowledge_store_sdk.{name}" in sys.modules}
    public = {name for name in vars(knowledge_store_sdk) if not name.startswith("_")} - modules
    assert public == set(knowledge_store_sdk.__all__)


@pytest.mark.parametrize("module", [errors, models, locators])
def test_every_error_and_record_is_offered(module: ModuleType) -> None:
    classes = {
        name
        for name, one in vars(module).items()
        if isinstance(one, type)
        and one.__module__ == module.__name__
        and not name.startswith("_")
        and (one is errors.ConfigError or not issubclass(one, errors.ConfigError))
    }
    assert classes - NOT_OFFERED <= set(knowledge_store_sdk.__all__)


def test_importing_it_brings_nothing_heavy() -> None:
    code = """
import sys
before = set(sys.modules)
import knowledge_store_sdk, knowledge_store_sdk.testing
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pytest", "hypothesis", "numpy", "elasticsearch", "orjson", "structlog", "langchain_core", "mcp"}
    assert not heavy & set(out)
    assert {"aiohttp", "pydantic"} <= set(out)
