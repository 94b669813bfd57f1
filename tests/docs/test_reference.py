"""The reference pages hold everything that the code has, and nothing that it has not.

Where one fails, its message is the row that belongs into the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import knowledge_store_sdk
from knowledge_store.app import OPERATIONS
from knowledge_store.backends.elasticsearch import ElasticsearchConfig
from knowledge_store.backends.embedded import EmbeddedConfig
from knowledge_store.cli.exits import EXIT_CODES
from knowledge_store.embedders.hashing import HashingConfig
from knowledge_store.embedders.ollama import OllamaConfig
from knowledge_store.embedders.onnx import BundledConfig, OnnxConfig
from knowledge_store.embedders.openai import OpenAIConfig
from knowledge_store.metrics import Metrics
from knowledge_store.plugins import BACKENDS, EMBEDDERS
from knowledge_store.settings import Settings
from knowledge_store_sdk import KnowledgeClient, KnowledgeTag, errors
from tests.docs.documents import cells, files, page, rows, section

PARTS: Final[dict[str, type[BaseModel] | None]] = {
    "embedded": EmbeddedConfig,
    "elasticsearch": ElasticsearchConfig,
    "none": None,
    "bundled": BundledConfig,
    "onnx": OnnxConfig,
    "ollama": OllamaConfig,
    "openai": OpenAIConfig,
    "hashing": HashingConfig,
}
ROLES: Final = {"open": "anyone", "query": "reader, open by default"}
NO_SETTINGS: Final = {"KNOWLEDGE_URL", "KNOWLEDGE_API_KEY", "KNOWLEDGE_CONFIG", "KNOWLEDGE_PORT", "KNOWLEDGE_"}


def shown(field: FieldInfo) -> str:
    """A default as the page writes it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"`{', '.join(value) or '[]'}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else '`""`'


def setting_rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _section_of(field.annotation)
        if inner is not None:
            is_list = inner is not field.annotation
            yield from setting_rows(inner, f"{prefix}{name}{'[]' if is_list else ''}.")
        else:
            yield f"| `{prefix}{name}` | {shown(field)} | {field.description} |"


def _section_of(annotation: Any) -> type[BaseModel] | None:
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def known_settings() -> set[str]:
    """The path of every setting."""
    found = {cells(row)[0].strip("`") for row in setting_rows(Settings)}
    for name, model in PARTS.items():
        prefix = f"{name}." if name in Settings.model_fields else "embedder."
        found |= {cells(row)[0].strip("`") for row in setting_rows(model, prefix)} if model else set()
    return found


def test_the_configuration_page_has_each_general_setting_as_the_code_has_it() -> None:
    told = section(page("configuration.md"), "## General settings")
    assert rows(told)[1:] == list(setting_rows(Settings))


@pytest.mark.parametrize(("name", "model"), PARTS.items())
def test_the_configuration_page_has_each_setting_of_a_part(name: str, model: type[BaseModel] | None) -> None:
    told = section(page("configuration.md"), f"### `{name}`")
    prefix = f"{name}." if name in Settings.model_fields else "embedder."
    assert rows(told)[1:] == (list(setting_rows(model, prefix)) if model else [])


def test_each_installed_backend_and_embedder_has_its_heading() -> None:
    from importlib.metadata import entry_points

    ours = {
        one.name
        for group in (BACKENDS, EMBEDDERS)
        for one in entry_points(group=group)
        if one.value.startswith("knowledge_store.")
    }
    assert ours == PARTS.keys()


def test_every_setting_and_variable_that_a_page_names_exists() -> None:
    known = known_settings()
    sections = {path.partition(".")[0].removesuffix("[]") for path in known if "." in path}
    variables = {"KNOWLEDGE_" + path.partition("[]")[0].replace(".", "__").upper() for path in known}
    for file in files():
        text = file.read_text("utf-8")
        for path in re.findall(r"`([a-z_]+\.[a-z_]+)(?::[^`]*)?`", text):
            if path.partition(".")[0] in sections and not path.endswith((".py", ".md", ".json", ".txt")):
                assert path in known, f"{file.name}: {path}"
        for variable in re.findall(r"\bKNOWLEDGE_[A-Z0-9_]*", text):
            is_one = variable in variables | NO_SETTINGS or variable.startswith("KNOWLEDGE_TEST_")
            assert is_one, f"{file.name}: {variable}"


def test_the_http_page_has_each_route_with_its_role_and_no_other() -> None:
    told = [row for row in rows(page("http.md")) if cells(row)[0] in ("GET", "POST", "PUT", "DELETE", "PATCH")]
    made = [
        f"| {one.method} | `{one.path}` | {ROLES.get(one.access, one.access)} | {one.summary} |" for one in OPERATIONS
    ]
    assert sorted(told) == sorted(made)


def test_the_errors_page_has_each_code_with_its_status_and_class_and_no_other() -> None:
    told = [cells(row)[:3] for row in rows(page("errors.md")) if cells(row)[0].startswith("`")]
    made = [
        [f"`{one.code}`", str(one.status), f"`{one.__name__}`"]
        for one in errors.error_classes()
        if one.__module__ == errors.__name__
    ]
    assert sorted(told) == sorted(made)


def test_the_operations_page_has_each_metric_and_no_other() -> None:
    told = {cells(row)[0].strip("`") for row in rows(section(page("operations.md"), "## Metrics"))} - {"metric"}
    made = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in Metrics().registry.collect()
    }
    assert told == made


def test_the_command_line_page_has_each_exit_code_and_no_other() -> None:
    told = {cells(row)[0] for row in rows(section(page("command-line.md"), "## Exit codes"))} - {"code"}
    assert told == {str(code) for code in EXIT_CODES.values()} | {"0", "1", "130"}


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command with its options."""
    from knowledge_store.cli import doctor, init, keys, load, search, serve  # noqa: F401
    from knowledge_store.cli.root import app

    def walk(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
        for inner, one in getattr(command, "commands", {}).items():
            yield from walk(one, f"{name} {inner}".strip())
        if not hasattr(command, "commands"):
            options = [option for one in command.params for option in one.opts if option.startswith("--")]
            yield name, [option for option in options if option != "--help"]

    yield from walk(typer.main.get_command(app), "")


def test_the_command_line_page_has_each_command_with_each_option() -> None:
    text = page("command-line.md")
    headings = {re.sub(r" [A-Z]+$", "", name): name for name in re.findall(r"^## `([^`]*)`$", text, re.MULTILINE)}
    found = dict(commands())
    assert headings.keys() == found.keys()
    for name, options in found.items():
        told = section(text, f"## `{headings[name]}`")
        for option in options:
            assert f"`{option}" in told, f"{name} {option}"


def test_the_sdk_page_has_each_method_of_the_client() -> None:
    table = section(page("sdk.md"), "## The client")
    public = {name for name in vars(KnowledgeClient) if not name.startswith("_")}
    told = {name for row in rows(table) for name in re.findall(r"`(\w+)", cells(row)[0])}
    assert told == public - {"close", "for_analysis", "with_payload"}
    assert {"for_analysis", "with_payload"} <= set(re.findall(r"\.(\w+)\(", page("sdk.md")))


def test_the_tags_page_has_each_well_known_tag() -> None:
    told = section(page("tags.md"), "## Well-known tags")
    known = {value for name, value in vars(KnowledgeTag).items() if name.isupper()}
    assert set(re.findall(r"`([a-z_]+)`", told)) == known


def test_the_documents_page_has_each_field_of_a_document() -> None:
    told = {cells(row)[0].strip("`") for row in rows(page("documents.md"))} - {"field"}
    assert told == knowledge_store_sdk.KnowledgeDocument.model_fields.keys() - {"score"}
