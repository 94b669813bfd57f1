"""Finds backends and embedders by the name of their entry point: built-in and third-party ones by the same door."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from knowledge_store_sdk.errors import ConfigError

BACKENDS = "knowledge_store.backends"
EMBEDDERS = "knowledge_store.embedders"


def find(group: str, name: str, setting: str) -> Any:
    """What opens the part of this name. Raises ConfigError that lists the known names."""
    found = {one.name: one for one in entry_points(group=group)}
    if name not in found:
        raise ConfigError(f"{setting}: {name!r} is not installed; known here: {', '.join(sorted(found)) or 'none'}")
    try:
        return found[name].load()
    except ImportError as error:
        raise ConfigError(f"{setting}: {name!r} cannot be loaded: {error}") from error
