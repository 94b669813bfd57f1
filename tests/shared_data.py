"""The fixture on the data sets and source fixtures that lie beside the repository, too large to be part of it."""

import os
from pathlib import Path

import pytest

from tests.requirement import missing

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared_data(pytestconfig: pytest.Config) -> Path:
    """The folder named by KNOWLEDGE_TEST_DATA, else `../shared/data`. Read only: copy what a test changes."""
    folder = Path(os.environ.get("KNOWLEDGE_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        missing(pytestconfig, f"no shared data in {folder}; KNOWLEDGE_TEST_DATA names another folder")
    return folder
