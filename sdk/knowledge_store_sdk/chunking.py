"""Splits a text into overlapping pieces for providers whose texts are longer than one document may be.

    text -> boundaries (paragraph, line, sentence, word; never inside a grapheme) -> spans -> chunks

A chunk ends at the best boundary in the later half of the room that it has, and the next one starts up to `overlap`
characters earlier. A word is cut only where it is longer than a chunk, a grapheme (an emoji sequence, a letter with its
accents) likewise.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_store_sdk._graphemes import positions_inside_graphemes

_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_LINE: Final = re.compile(r"\n")
_SENTENCE: Final = re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]]{0,3}\s(?=\S)|[\u3002\uff01\uff1f]")
_WORD: Final = re.compile(r"(?<=\s)(?=\S)")
_SPACE: Final = re.compile(r"\s")
_SOLID: Final = re.compile(r"\S")


def chunk_text(text: str, max_chars: int = 2000, overlap: int = 200) -> list[str]:
    """The text in pieces of at most `max_chars` characters, each starting at most `overlap` characters before the end
    of the one before.

    No piece is blank, and an empty or blank text gives none. Leaving out what overlaps, the pieces joined are the text,
    apart from blank space where it was cut. Raises ValueError for `max_chars` below 1, and for an `overlap` that is
    negative or not smaller than `max_chars`.
    """
    return [text[start:end] for start, end in chunk_spans(text, max_chars, overlap)]


def chunk_spans(text: str, max_chars: int = 2000, overlap: int = 200) -> list[tuple[int, int]]:
    """As `chunk_text`, but where the pieces stand: (start, end) in characters, so that `text[start:end]` is a piece.

    Starts and ends both increase, and every character that is not blank is in at least one piece.
    """
    if max_chars < 1:
        raise ValueError(f"max_chars is {max_chars}; a chunk holds at least 1 character")
    if overlap < 0:
        raise ValueError(f"overlap is {overlap}; it cannot be negative")
    if overlap >= max_chars:
        raise ValueError(f"overlap is {overlap} and max_chars is {max_chars}; chunks that overlap wholly never end")
    bounds = _Boundaries.of(text)
    spans: list[tuple[int, int]] = []
    fresh = _solid_from(text, 0)  # the first character that no chunk has yet
    while fresh < len(text):
        earliest = _must_end(text, bounds, fresh, max_chars) - max_chars
        start = _overlap(text, bounds, spans[-1], max(earliest, spans[-1][1] - overlap)) if spans else 0
        start = max(_skip_blank_lines(text, start, max_chars), earliest)
        cut = _cut(text, bounds, start, fresh, max_chars)
        end = start + len(text[start:cut].rstrip())
        spans.append((start, end))
        fresh = _solid_from(text, end)
    return spans


@dataclass(frozen=True, slots=True)
class _Boundaries:
    """Positions before which the text may be cut: by rank, best first, each list ascending."""

    ranked: tuple[Sequence[int], ...]  # paragraph, line, sentence
    words: Sequence[int]
    inside: frozenset[int]  # never cut here: within a grapheme

    @classmethod
    def of(cls, text: str) -> _Boundaries:
        inside = positions_inside_graphemes(text)

        def allowed(pattern: re.Pattern[str]) -> list[int]:
            return [end for end in (match.end() for match in pattern.finditer(text)) if end not in inside]

        return cls(tuple(allowed(one) for one in (_PARAGRAPH, _LINE, _SENTENCE)), allowed(_WORD), inside)

    def last_whole(self, after: int, upto: int) -> int | None:
        """The last position in (after, upto] that divides no grapheme."""
        return next((one for one in range(upto, after, -1) if one not in self.inside), None)

    def first_whole(self, start: int, stop: int) -> int:
        """The first position in [start, stop) that divides no grapheme, or `stop`."""
        return next((one for one in range(start, stop) if one not in self.inside), stop)


def _cut(text: str, bounds: _Boundaries, start: int, fresh: int, max_chars: int) -> int:
    """Where the chunk from `start` ends: after `fresh`, at most `max_chars` from the start, trailing blanks aside."""
    limit = start + max_chars
    reach = _solid_from(text, min(limit, len(text)))
    if reach == len(text):
        return reach
    room = fresh + (limit - fresh) // 2  # a cut before half of the room would make many small chunks
    for positions in bounds.ranked:
        found = _last_in(positions, room, reach)
        if found is not None:
            return found
    return _last_in(bounds.words, fresh, reach) or bounds.last_whole(fresh, limit) or limit


def _overlap(text: str, bounds: _Boundaries, before: tuple[int, int], earliest: int) -> int:
    """Where the chunk after `before` starts, from `earliest` on: the overlap begins with a sentence, or a word."""
    start, end = before
    earliest = max(earliest, start + 1)
    if earliest >= end:
        return end
    middle = (earliest + end) // 2
    candidates = (
        *(_first_in(positions, earliest, middle) for positions in bounds.ranked),
        _first_in(bounds.words, earliest, end),
        # the rest of a word repeated helps nobody, unless that word goes on
        end if _SPACE.match(text, end) else bounds.first_whole(earliest, end),
    )
    return next(found for found in candidates if found is not None)


def _must_end(text: str, bounds: _Boundaries, fresh: int, max_chars: int) -> int:
    """The end of what the next chunk must hold whole: the word at `fresh`, or its grapheme, or its character."""
    space = _SPACE.search(text, fresh, fresh + max_chars + 1)
    if space or len(text) - fresh <= max_chars:
        return space.start() if space else len(text)
    grapheme = bounds.first_whole(fresh + 1, fresh + max_chars + 1)
    return grapheme if grapheme - fresh <= max_chars else fresh + 1


def _solid_from(text: str, position: int) -> int:
    """The first character from here on that is not blank; the length of the text where there is none."""
    found = _SOLID.search(text, position)
    return found.start() if found else len(text)


def _skip_blank_lines(text: str, position: int, max_chars: int) -> int:
    """Past blank lines, and past spaces within a line; the indentation of a line stays, as long as it is short."""
    solid = _solid_from(text, position)
    line = text.rfind("\n", position, solid) + 1
    if not line:
        line = position if position == 0 or text[position - 1] == "\n" else solid
    return line if solid - line <= max_chars // 2 else solid


def _last_in(positions: Sequence[int], after: int, upto: int) -> int | None:
    """The last of the ascending positions in (after, upto]."""
    index = bisect_right(positions, upto)
    return positions[index - 1] if index and positions[index - 1] > after else None


def _first_in(positions: Sequence[int], start: int, stop: int) -> int | None:
    """The first of the ascending positions in [start, stop)."""
    index = bisect_left(positions, start)
    return positions[index] if index < len(positions) and positions[index] < stop else None
