"""The pages as pages: links lead somewhere, structured examples can be read, decision records have their form."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from knowledge_store.app import open_embedder, open_index
from knowledge_store.configuration import read_configuration
from knowledge_store_sdk.errors import ConfigError
from tests.docs.documents import Block, anchors, blocks, files, links
from tests.shared_data import REPOSITORY

RECORDS = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
THIRD_PARTY = {"letters"}  # the example's own embedder, which is not installed
LANGUAGES = {"console", "python", "text", "yaml", "json", "toml"}


def name(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


@pytest.mark.parametrize("file", files(), ids=name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    for link in links(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        assert target.is_relative_to(REPOSITORY), link
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), link


@pytest.mark.parametrize("file", files(), ids=name)
def test_a_page_has_one_title_and_stays_readable(file: Path) -> None:
    text = re.sub(r"^```.*?^```", "", file.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 400


def test_every_block_has_a_language_that_tests_know() -> None:
    for file in files():
        for fence in re.findall(r"^```(.*)$", file.read_text("utf-8"), re.MULTILINE)[::2]:
            assert fence in LANGUAGES, f"{name(file)}: {fence!r}"


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_every_configuration_shown_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    file.write_text(block.text)
    configuration = read_configuration(file, {})
    open_index(configuration)
    if configuration.settings.embedder.provider in THIRD_PARTY:
        with pytest.raises(ConfigError, match=r"known here: .*bundled"):
            open_embedder(configuration)
    else:
        open_embedder(configuration)


def test_every_json_and_toml_shown_can_be_read() -> None:
    shown = blocks("json", "toml")
    for block in shown:
        (json.loads if block.language == "json" else tomllib.loads)(block.text)
    assert shown


@pytest.mark.parametrize("record", RECORDS, ids=name)
def test_a_decision_record_is_a_page_in_the_agreed_form(record: Path) -> None:
    text = record.read_text("utf-8")
    number = record.name[:4]
    assert text.startswith(f"# {number} ")
    assert "\n\nStatus: accepted. Date: 2026-11-30.\n" in text
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Question"
    assert headings[1].startswith("Options")
    assert headings[2] == "Choice"
    assert headings[-1] == "What would reverse it"
    assert len(text.splitlines()) <= 60


def test_decision_records_are_numbered_without_gaps() -> None:
    assert [record.name[:4] for record in RECORDS] == [f"{at:04}" for at in range(1, len(RECORDS) + 1)]


def test_the_architecture_names_files_that_exist() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`((?:api|query|ingest|extract|embedding|embedders|backends|cli)/[\w/]+(?:\.py|/))`", text))
    assert named
    for path in named:
        assert (REPOSITORY / "service" / "knowledge_store" / path).exists(), path
