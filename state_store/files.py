"""Files that are whole or absent: atomic writes, careful reads, and a lock between processes.

Knows nothing of what the files mean. A link in the place of a written file is replaced, never
followed; a read never waits, whatever lies there.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from state_store.errors import CannotRunError, InputError, StoppedByPolicyError

MAX_BYTES = 64 * 2**20
_LOCKED_BYTE = 2**30  # Windows locks bytes against reading too; this one is far past the pid
_LOCK_POLL_S = 0.05
_REPLACE_WAITS_S = (0.01, 0.05, 0.2, 0.5)


class BadFileError(InputError):
    """A file is there (or should be) and cannot be used; `path` is the file."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"{path} {why}")


class MissingFileError(BadFileError):
    """The file does not exist."""


class LockHeld(StoppedByPolicyError):
    """Another process has the lock; `pid` is who, or None when it did not say."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path, self.pid = path, pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is locked by {holder}; wait until it has ended")


def write_json_atomic(path: Path, obj: Any, indent: int | None = 2) -> None:
    """Replace `path` by `obj` as JSON and a newline; see `write_text_atomic`.

    Raises ValueError or TypeError, writing nothing, when `obj` is no JSON (NaN is none).
    """
    text = json.dumps(obj, indent=indent, allow_nan=False, ensure_ascii=False)
    if not _is_utf8(text):  # half a surrogate pair, as in an undecodable file name
        text = json.dumps(obj, indent=indent, allow_nan=False)
    write_text_atomic(path, text + "\n")


def write_text_atomic(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8, durably: after a crash the file is the old or the new one.

    Makes the folder when missing and keeps the permissions of the file it replaces.
    Raises CannotRunError naming the file when the disk says no.
    """
    write_bytes_atomic(path, text.encode("utf-8"))


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """`write_text_atomic` for bytes."""
    temporary = path.parent / f".{os.urandom(8).hex()}.tmp"  # short: `path` may be at the limit
    try:
        _make_folder(path.parent)
        _write_new(temporary, data, _mode_of(path))
        _replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise CannotRunError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a regular UTF-8 file, without a byte order mark; raises BadFileError."""
    try:
        return _read_regular(path, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFileError(path, f"is not UTF-8 (byte {error.start})") from error


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The one JSON document in a file; NaN, infinities and duplicate keys are refused.

    Raises BadFileError, MissingFileError when there is no such file.
    """
    text = read_text(path, max_bytes)
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError as error:
        raise BadFileError(path, "is nested too deeply") from error
    except ValueError as error:
        raise BadFileError(path, f"is not valid JSON: {error}") from error


@contextmanager
def exclusive_lock(path: Path, *, blocking: bool = True) -> Iterator[None]:
    """Hold the lock at `path` against all other processes and threads while inside.

    The operating system frees it when the holder dies. The file stays, or a newcomer could lock
    a deleted one. Raises LockHeld when not blocking and taken, CannotRunError when it cannot be.
    """
    try:
        _make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        raise CannotRunError(f"{path} cannot be locked: {error.strerror or error}") from error
    try:
        _acquire(path, descriptor, blocking=blocking)
        _say(descriptor, str(os.getpid()))
        try:
            yield
        finally:
            _say(descriptor, "")
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _acquire(path: Path, descriptor: int, *, blocking: bool) -> None:
    try:
        _lock(descriptor, blocking=blocking)
    except BlockingIOError as error:
        raise LockHeld(path, _holder(descriptor)) from error
    except OSError as error:
        raise CannotRunError(f"{path} cannot be locked: {error.strerror or error}") from error


def _holder(descriptor: int) -> int | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, 32).strip()
    return int(text) if text.isdigit() else None


def _say(descriptor: int, text: str) -> None:
    with suppress(OSError):  # a full disk takes the holder's name, not the lock
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text.encode("ascii"))


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, blocking: bool) -> None:
        while True:
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except PermissionError as error:
                if not blocking:
                    raise BlockingIOError(*error.args) from error
            time.sleep(_LOCK_POLL_S)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _replace(source: Path, target: Path) -> None:
        for wait_s in _REPLACE_WAITS_S:  # a virus scanner or a reader may have it open just now
            try:
                source.replace(target)
                return
            except PermissionError:
                time.sleep(wait_s)
        source.replace(target)

    def _sync_folder(folder: Path) -> None:
        """Windows cannot flush a folder."""

else:
    import fcntl

    def _lock(descriptor: int, *, blocking: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _replace(source: Path, target: Path) -> None:
        source.replace(target)

    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_folder(folder: Path) -> None:
    if folder.is_dir() or folder == folder.parent:
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _write_new(path: Path, data: bytes, mode: int | None) -> None:
    with path.open("xb") as stream:
        if mode is not None:
            path.chmod(mode)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _mode_of(path: Path) -> int | None:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _read_regular(path: Path, max_bytes: int) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)  # non-blocking, or a FIFO would wait for a writer
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadFileError(path, "is not a regular file")
            data = stream.read(max_bytes + 1)
    except FileNotFoundError as error:
        raise MissingFileError(path, "does not exist") from error
    except OSError as error:
        raise BadFileError(path, f"cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise BadFileError(path, f"is larger than {max_bytes} bytes")
    return data


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"{text[:20]} is too large a number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return found
