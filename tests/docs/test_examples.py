"""The examples in the documents run, against one service with the project's own documentation, as `make run` starts it.

    console    each `$ ` line is run by a shell; what stands below it must be its output, `...` for anything
    python     each block is a script of its own; a `text` block below it must be its output

Loading the documentation with the bundled embedder takes a good part of a minute; it is what a newcomer waits for.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from knowledge_store_sdk import KnowledgeClient
from tests.docs.documents import Block, blocks
from tests.requirement import missing
from tests.shared_data import REPOSITORY

ADDRESS: Final = "http://127.0.0.1:8080"
LOADED_WITHIN_S: Final = 240
LOOKS_LIKE: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FRAGMENT: Final = "from my_package"  # goes with a package of the reader's own; tests/docs/test_extending.py runs these


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("newcomer")


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Without settings, with the commands of this environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return {**inherited, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}


@pytest.fixture(scope="module")
def address(pytestconfig: pytest.Config, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The base address of a service that holds the documentation, on a free port."""
    if not shutil.which("curl"):
        missing(pytestconfig, "no curl, which the examples use")
    log = folder / "service.log"
    command = ["knowledge-store", "serve", "--port", "0", "--load", str(REPOSITORY / "docs")]
    with log.open("w") as told, subprocess.Popen(command, cwd=folder, env=environment, stdout=told, stderr=told) as run:
        try:
            yield wait_for(r"listening on (\S+)", log, run, also=r"loaded \S+docs: .*")
        finally:
            run.terminate()
            assert run.wait(10) == 0, log.read_text()


def wait_for(pattern: str, log: Path, run: subprocess.Popen[bytes], also: str) -> str:
    deadline = time.monotonic() + LOADED_WITHIN_S
    while time.monotonic() < deadline:
        text = log.read_text()
        if (found := re.search(pattern, text)) and re.search(also, text):
            assert "wait for their vectors" not in text, text
            return found.group(1)
        assert run.poll() is None, text
        time.sleep(0.1)
    pytest.fail(f"not loaded within {LOADED_WITHIN_S} s: {log.read_text()}")


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and the output shown for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def is_run(command: str) -> bool:
    return program(command) != "make" and "# not run here" not in command


def program(command: str) -> str:
    return Path(shlex.split(command, comments=True)[0]).name


@pytest.mark.slow  # waits for the documentation to be loaded
@pytest.mark.parametrize(
    "block", [one for one in blocks("console") if any(is_run(it) for it, _ in commands(one))], ids=str
)
def test_a_console_example_gives_the_output_shown(
    block: Block, address: str, folder: Path, environment: dict[str, str]
) -> None:
    for command, wanted in commands(block):
        if not is_run(command):
            continue
        here = command.replace(ADDRESS, address).replace(".venv/bin/", "")
        done = subprocess.run(
            ["bash", "-c", here], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        told = done.stdout.strip() or "\n"
        assert not wanted.strip() or doctest.OutputChecker().check_output(wanted, told + "\n", LOOKS_LIKE), told


@pytest.mark.slow  # waits for the documentation to be loaded
@pytest.mark.parametrize("block", [one for one in blocks("python") if FRAGMENT not in one.text], ids=str)
def test_a_python_example_gives_the_output_shown(
    block: Block, address: str, folder: Path, environment: dict[str, str]
) -> None:
    script = block.text.replace(ADDRESS, address)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (block.output or "")


@pytest.mark.slow  # as above
async def test_the_question_of_the_readme_is_answered_by_the_page_about_it(address: str) -> None:
    async with KnowledgeClient(address) as client:
        (best,) = await client.fetch(tags="document", text="how is a hit scored?", top_k=1)
    assert best.citation.uri == "file:///score.md"
    assert best.scored_by == ("keyword", "vector")


def test_every_make_target_shown_exists() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    targets = [
        shlex.split(one, comments=True)[1]
        for block in blocks("console")
        for one, _ in commands(block)
        if program(one) == "make"
    ]
    assert {"run", "test", "lint", "install", "bench"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_examples_do_not_hide_commands_that_could_run() -> None:
    hidden = [one for block in blocks("console") for one, _ in commands(block) if not is_run(one)]
    kinds = {(program(one), "elasticsearch" if "# not run here" in one else "") for one in hidden}
    assert kinds == {("make", ""), ("knowledge-store", "elasticsearch")}
