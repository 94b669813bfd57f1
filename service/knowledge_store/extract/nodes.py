"""The structure of a document as the packer needs it: a tree whose leaves hold every line that is not blank."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Kind(Enum):
    """What a leaf is, by how it may be treated."""

    PROSE = "prose"  # divided at sentences
    LINES = "lines"  # divided at lines
    HEADING = "heading"  # stays with what follows
    TABLE_HEAD = "table head"  # stays with what follows
    TABLE_ROW = "table row"  # divided only where it exceeds a chunk by itself


@dataclass(frozen=True, slots=True)
class Leaf:
    """The text from `start` to `end`. `level` is that of a heading, `caption` its plain text; the rows of a table carry
    the lines of its header as their `caption`."""

    kind: Kind
    start: int
    end: int
    level: int = 0
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A list, an item of one, a quotation, a table: `children` are in order and do not overlap."""

    start: int
    end: int
    children: tuple[Node, ...]


Node: TypeAlias = Leaf | Group


def first_leaf(node: Node) -> Leaf:
    """The leaf that a node begins with."""
    while isinstance(node, Group):
        node = node.children[0]
    return node


@dataclass(frozen=True, slots=True)
class _Mark:
    start: int
    end: int
    above: tuple[str, ...]
    path: tuple[str, ...]


class Outline:
    """The headings of a document, asked by place."""

    def __init__(self, headings: Iterable[Leaf]) -> None:
        self._marks: list[_Mark] = []
        open_headings: list[tuple[int, str]] = []
        for leaf in headings:
            while open_headings and open_headings[-1][0] >= leaf.level:
                open_headings.pop()
            above = tuple(caption for _, caption in open_headings)
            caption = leaf.caption or ""
            if caption:
                open_headings.append((leaf.level, caption))
            self._marks.append(_Mark(leaf.start, leaf.end, above, (*above, caption) if caption else above))
        self._starts = [mark.start for mark in self._marks]

    def above(self, start: int, end: int) -> tuple[str, ...]:
        """The headings that stand above everything from `start` to `end`, and not in it."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        path = self._before(start) if first == last or self._starts[first] > start else self._marks[first].above
        for mark in self._marks[first:last]:
            path = _common(path, mark.above)
        return path

    def at(self, text: str, start: int, end: int) -> tuple[str, ...]:
        """The headings down to the nearest one of what begins at `start`: those that it begins with are included, and
        where none stands above it, the first ones in it."""
        at = bisect_left(self._starts, start)
        path = self._before(start)
        if at == len(self._marks) or self._starts[at] >= end or (path and self._starts[at] != start):
            return path
        while at + 1 < len(self._marks):
            this, following = self._marks[at], self._marks[at + 1]
            if len(following.above) < len(this.path) or text[this.end : following.start].strip():
                break
            at += 1
        return self._marks[at].path

    def _before(self, start: int) -> tuple[str, ...]:
        at = bisect_right(self._starts, start) - 1
        if at >= 0 and self._starts[at] == start:
            at -= 1
        return self._marks[at].path if at >= 0 else ()


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return tuple(one[:length])
