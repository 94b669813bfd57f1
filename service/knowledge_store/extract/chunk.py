"""What extraction yields: the chunks of one document, and what the document says about itself."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge_store_sdk.locators import TextLocator


@dataclass(frozen=True, slots=True)
class Chunk:
    """`content` is the text from `locator.start` to `locator.end`, verbatim and never blank.

    `context` is what a reader needs to understand the content and does not find in it: the headings above it, joined by
    ` > `, then the header of a table that it continues. `section` is the nearest heading, `locator.heading_path` all.
    """

    content: str
    context: str | None
    section: str | None
    locator: TextLocator


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document in order. No chunks: it has no text. `tags` are those of the document itself, as valid tags."""

    title: str | None
    tags: tuple[str, ...]
    chunks: tuple[Chunk, ...]
