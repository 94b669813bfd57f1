"""Where a text must not be cut: inside what a reader sees as one character.

The extended grapheme clusters of Unicode's annex 29, found with the standard library: combining marks, variation
selectors, skin tones and tag characters stay with what they follow, a zero-width joiner and a virama join what follows
them, flags are pairs of regional indicators, Hangul syllables stay whole. Where in doubt it joins.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_VIRAMA_CLASS: Final = 9
_FLAG: Final = "[\U0001f1e6-\U0001f1ff]"
_LEAD: Final = "[\u1100-\u115f\ua960-\ua97c]"
_SYLLABLE: Final = "[\uac00-\ud7a3]"
_VOWEL: Final = "[\u1160-\u11a7\ud7b0-\ud7c6]"
_TAIL: Final = "[\u11a8-\u11ff\ud7cb-\ud7fb]"
_HANGUL: Final = f"{_LEAD}*(?:{_SYLLABLE}|{_VOWEL}){_VOWEL}*{_TAIL}*|{_LEAD}+"
_CORE: Final = rf"(?:{_FLAG}{{2}}|{_HANGUL}|\S)"
_NEEDS_A_LOOK: Final = re.compile(f"{_FLAG}|{_LEAD}|{_VOWEL}|{_TAIL}")


def positions_inside_graphemes(text: str) -> frozenset[int]:
    """The positions at which a cut would divide a cluster; blank space before a mark is not counted as its base."""
    inside = {match.start() + 1 for match in re.finditer("\r\n", text)}
    if text.isascii():
        return frozenset(inside)
    characters = set(text)
    extending = {one for one in characters if one > "\x7f" and _extends(one)}
    if extending or _NEEDS_A_LOOK.search(text):
        for match in _clusters(extending).finditer(text):
            inside.update(range(match.start() + 1, match.end()))
    return frozenset(inside)


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in {"Mn", "Me", "Mc"}
        or character in {_ZWNJ, _ZWJ, "\uff9e", "\uff9f"}
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _clusters(extending: set[str]) -> re.Pattern[str]:
    if not extending:
        return re.compile(_CORE)
    joining = {_ZWJ} | {one for one in extending if unicodedata.combining(one) == _VIRAMA_CLASS}
    extend, join = (re.escape("".join(sorted(group))) for group in (extending, joining))
    return re.compile(f"{_CORE}(?:[{extend}]|(?<=[{join}]){_CORE})*+")
