"""Porter's stemmer as Lucene's English analysis uses it: that of 1980, with the later rules for `bli` and `logi`.

    word -> plurals, -ed, -ing -> final y -> double suffixes -> -ic-, -full, -ness -> the rest -> final e and ll

A word's shape has a `c` for each consonant and a `v` for each vowel; its measure, which most rules ask for, counts the
changes from vowels to consonants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_DOUBLE_SUFFIXES: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_MIDDLE_SUFFIXES: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_LAST_SUFFIXES: Final = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _longest_of(suffixes: Iterable[str]) -> re.Pattern[str]:
    return re.compile("(?:" + "|".join(sorted(suffixes, key=len, reverse=True)) + r")\Z")


_DOUBLE: Final = _longest_of(_DOUBLE_SUFFIXES)
_MIDDLE: Final = _longest_of(_MIDDLE_SUFFIXES)
_LAST: Final = _longest_of(_LAST_SUFFIXES)


def stem(word: str) -> str:
    """The stem of a word in lower case; words of one or two characters stay as they are."""
    if len(word) <= 2:
        return word
    word = _without_inflection(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _with_suffix_changed(word, _DOUBLE, _DOUBLE_SUFFIXES)
    word = _with_suffix_changed(word, _MIDDLE, _MIDDLE_SUFFIXES)
    return _without_end(_without_last_suffix(word))


def _shape(word: str) -> str:
    shape = ""
    for letter in word:
        # y is a consonant at the start of a word and after a vowel
        shape += "v" if letter in "aeiou" or (letter == "y" and shape.endswith("c")) else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_in_double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """As in `hop`, whose e was lost in `hoping`."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _without_inflection(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        bare = word.removesuffix(suffix)
        if bare != word and "v" in _shape(bare):
            return _repaired(bare)
    return word


def _repaired(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_in_double_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_short(word) else word


def _with_suffix_changed(word: str, suffix: re.Pattern[str], changes: dict[str, str]) -> str:
    found = suffix.search(word)
    if found is None or _measure(word[: found.start()]) == 0:
        return word
    return word[: found.start()] + changes[found.group()]


def _without_last_suffix(word: str) -> str:
    found = _LAST.search(word)
    if found is None:
        return word
    bare = word[: found.start()]
    if found.group() == "ion" and not bare.endswith(("s", "t")):
        return word
    return bare if _measure(bare) > 1 else word


def _without_end(word: str) -> str:
    if word.endswith("e"):
        bare = word[:-1]
        if _measure(bare) > 1 or (_measure(bare) == 1 and not _ends_short(bare)):
            word = bare
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
