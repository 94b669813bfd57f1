"""Reads the configuration, and says of each error which key, on which line, and what would be right.

find the file -> read it with its line numbers -> lay the environment over it -> validate -> Settings, or ConfigError
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from knowledge_store.settings import Environment, Settings, known_keys
from knowledge_store_sdk.errors import ConfigError

DEFAULT_FILE = "knowledge.yaml"
_SECRETS = frozenset({"hash", "password", "api_key"})
_Path = tuple[str, ...]


@dataclass(frozen=True)
class Configuration:
    """The settings, and where each came from, for the errors of the parts that validate their own section."""

    settings: Settings
    file: Path | None = None
    lines: Mapping[_Path, int] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def place(self, *path: str) -> str:
        """Where a key was given: a file and its line, a variable, or neither."""
        return _place(path, self.file, self.lines, self.environ)

    def error(self, error: ValidationError, below: _Path) -> ConfigError:
        """The errors of a section as one ConfigError."""
        return ConfigError(_sentences(error, below, self.file, self.lines, self.environ))


def read_configuration(file: str | Path | None, environ: Mapping[str, str]) -> Configuration:
    """The configuration from `file`, else KNOWLEDGE_CONFIG, else ./knowledge.yaml where there is one.

    Raises ConfigError, whose text has one line for each wrong key.
    """
    path = _find(file, environ)
    values, lines = _read(path) if path else ({}, {})
    try:
        overlaid = _overlay(values, Environment(environ)())
        settings = Settings(**overlaid)
    except ValidationError as error:
        raise ConfigError(_sentences(error, (), path, lines, environ)) from None
    except SettingsError as error:
        raise ConfigError(f"the environment: {error}; a list or an object is written as JSON") from None
    return Configuration(settings, path, lines, environ)


def _find(file: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = file or environ.get("KNOWLEDGE_CONFIG")
    if named:
        path = Path(named)
        if not path.is_file():
            raise ConfigError(f"{path}: there is no such configuration file; see --config and KNOWLEDGE_CONFIG")
        return path
    path = Path(DEFAULT_FILE)
    return path if path.is_file() else None


def _read(path: Path) -> tuple[dict[str, Any], dict[_Path, int]]:
    lines: dict[_Path, int] = {}
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not readable as YAML: {getattr(error, 'problem', None) or error}") from None
    if values is None:
        return {}, lines
    if not isinstance(values, dict):
        raise ConfigError(f"{path}:1: the file must hold `key: value` pairs, not a {type(values).__name__}")
    _note_lines(root, (), lines)
    return values, lines


def _note_lines(node: yaml.Node | None, path: _Path, lines: dict[_Path, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _note_lines(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*path, str(index))] = value.start_mark.line + 1
            _note_lines(value, (*path, str(index)), lines)


def _overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _sentences(
    error: ValidationError, below: _Path, file: Path | None, lines: Mapping[_Path, int], environ: Mapping[str, str]
) -> str:
    return "\n".join(_sentence(one, below, file, lines, environ) for one in error.errors(include_url=False))


def _sentence(
    error: Any, below: _Path, file: Path | None, lines: Mapping[_Path, int], environ: Mapping[str, str]
) -> str:
    path = (*below, *(str(step) for step in error["loc"]))
    name = ".".join(path)
    place = _place(path, file, lines, environ)
    if error["type"] == "extra_forbidden":
        known = known_keys(path[:-1])
        remedy = f"; known here: {', '.join(known)}" if known else ""
        return f"{place}: {name}: unknown key{remedy}"
    given = "" if error["type"] == "missing" or _SECRETS & set(path) else f", not {error['input']!r}"
    return f"{place}: {name}: {error['msg'][:1].lower()}{error['msg'][1:]}{given[:200]}"


def _place(path: _Path, file: Path | None, lines: Mapping[_Path, int], environ: Mapping[str, str]) -> str:
    variable = "KNOWLEDGE_" + "__".join(path).upper()
    if variable in environ:
        return f"environment {variable}"
    if file is None:
        return "configuration"
    line = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)
    return f"{file}:{line}"
