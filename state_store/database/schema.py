"""Defines the tables, and creates, converts and checks the database file.

The file is created completely or not at all. An empty file in place of an earlier database is
damage. A database of the original project is converted.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from state_store.archives import segments
from state_store.archives.chain import START, row_hash
from state_store.database.errors import DamagedStoreError, disk_errors, translated
from state_store.documents.errors import CannotRunError
from state_store.documents.locks import LockQueue

APPLICATION_ID = 0x54494447  # "TIDG"
VERSION = 5  # since which old events lie in archives
SPEND_SINCE, PUBLICATIONS_SINCE, ARCHIVES_SINCE = 2, 3, 5  # the versions that added these tables
_HEADER_BYTES = 100
_ADDED = (
    """CREATE TABLE IF NOT EXISTS spend(
        id INTEGER PRIMARY KEY AUTOINCREMENT, stamp TEXT NOT NULL UNIQUE, day TEXT NOT NULL,
        wave TEXT NOT NULL, item TEXT NOT NULL, number INTEGER NOT NULL, phase TEXT NOT NULL,
        backend TEXT NOT NULL, model TEXT NOT NULL, holder TEXT NOT NULL,
        since REAL NOT NULL, until REAL NOT NULL,
        reserved_tokens INTEGER NOT NULL, reserved_usd INTEGER NOT NULL, settled REAL,
        tokens INTEGER, usd INTEGER, tokens_in INTEGER, tokens_out INTEGER, metered INTEGER,
        priced INTEGER, seconds REAL, verdict TEXT, used_model TEXT, told INTEGER DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS spend_of_wave ON spend(wave)",
    "CREATE INDEX IF NOT EXISTS spend_of_day ON spend(day)",
    "CREATE INDEX IF NOT EXISTS spend_of_kind ON spend(backend, model, phase)",
    "CREATE INDEX IF NOT EXISTS spend_open ON spend(settled) WHERE settled IS NULL",
    "CREATE INDEX IF NOT EXISTS spend_untold ON spend(told) WHERE NOT told",
    """CREATE TABLE IF NOT EXISTS publications(
        id INTEGER PRIMARY KEY, tip TEXT NOT NULL, repo TEXT NOT NULL, wave TEXT NOT NULL,
        branch TEXT NOT NULL, target TEXT, state TEXT NOT NULL, items TEXT NOT NULL,
        open INTEGER NOT NULL, changed REAL NOT NULL, UNIQUE(tip, repo))""",
    "CREATE INDEX IF NOT EXISTS publications_open ON publications(open) WHERE open > 0",
    """CREATE TABLE IF NOT EXISTS item_blocks(
        position INTEGER PRIMARY KEY, stream TEXT NOT NULL, first INTEGER NOT NULL,
        version INTEGER NOT NULL, ids TEXT NOT NULL, fields TEXT NOT NULL)""",
    *segments.STATEMENTS,
    f"PRAGMA user_version = {VERSION}",
)
_STATEMENTS = (
    """CREATE TABLE events(
        id INTEGER PRIMARY KEY, ts REAL NOT NULL, actor TEXT NOT NULL, stream TEXT NOT NULL,
        type TEXT NOT NULL, payload TEXT NOT NULL, version INTEGER NOT NULL, hash BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX events_of_stream ON events(stream, version)",
    """CREATE TRIGGER events_never_change BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TABLE items(
        position INTEGER PRIMARY KEY, stream TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL,
        version INTEGER NOT NULL, UNIQUE(stream, id))""",
    """CREATE TABLE leases(
        resource TEXT PRIMARY KEY, token INTEGER NOT NULL, holder TEXT, boot_id TEXT NOT NULL,
        expires_at REAL NOT NULL, expires_wall REAL NOT NULL, ttl REAL NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS snapshots(
        id INTEGER PRIMARY KEY, ts REAL NOT NULL, stream TEXT NOT NULL,
        event_version INTEGER NOT NULL, projection TEXT NOT NULL, checksum TEXT NOT NULL)""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    *_ADDED,
)
INSERT_EVENT = (
    "INSERT INTO events(ts, actor, stream, type, payload, version, hash) VALUES(?,?,?,?,?,?,?)"
)
INSERT_EVENT_AT = (
    "INSERT INTO events(id, ts, actor, stream, type, payload, version, hash) "
    "VALUES(?,?,?,?,?,?,?,?)"
)


def lock_path(path: Path) -> Path:
    """The lock file of writers. Its presence also shows that there was a database."""
    return path.with_name(f"{path.name}.lock")


def has_wal(path: Path) -> bool:
    """True if the write-ahead log has commits that are not in the database file yet."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def prepare(path: Path) -> None:
    """Create the database if it is missing.

    Raises DamagedStoreError for the remains of a database, CannotRunError if creation fails.
    """
    with translated(path), disk_errors(path):
        if _is_there(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        been_here = lock_path(path).exists() or (path.parent / "journal").is_dir()
        queue = LockQueue(lock_path(path))
        with closing(queue), queue:
            if not _is_there(path):
                _refuse_remains(path, been_here)
                _create(path)


def look(path: Path) -> None:
    """Raise if the database is damaged, foreign or not writable, as opening would.

    Changes nothing. `verify` of an open store checks more.
    """
    with translated(path), disk_errors(path):
        if not _is_there(path):
            _refuse_remains(path, been_here=lock_path(path).exists())
            return
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            opened.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
            check_ours(opened, path)
            message = opened.execute("PRAGMA quick_check(1)").fetchone()[0]
            if message != "ok":
                raise DamagedStoreError(path, message)
    for file in (path, lock_path(path), path.with_name(f"{path.name}-wal")):
        if file.exists() and not os.access(file, os.W_OK):
            raise CannotRunError(f"{file} is not writable; allow writing")


def check_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """True if the tables are ours; False if they are the original project's.

    Raises CannotRunError for the database of another program or of a newer version.
    """
    if _pragma(connection, "application_id") == APPLICATION_ID:
        if _pragma(connection, "user_version") > VERSION:
            raise CannotRunError(f"{path} was written by a newer tidegate; use the newer version")
        return True
    columns = {row[1] for row in connection.execute("PRAGMA table_info(events)")}
    if not {"ts", "actor", "stream", "type", "payload", "version"} <= columns:
        raise CannotRunError(f"{path} is the database of another program; name another file")
    return False


def version_of(connection: sqlite3.Connection) -> int:
    """The version of our tables; an older one lacks what later versions added."""
    return _pragma(connection, "user_version")


def upgrade(connection: sqlite3.Connection) -> None:
    """Add what an older version of ours lacks, in the open transaction."""
    for statement in _ADDED:
        connection.execute(statement)


def take_over(connection: sqlite3.Connection, path: Path) -> None:
    """Convert a database of the original project to our tables, in the open transaction."""
    connection.execute("ALTER TABLE events RENAME TO events_of_source")
    _make_tables(connection)
    heads: dict[str, tuple[int, bytes]] = {}
    old = connection.execute(
        "SELECT ts, actor, stream, type, payload, version FROM events_of_source ORDER BY id"
    )
    for row in old:
        version, link = heads.get(row[2], (0, START))
        if row[5] != version + 1:
            raise DamagedStoreError(path, f"stream {row[2]} has no version {version + 1}")
        heads[row[2]] = (version + 1, row_hash(link, row))
        connection.execute(INSERT_EVENT, (*row, heads[row[2]][1]))
    connection.execute("DROP TABLE events_of_source")


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _STATEMENTS:
        connection.execute(statement)


def _is_there(path: Path) -> bool:
    # The file must not be opened, not even to read its first bytes: closing it would release all
    # POSIX locks of this process on it, and another process could delete the log that our
    # connections still write. SQLite will find out if it is a database.
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    if 0 < size < _HEADER_BYTES:
        raise DamagedStoreError(path, "it is too short for a database")
    return size > 0


def _refuse_remains(path: Path, been_here: bool) -> None:
    if has_wal(path):
        raise DamagedStoreError(path, "it is empty or missing, but its log has commits")
    if been_here and path.exists():
        raise DamagedStoreError(path, "it is empty, but was not before")


def _create(path: Path) -> None:
    """Create the database under another name first, so that a killed process leaves no part of
    it."""
    new = path.with_name(f"{path.name}.{os.urandom(4).hex()}.new")
    try:
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            # If the file system has no shared memory, SQLite keeps its rollback journal.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN")
            _make_tables(connection)
            connection.execute("COMMIT")
        new.replace(path)
    finally:
        for left in (new, *(new.with_name(new.name + end) for end in ("-wal", "-shm", "-journal"))):
            with suppress(OSError):
                left.unlink()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
