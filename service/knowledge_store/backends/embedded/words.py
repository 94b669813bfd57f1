"""What a word is: one pattern that finds them as Lucene's standard tokenizer does, after Unicode's UAX #29."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain, groupby
from typing import Final

# Scripts that are written without spaces, which Unicode leaves to dictionaries: a run of them is one word.
_DICTIONARY_SCRIPTS: Final = (
    r"\u0e01-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109f\u1780-\u17d3\u17d7\u17dc\u17dd"
    r"\u1950-\u1974\u1980-\u19c9\u19da\u19de\u19df\u1a20-\u1a7c\u1aa0-\u1aad\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaadf"
    r"\U00011700-\U0001172b"
)
_KATAKANA: Final = (
    r"\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u32d0-\u32fe\u3300-\u3357\uff66-\uff9d"
    r"\U0001b000\U0001b164-\U0001b167"
)
_HIRAGANA: Final = r"\u3041-\u3096\u309d-\u309f\U0001b001-\U0001b11e\U0001b150-\U0001b152\U0001f200"
_HAN: Final = (
    r"\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3007\u3021-\u3029\u3038-\u303a\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9"
    r"\U00020000-\U000323af"
)
_EMOJI: Final = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3"
    r"\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705"
    r"\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767"
    r"\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e"
    r"\U0001f191-\U0001f1ad\U0001f201-\U0001f265\U0001f300-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    r"\U0001f7d5-\U0001f7f0\U0001f8b0\U0001f8b1\U0001f90c-\U0001fbf9"
)
_ELSEWHERE: Final = re.compile(f"[{_DICTIONARY_SCRIPTS}{_KATAKANA}{_HIRAGANA}{_HAN}{_EMOJI}]")

_SKIN_TONES: Final = frozenset(map(chr, range(0x1F3FB, 0x1F400)))

_BETWEEN_LETTERS: Final = r":·\u0387\u05f4\u2027\ufe13\ufe55\uff1a" + r".'\u2018\u2019\u2024\ufe52\uff07\uff0e"
_BETWEEN_DIGITS: Final = r",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b" + (
    r".'\u2018\u2019\u2024\ufe52\uff07\uff0e"
)


# Nearly every word is letters of ASCII, and nearly all that stands between words is ASCII too: these two keep the
# large classes for the rest, which makes it three times as fast.
_PLAIN_WORD: Final = r"[A-Za-z]++(?![A-Za-z0-9_:.'\x80-\U0010ffff])"
_BETWEEN_WORDS: Final = r"[\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*+"
_ASSIGNED: Final = (range(0x20000), range(0xE0000, 0xE0200))  # beyond Han: no plane between has a letter or a mark


@lru_cache(maxsize=1)
def word_pattern() -> re.Pattern[str]:
    """Group 1 is a word, or nothing between words. Compiled at first use: it asks what each character is, for 0.1 s."""
    ranges: dict[str, str] = {"letter": "", "digit": "", "joiner": "", "mark": ""}
    for kind, characters in groupby(map(chr, chain(*_ASSIGNED)), key=_kind):
        if kind:
            first, *rest = characters
            ranges[kind] += re.escape(first) + (f"-{re.escape(rest[-1])}" if rest else "")
    letter, digit, joiner, mark = ranges.values()
    marks = f"[{mark}]*+"
    run = f"[{letter}{digit}][{letter}{digit}{mark}]*+"
    inside = (
        f"(?:(?<=[{letter}{mark}])[{_BETWEEN_LETTERS}]{marks}(?=[{letter}])"
        f"|(?<=[{digit}{mark}])[{_BETWEEN_DIGITS}]{marks}(?=[{digit}]))"
    )
    core = f"(?:{run}(?:{inside}{run})*+|(?:[{_KATAKANA}]{marks})++)"
    joiners = f"(?:[{joiner}]{marks})"
    return re.compile(
        _BETWEEN_WORDS
        + "("
        + "|".join(
            [
                _PLAIN_WORD,
                r"[0-9#*]\ufe0f?\u20e3",
                f"(?<![{joiner}{mark}]){joiners}*+{core}(?:{joiners}++{core})*+{joiners}*+",
                f"(?:[{_DICTIONARY_SCRIPTS}]{marks})++",
                r"[\U0001f1e6-\U0001f1ff]{2}",
                f"[{_EMOJI}]{marks}(?:(?<=\u200d)[{_EMOJI}]{marks})*+",
                f"[{_HAN}{_HIRAGANA}]{marks}",
            ]
        )
        # A run that no word follows is taken as a whole, or each of its characters would look through the rest of it.
        + ")|"
        + _BETWEEN_WORDS.replace("*+", "++")
    )


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if (category[0] == "M" or category == "Cf" or character in _SKIN_TONES) and character != "\u200b":
        return "mark"
    if _ELSEWHERE.match(character):
        return ""
    if category[0] == "L" or category == "Nl" or "\u24b6" <= character <= "\u24e9":
        return "letter"
    return {"Nd": "digit", "Pc": "joiner"}.get(category, "")
