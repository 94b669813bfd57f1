"""What a Markdown file says about itself between `---` lines at its top, in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import yaml

from knowledge_store_sdk.models import MAX_TAGS
from knowledge_store_sdk.tags import tag_from

_BLOCK: Final = re.compile(r"---[ \t]*(?:\r\n|\r|\n)(.*?)(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:\r\n|\r|\n|\Z)", re.DOTALL)
_KEY: Final = re.compile(r"\s*[\w-]+[ \t]*:(?:\s|$)")
_MAX_CHARS: Final = 64 * 1024  # a larger block is data, and the parser is slow
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`end` is where the body begins, a character offset; 0 where there is no front matter."""

    end: int
    title: str | None
    tags: tuple[str, ...]


def read_front_matter(text: str) -> FrontMatter:
    """Never raises: a block of keys that is broken YAML has an end, and says nothing."""
    if not (block := _BLOCK.match(text, 0, _MAX_CHARS)):
        return FrontMatter(0, None, ())
    try:
        # every scalar stays the text that it is: `1.10` is no number here, and `no` not false
        values: Any = yaml.load(block.group(1), Loader=_LOADER)  # noqa: S506 -- it makes texts, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        broken = values is None and _KEY.match(block.group(1))
        return FrontMatter(block.end() if broken else 0, None, ())  # text between two rules is no front matter
    title = values.get("title")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    title = "".join(one for one in title if one.isprintable())  # YAML can write NUL and half characters as escapes
    return FrontMatter(block.end(), title or None, _tags(values.get("tags")))


def _tags(value: object) -> tuple[str, ...]:
    """`[a, b]`, or a text with commas between the tags, or spaces where it has no comma."""
    named: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, str):
        named = value.split(",") if "," in value else value.split()
    tags: dict[str, None] = {}
    for one in named:
        try:
            tags[tag_from(one if isinstance(one, str) else "")] = None
        except ValueError:
            continue
    return tuple(tags)[:MAX_TAGS]
