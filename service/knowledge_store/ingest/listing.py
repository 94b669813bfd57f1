"""Lists the files of a folder and reads one of them, without ever following a link.

A folder that cannot be listed is reported, so that nobody takes what is in it for deleted. Both functions block: call
them in a thread.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from knowledge_store_sdk.errors import FatalSync

SkipReason = Literal["link", "special", "duplicate_name", "too_large", "binary", "unknown_encoding", "no_text"]
# a named pipe put in the place of a listed file must not block its reader, nor a link lead out of the folder
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file, or what cannot be one: then `skip` says why. `uri` is `file:///` and its path below the root."""

    path: Path
    uri: str
    skip: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """`files` are ordered by path. `unreadable` are the URIs of the folders that could not be listed, each with the
    reason.
    """

    files: tuple[Listed, ...]
    unreadable: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, and when it was last changed."""

    data: bytes
    modified_at: datetime


def list_folder(root: Path, patterns: Sequence[str]) -> Listing:
    """The files below `root` whose names match a pattern, whatever their case. Names that begin with a dot are passed
    over.

    Raises FatalSync where `root` cannot be listed.
    """
    found: dict[str, Listed] = {}
    unreadable: list[tuple[str, str]] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if folder == root:
                raise FatalSync(f"{root} cannot be listed: {error.strerror}") from None
            unreadable.append((f"{file_uri(root, folder)}/", str(error.strerror)))
            continue
        for entry in ordered:
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                folders.append(Path(entry.path))
            elif any(fnmatch(entry.name.lower(), pattern.lower()) for pattern in patterns):
                one = Listed(Path(entry.path), file_uri(root, entry.path), _why_not(entry))
                if one.uri in found:  # a name that differs only in how its accents are composed
                    one = Listed(one.path, f"{one.uri}#{len(found)}", "duplicate_name")
                found[one.uri] = one
    return Listing(tuple(sorted(found.values(), key=lambda one: one.uri)), tuple(unreadable))


def read_file(path: Path, max_bytes: int) -> Content | SkipReason:
    """The file's bytes, or why it has none to give. Raises OSError where it cannot be read."""
    try:
        number = os.open(path, _FLAGS)
    except OSError:
        if path.is_symlink():
            return "link"
        raise
    with os.fdopen(number, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return "special"
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        return "too_large"
    return Content(data, datetime.fromtimestamp(status.st_mtime, UTC))


def file_uri(root: Path, path: str | os.PathLike[str]) -> str:
    """The identity of a file within its folder, wherever that is mounted: `file:///runbooks/isr%20shrink.md`.

    Composed and decomposed accents give the same (NFC); bytes that are no UTF-8 stand as they are, escaped.
    """
    parts = Path(path).relative_to(root).parts
    return "file:///" + "/".join(quote(os.fsencode(unicodedata.normalize("NFC", part))) for part in parts)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _why_not(entry: os.DirEntry[str]) -> SkipReason | None:
    if entry.is_symlink():
        return "link"
    return None if entry.is_file(follow_symlinks=False) else "special"


def is_below(uri: str, folders: Sequence[str]) -> bool:
    """Whether a file stands in one of these folders."""
    return any(uri.startswith(folder) for folder in folders)
