"""Text -> terms, as Lucene's English analysis makes them.

    cut into words -> drop 's -> lower case -> drop stop words -> stem -> a 64-bit number each

Documents and questions take the same road, so the index needs no other text than this. Words are cut where Unicode's
word boundaries say (UAX #29): `can't`, `3.14`, `node.js` and `kube_pod_x` are one each; each Han and Hiragana character
is one by itself, and so is an emoji.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from knowledge_store.backends.embedded.porter import stem
from knowledge_store.backends.embedded.words import word_pattern

VERSION: Final = 1
"""Kept beside what was analysed: under another number the index analyses its documents again."""

_STOP_WORDS: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
MAX_WORD_UNITS: Final = 255  # of UTF-16; a longer word is cut there
_SURELY_SHORT: Final = MAX_WORD_UNITS // 2  # characters that take at most 255 units, whichever they are
_WINDOW: Final = 4 * MAX_WORD_UNITS
_CACHED_WORDS: Final = 100_000


def terms_of(text: str) -> Counter[int]:
    """Term -> how often it stands in the text. The counts add up to the text's length; stop words are no part of it."""
    counts = Counter(map(_term, words_of(text)))
    del counts[None]
    return counts  # type: ignore[return-value]  # None has just left


def words_of(text: str) -> list[str]:
    """The words of a text as they stand there, in order, each at most 255 UTF-16 units long."""
    words: list[str] = list(filter(None, word_pattern().findall(text)))
    if max(map(len, words), default=0) > _SURELY_SHORT:
        return list(_short_words(text))
    return words


def _short_words(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        # A word without end is looked at one window at a time, or each of its pieces would look through the rest of it.
        until = min(position + _WINDOW, len(text))
        word = word_pattern().search(text, position, until)
        start, end = word.span(1) if word else (-1, -1)
        if word is None or start < 0:
            position = word.end() if word else until
            continue
        if end == until < len(text) and start > position:
            position = start
            continue
        if end - start > _SURELY_SHORT:
            # As Lucene does, cut as if the text ended there, and go on with what is left.
            limit = start + _characters_within(text[start : start + MAX_WORD_UNITS], MAX_WORD_UNITS)
            end = limit
            if whole := word_pattern().match(text, start, limit):
                end = whole.end()
        yield text[start:end]
        position = end


def _characters_within(text: str, units: int) -> int:
    """How many characters from the start take at most so many units of UTF-16."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore"))


@lru_cache(maxsize=_CACHED_WORDS)
def _term(word: str) -> int | None:
    """The number of the term that a word stands for; None for a stop word."""
    if word[-1:] in "sS" and word[-2:-1] in ("'", "’", "＇"):
        word = word[:-2]
    word = word.lower()
    if word in STOP_WORDS:
        return None
    return int.from_bytes(blake2b(stem(word).encode(), digest_size=8).digest(), "little")
