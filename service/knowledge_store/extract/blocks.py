"""The blocks of a Markdown text.

    text -> windows of whole blocks -> tokens (markdown-it) -> tree with character offsets -> gaps filled

Only the structure of blocks is read, and only to know where a text may be divided: what the parser passes over, such
as what is nested too deeply, is kept as a leaf of its own. A parser of the whole text takes quadratic time on some
inputs, so it sees a window of lines at a time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge_store.extract.nodes import Group, Kind, Leaf, Node

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_LONG_RULE: Final = re.compile("-{4,}")  # many tokenizers count each dash
_WINDOW_LINES: Final = 64
_MAX_GROUP_LINES: Final = 4 * _WINDOW_LINES
_GROWTH: Final = 4
_MAX_CAPTION_CHARS: Final = 500
_NO_TEXT: Final = {"softbreak": " ", "hardbreak": " ", "html_inline": ""}
_GROUPS: Final = frozenset({"bullet_list_open", "ordered_list_open", "list_item_open", "blockquote_open"})
_LINE_BLOCKS: Final = frozenset({"fence", "code_block", "html_block", "hr"})


def blocks_of(text: str, start: int = 0) -> list[Node]:
    """The blocks from `start`, the beginning of a line, on, in order; every line that is not blank is in one."""
    return list(_blocks(_Lines(text, start)))


def inline_text(parser: MarkdownIt, source: str) -> str:
    """A line of Markdown without its marks, in one line: `` `etcd` is [down](x) `` is `etcd is down`."""
    children = parser.parseInline(source[: 4 * _MAX_CAPTION_CHARS])[0].children or ()
    text = "".join(_NO_TEXT.get(token.type, token.content) for token in children)
    return " ".join(text.split())[:_MAX_CAPTION_CHARS]


class _Lines:
    """A text by lines as Markdown counts them: CRLF, LF and CR end one."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.starts = [start, *(match.end() for match in _LINE_END.finditer(text, start))]
        if self.starts[-1] < len(text):
            self.starts.append(len(text))

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def slice(self, first: int, stop: int) -> str:
        return self.text[self.starts[first] : self.starts[stop]]


def _blocks(lines: _Lines) -> Iterator[Node]:
    parser = MarkdownIt("commonmark").enable("table").disable("reference")
    blocks_only = MarkdownIt("commonmark").enable("table").disable("reference")
    blocks_only.core.ruler.enableOnly(["normalize", "block"])
    at, size = 0, _WINDOW_LINES
    while at < lines.count:
        stop = min(at + size, lines.count)
        tree = _Tree(lines, at, stop, parser)
        nodes = tree.build(blocks_only.parse(lines.slice(at, stop)))
        if stop < lines.count and nodes:
            # the last block may go on beyond the window: it is read again with what follows
            if len(nodes) > 1:
                nodes.pop()
                stop = tree.first_line_after(nodes[-1])
            elif (shorter := _without_last_child(nodes[0])) is None or size < _MAX_GROUP_LINES:
                size *= _GROWTH
                continue
            else:
                nodes = [shorter]
                stop = tree.first_line_after(shorter)
        yield from nodes
        at, size = stop, _WINDOW_LINES


def _without_last_child(node: Node) -> Node | None:
    """The node less what may go on beyond it.

    None where the rest could not be read without it: a fence, a table. Those are read in linear time, however long.
    """
    if isinstance(node, Leaf) or _is_table(node):
        return None
    if len(node.children) == 1:
        return node
    return Group(node.start, node.children[-2].end, node.children[:-1])


def _is_table(group: Group) -> bool:
    first = group.children[0]
    return isinstance(first, Leaf) and first.kind is Kind.TABLE_HEAD


class _Tree:
    """Makes nodes of the tokens of the lines from `first` to before `stop`."""

    def __init__(self, lines: _Lines, first: int, stop: int, parser: MarkdownIt) -> None:
        self._lines, self._first, self._stop, self._parser = lines, first, stop, parser

    def first_line_after(self, node: Node) -> int:
        """The number of the line that begins at, or after, the end of a node."""
        return bisect_left(self._lines.starts, node.end)

    def build(self, tokens: Sequence[Token]) -> list[Node]:
        return list(self._children(tokens, self._first, self._stop, top=True))

    def _children(self, tokens: Sequence[Token], first: int, stop: int, *, top: bool) -> Iterator[Node]:
        """Nodes that cover the lines from `first` to before `stop`."""
        at, index = first, 0
        while index < len(tokens):
            token, end = tokens[index], _end_of(tokens, index)
            if token.map is not None:
                start, after = max(token.map[0] + self._first, at), min(token.map[1] + self._first, stop)
                if start < after:
                    yield from self._gap(at, start)
                    yield from self._node(token, tokens[index + 1 : end - 1], start, after, top=top)
                    at = after
            index = end
        yield from self._gap(at, stop)

    def _node(self, token: Token, inner: Sequence[Token], first: int, stop: int, *, top: bool) -> Iterator[Node]:
        start, end = self._lines.starts[first], self._lines.starts[stop]
        if token.type == "heading_open" and top:
            yield Leaf(Kind.HEADING, start, end, int(token.tag[1:]), inline_text(self._parser, inner[0].content))
        elif token.type == "table_open":
            yield from self._group(tuple(self._table(first, stop)))
        elif token.type in _GROUPS:
            yield from self._group(tuple(self._children(inner, first, stop, top=False)))
        else:
            yield from self._leaf(Kind.LINES if token.type in _LINE_BLOCKS else Kind.PROSE, first, stop)

    def _table(self, first: int, stop: int) -> Iterator[Node]:
        head, rule = self._lines.slice(first, first + 1), self._lines.slice(first + 1, min(first + 2, stop))
        header = f"{head.strip()}\n{_LONG_RULE.sub('---', rule.strip())}"
        yield from self._leaf(Kind.TABLE_HEAD, first, min(first + 2, stop))
        for at in range(first + 2, stop):
            yield from self._leaf(Kind.TABLE_ROW, at, at + 1, header)

    def _group(self, children: tuple[Node, ...]) -> Iterator[Node]:
        if children:
            yield Group(children[0].start, children[-1].end, children)

    def _gap(self, first: int, stop: int) -> Iterator[Node]:
        yield from self._leaf(Kind.PROSE, first, stop)

    def _leaf(self, kind: Kind, first: int, stop: int, caption: str | None = None) -> Iterator[Node]:
        start, end = self._lines.starts[first], self._lines.starts[stop]
        if self._lines.text[start:end].strip():
            yield Leaf(kind, start, end, caption=caption)


def _end_of(tokens: Sequence[Token], index: int) -> int:
    """The index after the block that begins here."""
    depth = 0
    for at in range(index, len(tokens)):
        depth += tokens[at].nesting
        if depth == 0:
            return at + 1
    return len(tokens)
