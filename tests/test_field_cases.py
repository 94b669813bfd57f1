"""Every line of the field cases that this version speaks of is shown by a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.field_cases import LATER, TESTS
from tests.shared_data import REPOSITORY

CASES = ("1.1", "1.2", "1.3", "1.4", "5.1", "5.2", "7.1", "7.2", "9.1", "9.2")


def lines_under_right_result(text: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for case in CASES:
        section = re.search(rf"^### {re.escape(case)} .*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, case
        _, _, right = section[0].partition("**Right result**")
        found |= {(case, at) for at, _ in enumerate(re.findall(r"^- ", right, re.MULTILINE), 1)}
    return found


def test_every_line_of_the_cases_has_its_test(shared_data: Path) -> None:
    lines = lines_under_right_result((shared_data.parent / "field-cases.md").read_text())
    assert len(lines) > 30
    assert lines == set(TESTS) | set(LATER)
    assert not set(TESTS) & set(LATER)


def test_every_test_that_is_named_exists() -> None:
    named = {test for tests in TESTS.values() for test in tests}
    missing = [test for test in named if not _exists(test)]
    assert not missing


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = REPOSITORY / file
    if not path.is_file():
        return False
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, functions) and node.name == name for node in ast.walk(ast.parse(path.read_text())))
