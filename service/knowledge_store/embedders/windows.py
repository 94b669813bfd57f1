"""Cuts a text into windows that each fit an embedder.

    text -> pieces, each with its cost in tokens -> even windows, cut where a sentence, a line or a word ends

Joined together the windows are the text again, so that nothing is lost between two of them. A tokenizer at hand gives
the pieces and their exact costs; for a server whose tokenizer is not at hand `estimated_windows` takes costs that are
rather too high than too low, because a server may cut what is too long without a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_PIECE: Final = re.compile(r"[A-Za-z]{1,24}|\s+|.", re.DOTALL)
_PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]*[aeiouy][a-z]*\Z")
_LETTERS_PER_TOKEN: Final = 3  # English words take 4 to 5; rare ones are cut finer
_SENTENCE_END: Final = ".!?。！？"


class Piece(NamedTuple):
    """What must stay together: from `start`, a character offset, to where the next piece starts."""

    start: int
    tokens: int


def even_windows(text: str, pieces: Sequence[Piece], budget: int) -> list[str]:
    """The text in as few windows as the budget (tokens) allows, of about the same size.

    Pieces are in order and cover the text. Even sizes, because the mean of the windows' vectors counts each the same. A
    window exceeds the budget only where one piece does.
    """
    remaining = sum(piece.tokens for piece in pieces)
    windows: list[str] = []
    first = 0
    while remaining > budget and first < len(pieces) - 1:
        share = math.ceil(remaining / math.ceil(remaining / budget))
        cut, tokens = _best_cut(text, pieces, first, share, budget)
        windows.append(text[pieces[first].start if windows else 0 : pieces[cut].start])
        first, remaining = cut, remaining - tokens
    windows.append(text[pieces[first].start if windows else 0 :])
    return windows


def _best_cut(text: str, pieces: Sequence[Piece], first: int, share: int, budget: int) -> tuple[int, int]:
    """The piece that begins the next window, and the tokens before it: the best kind of end, then nearest the share."""
    best, best_rank = (first + 1, pieces[first].tokens), (-2, 0)
    tokens = 0
    for index in range(first, len(pieces) - 1):
        tokens += pieces[index].tokens
        if index > first and tokens > min(budget, share * 5 // 4):
            break
        near = tokens >= share * 3 // 4
        rank = (_boundary(text, pieces[index + 1].start), -abs(tokens - share)) if near else (-1, tokens)
        if rank > best_rank:
            best, best_rank = (index + 1, tokens), rank
    return best


def _boundary(text: str, position: int) -> int:
    """What ends before this position: 2 a sentence or a line, 1 a word, 0 nothing."""
    end = position
    while end > 0 and text[end - 1].isspace():
        end -= 1
        if text[end] == "\n":
            return 2
    before = text[end - 1] if end else "."
    if end == position:
        return 2 if before in "。！？" else 0
    return 2 if before in _SENTENCE_END else 1


def estimated_pieces(text: str) -> Iterator[Piece]:
    """The pieces of a text with costs that few tokenizers exceed.

    White space costs nothing and stays with what precedes it. Digits, punctuation and letters of other alphabets cost a
    token each, ideographs two, what lies beyond the basic plane (emoji) four: as many as it has bytes.
    """
    for match in _PIECE.finditer(text):
        yield Piece(match.start(), _cost(match.group()))


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isspace():
        return 0
    if first.isascii():
        if _PLAIN_WORD.match(piece):
            return math.ceil(len(piece) / _LETTERS_PER_TOKEN)
        return len(piece)
    if ord(first) < 0x0800:
        return 1
    return 2 if ord(first) < 0x10000 else 4


def estimated_tokens(text: str) -> int:
    """How many tokens a text has at most, by estimate."""
    return sum(piece.tokens for piece in estimated_pieces(text))


def estimated_windows(text: str, budget: int) -> list[str]:
    """The windows of a text by estimated costs; each is within the budget (tokens, at least 4) by the same estimate."""
    words = _words_with_their_space(estimated_pieces(text))
    return even_windows(text, words, budget) if words else [text]


def _words_with_their_space(pieces: Iterator[Piece]) -> list[Piece]:
    """White space joined to the piece before it, at the start to the one after it: no window is blank."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece.tokens or not joined:
            joined.append(piece)
    if len(joined) > 1 and joined[0].tokens == 0:
        joined[:2] = [Piece(0, joined[1].tokens)]
    return joined
