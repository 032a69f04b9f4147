"""Translates SQLite's errors into errors with a remedy. No other module does this."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state_store.documents.errors import CannotRunError
from state_store.documents.interpreter import interpreter_name
from state_store.documents.locks import LockHeld


def rebuild_command(state_dir: Path) -> str:
    """The command that rebuilds the database of this state folder. Valid in any folder."""
    tool = Path(__file__).resolve().parents[2] / "tools" / "verify_state.py"
    return f"{interpreter_name()} {tool} --rebuild --state-dir {state_dir}"


class DamagedStoreError(CannotRunError):
    """The database is damaged. Nothing was changed. `path` is the file."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"the database {path} is damaged: {why}; put back a copy of it, or rebuild it: "
            f"{rebuild_command(path.parent)}"
        )


class StoreBusyError(CannotRunError):
    """Another program held the database for longer than the time-out."""


_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGE = {sqlite3.SQLITE_CORRUPT: "it is malformed", sqlite3.SQLITE_NOTADB: "it is not a database"}
_CANNOT = {
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full; make room and run again",
    sqlite3.SQLITE_IOERR: "cannot be used: the disk reports an error or is full; check it",
    sqlite3.SQLITE_READONLY: "cannot be written: it or its folder is read-only; allow writing it",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that its folder exists and is writable",
    sqlite3.SQLITE_PERM: "cannot be used: permission was denied; allow access to it",
    sqlite3.SQLITE_AUTH: "cannot be used: permission was denied; allow access to it",
    sqlite3.SQLITE_NOMEM: "cannot be used: there is no memory left",
    sqlite3.SQLITE_TOOBIG: "cannot take so large an event; make it smaller",
    sqlite3.SQLITE_NOLFS: "cannot grow: the file system has no large files; move it to another",
}


class translated:
    """Translates SQLite's errors in a block. A class, because it is entered for every event.

    Raises DamagedStoreError, StoreBusyError, CannotRunError. Bugs of ours are not translated.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.Error) and (meant := _meaning(self._path, error)):
            raise meant from error
        if isinstance(error, LockHeld):
            holder = f"process {error.pid}" if error.pid else "a process"
            raise StoreBusyError(
                f"{self._path} cannot be written: {holder} does not end its own write and may "
                f"have been stopped; let it go on or end it, and run again"
            ) from error


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Translate the operating system's errors in the block into CannotRunError."""
    try:
        yield
    except OSError as error:
        raise CannotRunError(f"{path} cannot be used: {error.strerror or error}") from error


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary error code; 0 for errors of Python."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _meaning(path: Path, error: sqlite3.Error) -> CannotRunError | None:
    """The error with a remedy; None for a bug of ours."""
    code = primary_code(error)
    lost = str(error).partition("no such table: ")[2]
    if lost:
        return DamagedStoreError(path, f"its table {lost} is missing")
    if code in _DAMAGE:
        return DamagedStoreError(path, _DAMAGE[code])
    if code in _BUSY:
        return StoreBusyError(f"{path} is locked by another program; end it and run again")
    return CannotRunError(f"{path} {_CANNOT[code]}") if code in _CANNOT else None
