"""The ends of a copy in a SQLite file. The new file has another name until it is whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from state_store.archives.files import FileArchives
from state_store.database.connections import looked_into
from state_store.database.errors import disk_errors, translated
from state_store.database.schema import ARCHIVES_SINCE, has_wal, lock_path
from state_store.database.store import EventStore
from state_store.documents.clock import Instant, SystemClock
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.failpoints import failpoint
from state_store.documents.files import BadFileError, read_json, sync_folder, write_json_atomic
from state_store.documents.locks import LockQueue
from state_store.sql.connection import Archives
from state_store.sql.tables import EVENTS, OTHERS, Table, count_of

_HALT = ".HALT"
_MOST_BYTES = 2**16  # of a halt file
_AT_WORK_S = 0.2  # the wait for another copy
_ENDINGS = ("", "-wal", "-shm", "-journal")


class _SqliteEnd:
    """The parts that both ends have in common."""

    _connection: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.state_dir = path, str(path), path.parent
        self.translated = translated(path)

    def reader(self) -> sqlite3.Connection:
        """The connection."""
        return self._connection

    def faults(self) -> Iterator[str]:
        """SQLite's own check of the file."""
        for (message,) in self._connection.execute("PRAGMA integrity_check").fetchall():
            if message != "ok":
                yield message

    def has(self, table: Table) -> bool:
        """True if the file has this table."""
        query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self._connection.execute(query, (table.name,)).fetchone() is not None

    def now(self) -> Instant:
        """The time of this machine."""
        return SystemClock().now()


class FileSource(_SqliteEnd):
    """The store in a file, which is only read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if not path.is_file():
            raise InputError(f"there is no database {path}")
        self._open = ExitStack()
        self._connection, version = self._open.enter_context(looked_into(path))
        if not version:
            self.close()
            raise CannotRunError(
                f"{path} has no tables of this version; let a run convert it first, and copy then"
            )
        self._connection.isolation_level = None
        self.archives = FileArchives(path.parent) if version >= ARCHIVES_SINCE else None
        self._begin()

    def _begin(self) -> None:
        """Begin to read: the first look sets the moment."""
        with self.translated:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT 1 FROM events LIMIT 1").fetchone()

    def renewed(self) -> None:
        """See what was written until now."""
        self._connection.execute("COMMIT")
        self._begin()

    def halt_reason(self) -> str | None:
        """The reason in the halt file of the state folder, which stays there."""
        file = self.path.parent / _HALT
        if not os.path.lexists(file):
            return None
        try:
            held = read_json(file, _MOST_BYTES)
        except BadFileError:  # a file by hand
            held = None
        reason = held.get("reason") if isinstance(held, dict) else None
        return reason if isinstance(reason, str) and reason.strip() else f"there is a file {file}"

    def close(self) -> None:
        """Close the connection."""
        self._open.close()


class FileTarget(_SqliteEnd):
    """A new file in a state folder."""

    archives: Archives | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._part = path.with_name(f"{path.name}.copying")
        self._lock: LockQueue | None = None
        self._is_refused = False
        self._looked = ExitStack()

    @property
    def is_begun(self) -> bool:
        """True if an earlier copy left its part."""
        return self._part.exists()

    @property
    def has_rows(self) -> bool:
        """True if there is a store with rows in the folder."""
        if not self.path.exists():
            return False
        self._connection, version = self._looked.enter_context(looked_into(self.path))
        tables = [one for one in (EVENTS, *OTHERS) if self.has(one)]
        return not version or any(count_of(self._connection, one) for one in tables)

    def begin(self) -> None:
        """Make the tables in a file of another name, or open the one of an earlier copy."""
        with disk_errors(self._part), translated(self._part):
            self._looked.close()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = LockQueue(lock_path(self._part), _AT_WORK_S)
            try:
                lock.__enter__()
            except BaseException:
                self._is_refused = True
                lock.close()
                raise
            self._lock = lock
            self._connect()

    def _connect(self) -> None:
        if not self._part.exists():
            new = self._part.with_name(f"{self._part.name}.new")
            self._remove(new)
            EventStore(new).close()
            lock_path(new).unlink(missing_ok=True)
            new.replace(self._part)
        self._connection = sqlite3.connect(self._part, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")

    def start_over(self) -> None:
        """Begin with a new file."""
        self._connection.close()
        self._remove(self._part)
        self._connect()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A block that is committed durably at its end."""
        with translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                failpoint("copy.before_commit")
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            failpoint("copy.after_commit")

    def clear(self, table: Table) -> None:
        """Delete the rows of a table that an earlier copy left."""
        self._connection.execute(f"DELETE FROM {table.name}")

    def put(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""
        marks = ", ".join("?" * len(table.columns.split(",")))
        self._connection.executemany(
            f"INSERT INTO {table.name}({table.columns}) VALUES({marks})", rows
        )

    def count_on(self, tables: Sequence[Table], token: int) -> None:
        """Nothing: SQLite counts on after the rows that are there."""

    def put_halt(self, reason: str) -> None:
        """Halt the runs of the state folder."""
        if not os.path.lexists(self.path.parent / _HALT):
            write_json_atomic(self.path.parent / _HALT, {"reason": reason, "timestamp": None})

    def finish(self) -> None:
        """Give the file its name."""
        with disk_errors(self.path), translated(self.path):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
            if has_wal(self._part) or has_wal(self.path):
                raise CannotRunError(f"another program has {self.path} open; end it, and run again")
            failpoint("copy.before_finish")
            self._part.replace(self.path)
            sync_folder(self.path.parent)
            failpoint("copy.after_finish")

    def close(self) -> None:
        """Close the connection, and let other copies in."""
        self._looked.close()
        with suppress(AttributeError):
            self._connection.close()
        if not (self._is_refused or self._part.exists()):  # else the lock is in use, or will be
            lock_path(self._part).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.__exit__()
            self._lock.close()
            self._lock = None

    def _remove(self, file: Path) -> None:
        for end in _ENDINGS:
            file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
