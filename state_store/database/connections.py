"""Keeps connections to the database open: a reader per thread, one writer per process.

Processes queue at a file lock before they write. Without the lock SQLite prefers the running
process, and the slowest of sixteen writers gets a hundredth of its share.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from state_store.archives.files import FileArchives
from state_store.database.errors import primary_code, translated
from state_store.database.schema import (
    ARCHIVES_SINCE,
    VERSION,
    check_ours,
    has_wal,
    lock_path,
    prepare,
    take_over,
    upgrade,
    version_of,
)
from state_store.documents.errors import CannotRunError
from state_store.documents.failpoints import active, failpoint
from state_store.documents.files import StagedFile
from state_store.documents.locks import QUEUE_PATIENCE_S, LockQueue
from state_store.sql.connection import Archives, writing

T = TypeVar("T")
LOOK_EVERY_S = 0.05
FEW_PAGES = 250  # that are not worth the work
_PAGES = 500  # that one transaction gives back
_IS_ARMED = active()  # read once, because every event passes here


class Database:
    """The database at `path`, for all threads of this process.

    Opening creates the file if it is missing. `fill` is called at the end of the transaction that
    converts a database of the original project. `busy_timeout_s` is the wait for programs that do
    not use the queue, `queue_patience_s` the wait in the queue. Raises DamagedStoreError,
    StoreBusyError, CannotRunError.
    """

    def __init__(
        self,
        path: Path,
        fill: Callable[[sqlite3.Connection], None],
        busy_timeout_s: float,
        queue_patience_s: float = QUEUE_PATIENCE_S,
    ) -> None:
        self.path = path
        self.translated = translated(path)
        self._archives = FileArchives(path.parent, StagedFile)
        self._file = str(path.absolute())  # a text, which `stat` takes in half the time
        self._identity: tuple[int, int] | None = None
        self._busy_timeout_s = busy_timeout_s
        self._queue_patience_s = queue_patience_s
        self._writer: _Held | None = None
        self._lock: LockQueue | None = None
        self._writing_thread: int | None = None
        self._version = VERSION
        self._seen: tuple[sqlite3.Connection, int] | None = None  # by the writer
        self._start()
        prepare(path)
        with translated(path):
            ours = check_ours(self.reader(), path)
        if not ours:
            with writing(self):
                connection = self.reader()
                if not check_ours(connection, path):
                    take_over(connection, path)
                    fill(connection)
        self._version = version_of(self.reader())

    @property
    def guesses_hold(self) -> bool:
        """True if no other process has written since this was last asked: one may have archived the
        rows at which a wrong guess would fail."""
        assert self._writer
        connection, seen = self._writer.connection, self._seen
        for (version,) in connection.execute("PRAGMA data_version"):
            if seen is not None and seen[1] == version and seen[0] is connection:
                return True
            self._seen = connection, version
        return False

    @property
    def archives(self) -> Archives | None:
        """The files of the state folder; None for a version without a table of them."""
        return self._archives if self.version >= ARCHIVES_SINCE else None

    @property
    def is_sparse(self) -> bool:
        """True if more than a quarter of the file has no content."""
        free = self._pragma("freelist_count")
        return free > max(self._pragma("page_count") // 4, FEW_PAGES)

    def repeated(self, write: Callable[[], T]) -> T:
        """Call `write` once. In a file, a write that failed would fail again."""
        return write()

    def next_token(self, _: object, newest: int) -> int:
        """The next number. No other process writes during a transaction."""
        return newest + 1

    def wait(self, timeout_s: float) -> None:
        """Pause before the next look, which takes less time in a file than a signal."""
        time.sleep(min(timeout_s, LOOK_EVERY_S))

    def faults(self) -> Iterator[str]:
        """SQLite's own check of the file."""
        for (message,) in self.reader().execute("PRAGMA integrity_check").fetchall():
            if message != "ok":
                yield message

    def reader(self) -> sqlite3.Connection:
        """This thread's connection; inside `writing` the writer's, which sees its own writes."""
        if self._writing_thread == threading.get_ident():
            assert self._writer
            return self._writer.connection
        mine: _Held | None = getattr(self._of_thread, "held", None)
        if mine is None or mine.closed:
            mine = self._of_thread.held = _Held(self._connection(may_be_read_only=True))
            self._held.add(mine)
        return mine.connection

    @property
    def version(self) -> int:
        """The version of the file; the first write upgrades an older one."""
        if self._version < VERSION:
            self._version = version_of(self.reader())
        return self._version

    @property
    def is_writing(self) -> bool:
        """True if this thread has a transaction open."""
        return self._writing_thread == threading.get_ident()

    def begin(self) -> sqlite3.Connection:
        """Begin a transaction of this thread; `end` must follow. Errors are not translated."""
        me = threading.get_ident()
        if self._writing_thread == me:
            raise RuntimeError("a transaction of this thread is open already")
        self._one_writer.acquire()
        try:
            if self._lock is None:
                self._lock = LockQueue(lock_path(self.path), self._queue_patience_s)
            self._lock.__enter__()
            try:
                if self._writer is None:
                    self._writer = _Held(self._connection(may_be_read_only=False))
                    self._identity = _identity(self._file)
                connection = self._writer.connection
                self._require_in_place()
                connection.execute("BEGIN IMMEDIATE")
                if self._version < VERSION:  # only now: reading needs no permission to write
                    self._upgrade(connection)
            except BaseException:
                self._lock.__exit__()
                raise
        except BaseException:
            self._one_writer.release()
            raise
        self._writing_thread = me
        return connection

    @staticmethod
    def _upgrade(connection: sqlite3.Connection) -> None:
        try:
            upgrade(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def end(self, *, good: bool) -> None:
        """Commit durably, or roll back, and let the next writer in. Errors are not translated."""
        assert self._writer
        assert self._lock
        connection = self._writer.connection
        try:
            if good:
                if _IS_ARMED:
                    self._point("store.before_commit")
                connection.execute("COMMIT")
        finally:
            self._writing_thread = None
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            finally:
                self._lock.__exit__()
                self._one_writer.release()
        if good:
            self._version = VERSION
        if good and _IS_ARMED:
            self._point("store.after_commit")

    def compact(self, *, whole: bool) -> int:
        """Give the free pages of the file back, a few in each transaction, and return their number.
        With `whole` a file that cannot do so is written anew, while all others wait."""
        pages = self._pragma("page_count")
        if self._pragma("auto_vacuum"):
            while left := self._pragma("freelist_count"):
                self._run_alone(f"PRAGMA incremental_vacuum({_PAGES})")
                if self._pragma("freelist_count") >= left:
                    break
        elif whole and self._pragma("freelist_count"):
            self._run_alone("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        return pages - self._pragma("page_count")

    def _run_alone(self, script: str) -> None:
        """Run statements that make their own transactions, in the turn of a writer."""
        connection = self.begin()
        try:
            connection.execute("ROLLBACK")  # the turn stays ours
            connection.executescript(script)  # which takes all steps of a pragma
        finally:
            self.end(good=False)

    def _pragma(self, name: str) -> int:
        found: int = self.reader().execute(f"PRAGMA {name}").fetchone()[0]
        return found

    def close(self) -> None:
        """Close every connection of this process. A later use opens new connections."""
        with self._one_writer:
            for held in (*self._held, self._writer):
                if held is not None:
                    held.close()
            self._writer = None
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def start_in_child(self) -> None:
        """Prepare for use after a fork: keep the parent's connections untouched."""
        # SQLite forbids even closing a connection of the parent process.
        _inherited.append((tuple(self._held), self._writer, self._of_thread))
        self._start()

    def _start(self) -> None:
        self._of_thread = threading.local()
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._one_writer = threading.Lock()
        self._writer = self._lock = self._writing_thread = None

    def _point(self, name: str) -> None:
        try:
            failpoint(name)
        except OSError as error:
            raise CannotRunError(f"{self.path} cannot be used: {error.strerror}") from error

    def _connection(self, *, may_be_read_only: bool) -> sqlite3.Connection:
        connection = _open(self.path, may_be_read_only=may_be_read_only)
        connection.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")
        return connection

    def _require_in_place(self) -> None:
        # SQLite would go on in a file without a name, and lose all of it.
        if self._identity is None or _identity(self._file) != self._identity:
            raise CannotRunError(
                f"the database {self.path} was removed or replaced while it was in use; "
                "check that no other program cleans its folder, and run again"
            )


@contextmanager
def looked_into(
    path: Path, *, without_log: bool = False
) -> Iterator[tuple[sqlite3.Connection, int]]:
    """A connection that changes no file, and the version of the tables. `without_log` also leaves
    the index of the log as it is, and the newest commits out. Raises as opening the store would."""
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if without_log else ''}"
    with translated(path), closing(sqlite3.connect(uri, uri=True)) as connection:
        yield connection, version_of(connection)


class _Held:
    """A connection that is closed at the end of its thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self.connection.close()

    def __del__(self) -> None:
        self.close()


_inherited: list[object] = []


def _identity(path: str) -> tuple[int, int] | None:
    """Device and inode, which change if the file is replaced; None without a file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for every event
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(path: Path, *, may_be_read_only: bool) -> sqlite3.Connection:
    """Open a connection and read the file once, to find damage."""
    modes = ["mode=rw"]
    if may_be_read_only:
        modes += ["mode=ro", "mode=ro&immutable=1"]
    with translated(path):
        for mode in modes:
            if "immutable" in mode and has_wal(path):
                raise CannotRunError(
                    f"{path} has commits in {path.name}-wal that cannot be read while its folder "
                    f"is read-only; allow writing there"
                )
            try:
                return _connect(path, mode)
            except sqlite3.OperationalError as error:
                known = primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
                if mode == modes[-1] or not known:
                    raise
    raise AssertionError("the last mode returns or raises")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # EXTRA is FULL in WAL mode; with a rollback journal it flushes the folder too.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
