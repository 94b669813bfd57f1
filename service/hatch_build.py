"""Puts `index_templates/` into the wheel, from the root of the repository or from an unpacked sdist."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class IndexTemplates(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # the service finds the folder in the working copy
        places = [Path(self.root, "index_templates"), Path(self.root).parent / "index_templates"]
        folder = next((place for place in places if place.is_dir()), None)
        if folder is None:
            raise FileNotFoundError(f"index_templates is in neither of {', '.join(map(str, places))}")
        build_data["force_include"][str(folder)] = "knowledge_store/_index_templates"
