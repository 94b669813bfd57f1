"""The file: one SQLite database that one process owns.

    lock beside it -> open -> check the version -> create what is missing -> connections

Written in WAL mode with `synchronous = FULL`: a transaction that returned survives the death of the process and of the
machine's power, and readers never wait for the writer.
"""

from __future__ import annotations

import sqlite3
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knowledge_store_sdk.errors import ConfigError, PathNotUsable, WrongVersion

SCHEMA_VERSION: Final = 1
_BUSY_TIMEOUT_S: Final = 10.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- Every write makes a new row, and a number is never used again: it is the document's version and a candidate's key.
-- Times are microseconds since 1970 in UTC. `parent_id` is the set's parent, or else what the metadata says.
CREATE TABLE IF NOT EXISTS documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text_hash TEXT NOT NULL,
    source TEXT NOT NULL,
    project_id TEXT,
    member_of TEXT,
    parent_id TEXT,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    seen_at INTEGER NOT NULL,
    tags TEXT NOT NULL,
    length INTEGER NOT NULL,
    terms BLOB NOT NULL,
    counts BLOB NOT NULL,
    document TEXT NOT NULL,
    vector BLOB
);
CREATE INDEX IF NOT EXISTS documents_by_text ON documents (text_hash);
CREATE INDEX IF NOT EXISTS documents_by_parent ON documents (parent_id) WHERE parent_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS parents (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    uri TEXT,
    title TEXT,
    revision TEXT,
    fingerprint TEXT,
    seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS parents_by_source ON parents (source, id);
"""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A database that this process owns for as long as it holds the lock. All connections are in autocommit."""

    path: Path
    lock: sqlite3.Connection

    def connect(self) -> sqlite3.Connection:
        # Each connection is used by one thread at a time, and closed by another one at the end.
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def release(self) -> None:
        self.lock.close()


def open_file(path: Path) -> StoreFile:
    """Takes the file and brings it to this version's schema. Raises ConfigError: in use, not writable, no store."""
    try:
        file = StoreFile(path, _locked(path))
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    try:
        connection = file.connect()
        try:
            _create(connection, path)
        finally:
            connection.close()
    except sqlite3.Error as error:
        file.release()
        raise _unusable(path, error) from error
    except ConfigError:
        file.release()
        raise
    return file


def _locked(path: Path) -> sqlite3.Connection:
    """SQLite's own lock on a file beside the store: it holds on every system, and ends with the process that has it."""
    lock = sqlite3.connect(f"{path}.lock", timeout=0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise PathNotUsable(
                f"the store {path} is in use by another process, and one process owns it: speak to the service that "
                "has it open with `--url`, or set `embedded.path` to another file"
            ) from None
        raise
    return lock


def _create(connection: sqlite3.Connection, path: Path) -> None:
    [(found,)] = connection.execute("PRAGMA user_version")
    if found > SCHEMA_VERSION:
        raise WrongVersion(
            f"the store {path} was written by a newer version of knowledge-store (format {found}; this one reads "
            f"{SCHEMA_VERSION}): install that version, or set `embedded.path` to another file"
        )
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('store', ?)", (uuid.uuid4().hex,))
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('epoch', '0')")


def _unusable(path: Path, error: sqlite3.Error) -> PathNotUsable:
    return PathNotUsable(
        f"the store {path} cannot be opened ({error}): set `embedded.path` to a file in a folder that exists and that "
        "this process may write to"
    )
