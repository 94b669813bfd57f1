"""Markdown -> chunks.

text -> front matter, body -> blocks -> title -> packed within the budget
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_store.extract.blocks import blocks_of
from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Extracted
from knowledge_store.extract.frame import fitted_title
from knowledge_store.extract.front_matter import read_front_matter
from knowledge_store.extract.nodes import Kind, Leaf, Node
from knowledge_store.extract.packing import pack


def extract_markdown(text: str, budget: Budget, *, name: str | None = None) -> Extracted:
    """The chunks of a Markdown text, its front matter included: every line that is not blank is in one of them.

    The title is that of the front matter, else the first heading of level 1, else the first heading, else `name`. Pure
    CPU; takes time in proportion to the text.
    """
    front = read_front_matter(text)
    nodes = blocks_of(text, front.end)
    title = fitted_title(front.title or _first_heading(nodes) or name, budget)
    if front.end:
        nodes.insert(0, Leaf(Kind.LINES, 0, front.end))
    return Extracted(title, front.tags, pack(text, nodes, title, budget))


def _first_heading(nodes: Sequence[Node]) -> str | None:
    headings = [node for node in nodes if isinstance(node, Leaf) and node.kind is Kind.HEADING and node.caption]
    return next((one.caption for one in headings if one.level == 1), headings[0].caption if headings else None)
