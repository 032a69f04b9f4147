"""What SQLite's errors mean to a person: the one place where they are translated."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state_store.documents.errors import CannotRunError
from state_store.documents.locks import LockHeld


def rebuild_command(state_dir: Path) -> str:
    """What to type, wherever one is, to have the database of this state folder mended."""
    tool = Path(__file__).resolve().parents[1] / "tools" / "verify_state.py"
    return f"python {tool} --rebuild --state-dir {state_dir}"


class DamagedStoreError(CannotRunError):
    """The database is there and is not whole; nothing was changed. `path` is the file."""

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"the database {path} is damaged: {why}; put back a copy of it, or rebuild it: "
            f"{rebuild_command(path.parent)}"
        )


class StoreBusyError(CannotRunError):
    """Another program held the database for longer than we wait."""


_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGE = {sqlite3.SQLITE_CORRUPT: "it is malformed", sqlite3.SQLITE_NOTADB: "it is no database"}
_CANNOT = {
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full; make room and run again",
    sqlite3.SQLITE_IOERR: "cannot be used: the disk reports an error or is full; check it",
    sqlite3.SQLITE_READONLY: "cannot be written: its folder or it is read-only; allow writing it",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that its folder exists and may be written",
    sqlite3.SQLITE_PERM: "cannot be used: permission was denied; allow access to it",
    sqlite3.SQLITE_AUTH: "cannot be used: permission was denied; allow access to it",
    sqlite3.SQLITE_NOMEM: "cannot be used: there is no memory left",
    sqlite3.SQLITE_TOOBIG: "cannot take so large an event; make it smaller",
    sqlite3.SQLITE_NOLFS: "cannot grow: the file system knows no large files; move it elsewhere",
}


class translated:
    """Turn what SQLite raises inside into our errors; a class, being entered for every event.

    Raises DamagedStoreError, StoreBusyError, CannotRunError; a bug of ours passes as it is.
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
            raise _kept_from(self._path, error.pid) from error


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system raises inside into CannotRunError."""
    try:
        yield
    except OSError as error:
        raise CannotRunError(f"{path} cannot be used: {error.strerror or error}") from error


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's code without its detail; 0 for errors of Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _kept_from(path: Path, pid: int | None) -> StoreBusyError:
    holder = f"process {pid}" if pid else "a process"
    return StoreBusyError(
        f"{path} cannot be written: {holder} does not end its own write and may have been "
        f"stopped; let it go on or end it, and run again"
    )


def _meaning(path: Path, error: sqlite3.Error) -> CannotRunError | None:
    code = primary_code(error)
    if code in _DAMAGE:
        return DamagedStoreError(path, _DAMAGE[code])
    if code in _BUSY:
        return StoreBusyError(f"{path} is locked by another program; end it and run again")
    return CannotRunError(f"{path} {_CANNOT[code]}") if code in _CANNOT else None
