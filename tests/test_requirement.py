"""What is missing skips a test and is said again at the end; where servers are required it fails."""

import pytest

pytest_plugins = ["pytester"]

NEEDS_A_SERVER = """
import pytest
from tests.requirement import missing

@pytest.fixture(scope="session")
def server(pytestconfig):
    missing(pytestconfig, "no server: install one")

def test_with_a_server(server): pass
def test_without(): pass
"""


@pytest.mark.parametrize(
    ("option", "outcomes"),
    [("auto", {"passed": 1, "skipped": 1}), ("require", {"passed": 1, "errors": 1})],
)
def test_a_missing_server(pytester: pytest.Pytester, option: str, outcomes: dict[str, int]) -> None:
    pytester.makepyfile(NEEDS_A_SERVER)
    result = pytester.runpytest("-p", "no:asyncio", "-p", "tests.requirement", f"--servers={option}")
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*no server: install one*"])
    assert ("NOT TESTED: no server: install one" in result.stdout.str()) is (option == "auto")
