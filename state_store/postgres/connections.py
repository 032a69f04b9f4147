"""Keeps this process's connections to the server: one that writes, and one for readers meanwhile.

A transaction first takes the lock of its schema, so that writers of all machines take turns, in the
order in which they asked. So nothing has to be serialised, ids of events rise in the order of
commits, and the newest token is the one that the transaction sees.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from os import getpid
from typing import Any, TypeVar

from state_store.database.schema import VERSION as OF_THE_TABLES
from state_store.documents.clock import Instant
from state_store.documents.errors import CannotRunError
from state_store.documents.failpoints import active, failpoint
from state_store.postgres.archives import TableArchives
from state_store.postgres.driver import connect, driver
from state_store.postgres.errors import (
    TryAgainError,
    is_lost,
    pause_s,
    persisted,
    translated,
    unreachable,
)
from state_store.postgres.news import News
from state_store.postgres.schema import ARCHIVES_SINCE, lock_key, prepare, version_of
from state_store.postgres.speech import PgRows, Reader, Speaker
from state_store.sql.addresses import Address
from state_store.sql.connection import Connection

T = TypeVar("T")
TRIES = 8
_NOW = "extract(epoch FROM clock_timestamp())::float8"  # seconds, also within a transaction
_KEPT_S = 24 * 3600  # for a row in `commits`: its process asks for it within seconds
_IS_ARMED = active()


class Servers:
    """The connections to the database at `address`, for all threads of this process.

    `patience_s` is the wait for the server, once it was reached, and for other writers. Raises
    CannotRunError if the server cannot be reached or used.
    Without `may_write` no tables are made."""

    is_sparse = False  # the server uses its free pages again
    _writer: Speaker | None
    _reader: Speaker | None
    _news: News
    _writing_thread: int | None
    _has_written: bool
    _last_id: int | None  # of the events, after this process's last commit

    def __init__(self, address: Address, patience_s: float, *, may_write: bool = True) -> None:
        self.address, self.version = address, OF_THE_TABLES
        self.translated = translated(address)
        self._patience_s = patience_s
        self._turn = lock_key(address.schema, "turn")
        self._start()
        with self._one_writer, self.translated:
            try:
                self._prepare(may_write=may_write)
            except driver().Error as error:  # of a server that was there: one more try
                if not is_lost(error):
                    raise
                self._prepare(may_write=may_write)

    def _prepare(self, *, may_write: bool) -> None:
        self._writer = Speaker(self._connected())
        try:
            if may_write:
                prepare(self._writer.raw, self.address)
            tables = version_of(self._writer.raw, self.address)
            self.is_prepared = tables > 0
            has_archives = tables >= ARCHIVES_SINCE
            self.archives = TableArchives(self.reader) if has_archives else None
        except BaseException:
            self._writer.close()
            raise

    # Reading

    def reader(self) -> Connection:
        """The connection that reads: this thread's transaction, or whichever is free."""
        return self._writing() or Reader(self.read)

    def read(self, sql: str, parameters: Sequence[Any]) -> PgRows:
        """Run a query outside of transactions; again on a new connection, if it was lost. The
        server may be away for a while."""
        return persisted(lambda: self._read_once(sql, parameters), self._patience_s)

    def _read_once(self, sql: str, parameters: Sequence[Any]) -> PgRows:
        if self._one_writer.acquire(blocking=False):
            try:
                self._writer = self._usable(self._writer)
                return self._writer.execute(sql, parameters)
            finally:
                self._one_writer.release()
        with self._one_reader:
            self._reader = reader = self._usable(self._reader)
        return reader.execute(sql, parameters)

    # Writing

    @property
    def is_writing(self) -> bool:
        """True if this thread has a transaction open."""
        return self._writing_thread == threading.get_ident()

    @property
    def guesses_hold(self) -> bool:
        """True if no other process has written since this one's last commit."""
        return self._is_next

    def now(self) -> Instant:
        """The server's time: that of the begin within a transaction."""
        if self._writing() is not None:
            return self._began
        with self.translated:
            return _instant(self.read(f"SELECT {_NOW}", ()).fetchone()[0])

    def next_token(self, connection: Connection, newest: int) -> int:
        """The next number of a sequence, which no rollback and no lost row turns back."""
        query, token = "SELECT nextval('tokens')", 0
        while token <= newest:  # more than once only after a restored backup
            token = int(connection.execute(query).fetchone()[0])
        return token

    def begin(self) -> Connection:
        """Begin a transaction in this schema's turn; `end` must follow. The server may be away for
        a while."""
        me = threading.get_ident()
        if self._writing_thread == me:
            raise RuntimeError("a transaction of this thread is open already")
        self._one_writer.acquire()
        try:
            self._key = secrets.token_hex(8)
            writer = persisted(self._begun, self._patience_s)
        except BaseException:
            self._one_writer.release()
            raise
        self._writing_thread = me
        return writer

    def _begun(self) -> Speaker:
        writer = self._writer = self._usable(self._writer)
        forget = "" if self._has_written else f"DELETE FROM commits WHERE at < {_NOW} - {_KEPT_S}; "
        try:
            *_, (_, row) = writer.script(
                f"BEGIN ISOLATION LEVEL READ COMMITTED; {forget}SELECT * FROM "
                f"begin_write({self._turn}, {self._news.lock}, '{self._name}', '{self._key}')"
            )
        except BaseException:
            self._give_up(writer)
            raise
        self._began, self._has_listeners = _instant(row[0]), not row[2]
        self._floor = row[1]
        self._is_next = self._last_id is not None and self._last_id == row[1]
        writer.last_id = row[1]
        return writer

    def end(self, *, good: bool) -> None:
        """Commit durably, or roll back, and let the next writer in."""
        writer = self._writer
        assert writer
        self._last_id = None
        try:
            if good:
                if _IS_ARMED:
                    self._point("store.before_commit")
                self._commit(writer)
                self._last_id = writer.last_id
        except BaseException:
            good = False
            raise
        finally:
            self._writing_thread = None
            if not good:
                self._give_up(writer)
            self._one_writer.release()
        if _IS_ARMED and good:
            self._point("store.after_commit")

    def _commit(self, writer: Speaker) -> None:
        """Commit. If the connection is lost meanwhile, the server is asked what became of it."""
        failed: BaseException
        try:
            tell = f"; NOTIFY {self._news.channel}" if self._has_listeners else ""
            (tag, _), *_ = writer.script(f"COMMIT{tell}")
            if tag == "COMMIT":
                self._has_written = True
                return
            failed = RuntimeError("a statement before had failed")
        except driver().Error as error:
            failed = error
        self._give_up(writer)
        self._committed(f"key FROM commits WHERE writer = '{self._name}'", self._key, failed)

    def _committed(self, what: str, key: object, failed: BaseException) -> Any:
        """The row of the last transaction, which begins with its key. The lock is free only when
        that transaction has ended. Raises TryAgainError if it was not committed."""

        def ask() -> Any:
            writer = self._writer = self._usable(self._writer)
            try:
                *_, (_, row), _ = writer.script(
                    f"BEGIN; SELECT pg_advisory_xact_lock(own({self._turn})); SELECT {what}; END"
                )
            except BaseException:
                self._give_up(writer)
                raise
            return row

        row = persisted(ask, self._patience_s)
        if row is None or row[0] != key:
            why = " ".join(str(failed).split())
            raise TryAgainError(
                f"{self.address.name} did not commit a write ({why}); nothing was recorded, run "
                "again"
            ) from failed
        return row

    def append(
        self, stream: str, kind: str, payload: str, actor: str, wanted: int | None, at: str | None
    ) -> int | None:
        """Append one (type, payload) event in a transaction of one statement, and return its
        version. None if it has to be done in another way. `at` is the time; None for now."""
        wanted_text = None if wanted is None else str(wanted)  # one type for one statement
        sizes = f" {len(stream)} {len(actor)} {len(kind)} "
        with self._one_writer, self.translated:
            if not self._has_written:
                return None
            if _IS_ARMED:
                self._point("store.before_commit")
            writer = self._writer = persisted(lambda: self._usable(self._writer), self._patience_s)
            key = str(secrets.randbits(63))
            given = key, stream, actor, kind, payload, sizes, wanted_text, at
            try:
                version: int | None = writer.raw.execute(self._append, given).fetchone()[0]
            except driver().Error as error:
                self._give_up(writer)
                if not is_lost(error):
                    raise
                what = f"key, version FROM events WHERE id > {self._floor} AND key = {key}"
                version = self._committed(what, int(key), error)[1]
            except BaseException:
                writer.close()
                raise
        if _IS_ARMED and version is not None:
            self._point("store.after_commit")
        return version

    def repeated(self, write: Callable[[], T]) -> T:
        """Do a write; again after a loss of the connection, a deadlock or the like, a few times."""
        for number in range(TRIES - 1):
            try:
                return write()
            except TryAgainError:
                time.sleep(pause_s(number))
        return write()

    # Around

    def wait(self, timeout_s: float) -> None:
        """Wait for a commit of any process. If the server cannot tell, this is a pause."""
        self._news.wait(timeout_s)

    def compact(self, *, whole: bool) -> int:  # noqa: ARG002 - the server does this by itself
        """Give no pages back."""
        return 0

    def faults(self) -> Sequence[str]:
        """Nothing: the server checks its pages when it reads them."""
        return ()

    def close(self) -> None:
        """Close every connection of this process. A later use opens new connections."""
        with self._one_writer, self._one_reader:
            for one in (self._writer, self._reader):
                if one is not None:
                    one.close()
            self._writer = self._reader = None
        self._news.close()

    def start_in_child(self) -> None:
        """Prepare for use after a fork: keep the parent's connections untouched."""
        _inherited.append((self._writer, self._reader, self._news.inherited()))
        self._start()

    def _start(self) -> None:
        self._one_writer, self._one_reader = threading.Lock(), threading.Lock()
        self._news = News(self.address.schema, self._connected)
        self._writer = self._reader = None
        self._writing_thread = self._last_id = None
        self._name, self._key = secrets.token_hex(8), ""
        self._is_next = self._has_written = self._has_listeners = False
        self._floor = 0  # the last event before the last transaction of several statements
        self._append = (
            f"SELECT append_event({self._turn}, {self._news.lock}, '{self._news.channel}', "
            "$1, $2, $3, $4, $5, $6, $7, $8)"
        )
        self._began = _instant(0.0)

    def _writing(self) -> Speaker | None:
        return self._writer if self._writing_thread == threading.get_ident() else None

    def _connected(self) -> Any:
        try:
            return connect(self.address, f"{socket.gethostname()}:{getpid()}", self._patience_s)
        except driver().Error as error:
            raise unreachable(self.address, error) from error

    def _usable(self, held: Speaker | None) -> Speaker:
        """The connection, or a new one if it was lost."""
        return held if held is not None and held.is_usable else Speaker(self._connected())

    def _give_up(self, writer: Speaker) -> None:
        """End the transaction of a connection without a commit."""
        try:
            writer.script("ROLLBACK")
        except driver().Error:
            with suppress(driver().Error):
                writer.close()

    def _point(self, name: str) -> None:
        try:
            failpoint(name)
        except OSError as error:
            raise CannotRunError(f"{self.address.name} cannot be used: {error.strerror}") from error


_inherited: list[object] = []


def _instant(seconds: float) -> Instant:
    """A moment of the server's clock, which stands for the clock of one boot."""
    return Instant("server", seconds, seconds)
