"""How the store names what it keeps. Ids of any length and any characters become short names of fixed form.

    document   D          its `_id`, when it was written by itself
    document   D~P        its `key`, when it also names a parent: the parent is then read in the same round trip
    document   P.G.D      its `_id` and `key`, when it was written as a part of parent P, in generation G of P's set
    parent     P          its `_id`

D and P are 22 characters of base64 of a SHA-256 (132 bits); G is random, 8 characters. `.` and `~` are in none of them.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable
from typing import NamedTuple

from knowledge_store_sdk.errors import InvalidRequest


def short(id: str) -> str:
    """The name of an id: 22 characters, equal for equal code points only."""
    return base64.urlsafe_b64encode(hashlib.sha256(id.encode()).digest()[:17])[:22].decode()


def new_generation() -> str:
    """A name that no set had before: 8 random characters."""
    return secrets.token_urlsafe(6)


def single_key(id: str, parent_id: str | None) -> str:
    """The key of a document that is written by itself."""
    return short(id) if parent_id is None else f"{short(id)}~{short(parent_id)}"


def member_key(parent: str, generation: str, id: str) -> str:
    """The key of a document that is written as a part of a set."""
    return f"{parent}.{generation}.{short(id)}"


def stored_id(key: str) -> str:
    """The `_id` under which a key's document is stored."""
    return key.partition("~")[0]


def parent_of(key: str) -> str | None:
    """The name of the parent that decides whether this version counts, None for a document without one."""
    if "." in key:
        return key.partition(".")[0]
    return key.partition("~")[2] or None


def generation_of(key: str) -> str | None:
    """The generation of a member, None for a document that was written by itself."""
    return key.split(".")[1] if "." in key else None


class Version(NamedTuple):
    """A stored version: which document of the index, and which state of it."""

    stored_id: str
    seq_no: int
    primary_term: int

    def __str__(self) -> str:
        return f"{self.stored_id}:{self.seq_no}:{self.primary_term}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Raises InvalidRequest for a version that is not of this index."""
        try:
            stored, seq_no, primary_term = text.split(":")
            return cls(stored, int(seq_no), int(primary_term))
        except ValueError:
            raise InvalidRequest(f"{text!r} is no version of a document here") from None

    @property
    def is_member(self) -> bool:
        return "." in self.stored_id


class Verdict(NamedTuple):
    """Whether a generation was the current one by the manifest of this sequence number; -1 where there was none.

    A generation that was not current may have been written and not committed yet, and be the current one a moment
    later: of two verdicts on one generation the later manifest's counts.
    """

    generation: str
    manifest: int
    current: bool

    def __str__(self) -> str:
        return f"{self.generation}:{self.manifest}:{int(self.current)}"


def excluded(named: Iterable[str]) -> tuple[list[str], list[str]]:
    """The generations that are not current, and the single keys, among what `fetch` named superseded."""
    latest: dict[str, Verdict] = {}
    keys: list[str] = []
    for text in named:
        generation, _, rest = text.partition(":")
        if not rest:
            keys.append(text)
            continue
        manifest, _, current = rest.partition(":")
        verdict = Verdict(generation, int(manifest), current == "1")
        if generation not in latest or verdict.manifest > latest[generation].manifest:
            latest[generation] = verdict
    return sorted(one.generation for one in latest.values() if not one.current), sorted(keys)
