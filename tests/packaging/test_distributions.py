"""The three distributions as they are installed elsewhere: built, and unpacked into an empty folder."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.shared_data import REPOSITORY

FOLDERS = ("sdk", "connectors", "service")
PACKAGES = ("knowledge_store_sdk", "knowledge_store_connectors", "knowledge_store")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    # no build isolation: the build backend is one of the development requirements, so no registry is asked
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    sources = [str(REPOSITORY / folder) for folder in FOLDERS]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*command, "--target", str(target), *sources], check=True, env=environment)
    return target


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_installed_and_says_that_it_is_typed(installed: Path, package: str) -> None:
    assert (installed / package / "__init__.py").is_file()
    assert (installed / package / "py.typed").is_file()


def test_an_installed_service_carries_the_index_templates(installed: Path) -> None:
    carried = installed / "knowledge_store" / "_index_templates"
    assert files_below(carried) == files_below(REPOSITORY / "index_templates") != set()


def test_the_three_carry_one_version_and_require_exactly_that_of_each_other() -> None:
    projects = {
        folder: tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text("utf-8")) for folder in FOLDERS
    }
    versions = {project["project"]["version"] for project in projects.values()}
    assert len(versions) == 1
    (version,) = versions
    assert f"knowledge-store-sdk=={version}" in projects["connectors"]["project"]["dependencies"]
    assert f"knowledge-store-sdk=={version}" in projects["service"]["project"]["dependencies"]
    assert f"knowledge-store-connectors=={version}" in projects["service"]["project"]["dependencies"]


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_the_sdk_alone_brings_pydantic_and_aiohttp_and_nothing_else() -> None:
    required = [one for one in metadata.requires("knowledge-store-sdk") or () if "extra ==" not in one]
    assert sorted(re.split(r"[<>=!~ ;\[]", one)[0] for one in required) == ["aiohttp", "pydantic"]
