"""Packs the nodes of a document into chunks.

    nodes -> one after the other into the open chunk; what is too large is divided -> spans -> framed: chunks

A chunk ends where the next node does not fit, and before a heading once it is half full, so that short
sections share one and a long section begins its own. What a chunk's context says is true for all of its content: a
chunk that stands under a heading does not go on into the section beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from knowledge_store.extract.budget import Budget
from knowledge_store.extract.chunk import Chunk
from knowledge_store.extract.cutting import begin_of, take
from knowledge_store.extract.frame import Frame
from knowledge_store.extract.nodes import Group, Kind, Leaf, Node, Outline, first_leaf

_WELL_FILLED: Final = 0.5  # of the room of a chunk: a new section begins a new one
_FILLED: Final = 0.25  # what does not fit begins a new one, rather than being divided
_MAX_WAITING: Final = 0.2  # of the budget
_GLUED: Final = frozenset({Kind.HEADING, Kind.TABLE_HEAD})


def pack(text: str, nodes: Sequence[Node], title: str | None, budget: Budget) -> tuple[Chunk, ...]:
    """The chunks of a text, in order: title, context and content of each are within the budget together.

    `nodes` cover every line that is not blank, and every character of theirs that is not blank is in one chunk. `title`
    is what `fitted_title` returned.
    """
    outline = Outline(node for node in nodes if isinstance(node, Leaf) and node.kind is Kind.HEADING)
    frame = Frame(text, outline, title, budget)
    packer = _Packer(frame)
    for node in nodes:
        packer.place(node)
    packer.finish()
    return tuple(chunk for one in packer.closed for chunk in frame.chunks(one.start, one.end, one.header))


@dataclass(frozen=True, slots=True)
class _Open:
    """A chunk in the making. `header` is that of the table whose rows it begins with."""

    start: int
    end: int
    header: str | None
    size: float


class _Packer:
    """The open chunk, and the headings that wait for what follows them."""

    def __init__(self, frame: Frame) -> None:
        self.closed: list[_Open] = []
        self._frame, self._budget = frame, frame.budget
        self._open: _Open | None = None
        self._waiting: list[Leaf] = []
        self._sizes: dict[tuple[int, int], float] = {}

    def place(self, node: Node) -> None:
        """Takes the next node."""
        if isinstance(node, Leaf) and node.kind in _GLUED and self._waits(node):
            return
        size = self._size_of(node)
        if joined := self._with(self._open, node, size):
            self._take_in(joined)
            return
        alone = self._with(None, node, size)
        if alone and (self._is_filled() or self._begins_section() or _stays_whole(node)):
            self._close()
            self._take_in(alone)
        elif isinstance(node, Group):
            for child in node.children:
                self.place(child)
        else:
            self._divide(node)

    def finish(self) -> None:
        """Closes the last chunk; a heading that nothing followed goes with what precedes it, or becomes one."""
        if self._waiting:
            nothing = Leaf(Kind.PROSE, self._waiting[-1].end, self._waiting[-1].end)
            joined = self._with(self._open, nothing, 0)
            if joined is None:
                self._close()
            self._take_in(joined or self._waiting_alone())
        self._close()

    def _waits(self, leaf: Leaf) -> bool:
        """Whether a heading can wait for what follows it; one that is as long as a text is treated as text."""
        if leaf.kind is Kind.HEADING and self._open and (self._is_filled(_WELL_FILLED) or self._leaves_section(leaf)):
            self._close()
        waiting = self._waiting_alone().size + self._gap_to(leaf) if self._waiting else 0
        if waiting + self._size_of(leaf) > self._budget.max_tokens * _MAX_WAITING:
            return False
        self._waiting.append(leaf)
        return True

    def _divide(self, leaf: Leaf) -> None:
        """Takes a leaf in pieces, the first of them into what is open."""
        text, at = self._frame.text, leaf.start
        while (at := begin_of(text, at, leaf.end)) < leaf.end:
            rest = Leaf(leaf.kind, at, leaf.end, caption=leaf.caption)
            if joined := self._with(self._open, rest, self._size_of(rest)):
                self._take_in(joined)
                return
            room = self._room_for(rest)
            is_small = room < self._budget.max_tokens * _FILLED
            if self._open and (is_small or self._is_filled() or self._begins_section()):
                self._close()
            elif self._waiting and is_small:
                self._take_in(self._waiting_alone())
            else:
                cut = take(text, at, leaf.end, room, self._budget, prose=leaf.kind in {Kind.PROSE, Kind.HEADING})
                self._take_in(self._grown(self._open, Leaf(leaf.kind, at, cut, caption=leaf.caption), room))
                self._close()
                at = cut

    def _with(self, opened: _Open | None, node: Node, size: float) -> _Open | None:
        """The open chunk with what waits and this node; None where it does not fit."""
        grown = self._grown(opened, node, size)
        return grown if grown.size <= self._frame.room(grown.start, grown.end, grown.header) else None

    def _grown(self, opened: _Open | None, node: Node, size: float) -> _Open:
        waiting = self._waiting_alone() if self._waiting else None
        header = None
        if opened is None and waiting is None:
            header = first_leaf(node).caption if first_leaf(node).kind is Kind.TABLE_ROW else None
        parts = [part for part in (opened, waiting, _Open(node.start, node.end, header, size)) if part]
        gaps = sum(after.start - before.end for before, after in pairwise(parts))
        total = sum(part.size for part in parts) + self._budget.blank_cost(gaps)
        return _Open(parts[0].start, node.end, parts[0].header, total)

    def _waiting_alone(self) -> _Open:
        first, last = self._waiting[0], self._waiting[-1]
        blank = last.end - first.start - sum(leaf.end - leaf.start for leaf in self._waiting)
        size = sum(self._size_of(leaf) for leaf in self._waiting) + self._budget.blank_cost(blank)
        return _Open(first.start, last.end, None, size)

    def _gap_to(self, leaf: Leaf) -> float:
        return self._budget.blank_cost(leaf.start - self._waiting[-1].end)

    def _room_for(self, rest: Leaf) -> float:
        begun = self._grown(self._open, Leaf(rest.kind, rest.start, rest.start + 1, caption=rest.caption), 0)
        return self._frame.room(begun.start, begun.end, begun.header) - begun.size

    def _is_filled(self, share: float = _FILLED) -> bool:
        if self._open is None:
            return False
        return self._open.size >= share * self._frame.room(self._open.start, self._open.end, self._open.header)

    def _begins_section(self) -> bool:
        return any(leaf.kind is Kind.HEADING for leaf in self._waiting)

    def _leaves_section(self, heading: Leaf) -> bool:
        """Whether the context of the open chunk would not be true for this heading."""
        assert self._open is not None
        above = self._frame.outline.above
        return above(self._open.start, heading.end) != above(self._open.start, self._open.end)

    def _take_in(self, grown: _Open) -> None:
        self._open, self._waiting = grown, []

    def _close(self) -> None:
        if self._open:
            self.closed.append(self._open)
            self._open = None

    def _size_of(self, node: Node) -> float:
        """The cost of a node, counted once for each leaf."""
        key = (node.start, node.end)
        if (size := self._sizes.get(key)) is None:
            size = self._sizes[key] = self._counted(node)
        return size

    def _counted(self, node: Node) -> float:
        if isinstance(node, Leaf):
            return self._frame.cost(node.start, node.end)
        if node.end - node.start > self._budget.max_chars:
            return float("inf")
        blank = node.end - node.start - sum(child.end - child.start for child in node.children)
        return sum(self._size_of(child) for child in node.children) + self._budget.blank_cost(blank)


def _stays_whole(node: Node) -> bool:
    return isinstance(node, Leaf) and node.kind is Kind.TABLE_ROW
