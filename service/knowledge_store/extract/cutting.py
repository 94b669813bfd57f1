"""Takes from a text as much as fits."""

from __future__ import annotations

import re
from typing import Final

from knowledge_store.extract.budget import Budget
from knowledge_store_sdk.chunking import chunk_spans

_SOLID: Final = re.compile(r"\S")
_LONE_CR: Final = re.compile(r"\r(?!\n)")
_GOOD_FILL: Final = 0.85
_FIRST_GUESS: Final = 4  # characters a token, as in English
_TRIES: Final = 16
_MAX_INDENT: Final = 64


def begin_of(text: str, start: int, end: int) -> int:
    """Where the text from `start` on begins: past blank lines and spaces, but the indentation of its line stays."""
    solid = _SOLID.search(text, start, end)
    if solid is None:
        return end
    at = solid.start()
    line = at
    while line > start and text[line - 1] not in "\r\n" and at - line <= _MAX_INDENT:
        line -= 1
    begins_a_line = line == 0 or text[line - 1] in "\r\n"
    return line if begins_a_line else at


def take(text: str, start: int, end: int, room: float, budget: Budget, *, prose: bool) -> int:
    """Where a piece that begins at `start` ends, so that it costs at most `room`: after `start`, at most `end`.

    It ends with a sentence where the text is prose, else with a line, if that leaves it at least half full; else with a
    word, else with a grapheme. Only a single character may cost more than `room`.
    """
    chars = max(1, min(int(room * _FIRST_GUESS), budget.max_chars // 2))
    best = 0
    for _ in range(_TRIES):
        cut = _first_piece(text, start, end, chars, prose=prose)
        cost = budget.cost(text[start:cut])
        if cost <= room:
            if cut in (best, end) or cost >= room * _GOOD_FILL:
                return cut
            best = max(best, cut)
            chars = max(chars + 1, int((cut - start) * min(2.0, room / max(cost, 1))))
        elif best:
            return best
        elif chars == 1:
            return cut
        else:
            chars = max(1, min(chars - 1, int(chars * max(room / cost * 0.95, 0.1))))
    return best or _first_piece(text, start, end, 1, prose=prose)


def _first_piece(text: str, start: int, end: int, chars: int, *, prose: bool) -> int:
    # twice the room is seen, so that the end of what is seen is not taken for the end of the text
    window = text[start : min(end, start + 2 * chars + 1)]
    if prose:
        window = window.replace("\n", " ").replace("\r", " ")  # a wrapped line is no place to cut before a sentence is
    elif "\r" in window:
        window = _LONE_CR.sub("\n", window)
    spans = chunk_spans(window, chars, 0)
    return start + spans[0][1] if spans else end
