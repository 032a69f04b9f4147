"""Locks between processes, as files that the operating system frees when their holder dies.

Three uses: `exclusive_lock` for a folder that one run owns, `locked` for a file that people edit
too, `LockQueue` for what is taken thousands of times.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from state_store.errors import CannotRunError, StoppedByPolicyError
from state_store.files import make_folder

LOCK_PATIENCE_S = 30.0
_POLL_S = 0.01
_LOCKED_BYTE = 2**30  # Windows locks bytes against reading too; this one is far past the pid


class LockHeld(StoppedByPolicyError):
    """Another process has the lock; `pid` is who, or None when it did not say."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path, self.pid = path, pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is locked by {holder}; wait until it has ended")


@contextmanager
def exclusive_lock(path: Path, *, blocking: bool = True) -> Iterator[None]:
    """Hold the lock at `path` against all other processes and threads while inside.

    The file stays, or a newcomer could lock a deleted one. Raises LockHeld when not blocking and
    taken, CannotRunError when it cannot be.
    """
    with suppress(OSError):  # what is wrong with the folder, opening the file tells
        make_folder(path.parent)
    descriptor = _open(path)
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


@contextmanager
def locked(path: Path, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
    """Hold `<path>.lock` alone; it is gone afterwards, so nothing new shows in a repository.

    Raises CannotRunError when there can be no lock or it stays taken.
    """
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + patience_s
    while (descriptor := _try_lock(lock)) is None:
        if time.monotonic() > deadline:
            raise CannotRunError(
                f"another process has held {lock} for {patience_s:.0f} s; end it and try again"
            )
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        _remove(lock, descriptor)


class LockQueue:
    """A lock file kept open, for a lock that is taken thousands of times.

    Whoever waits, waits in the kernel's queue. Taken by one thread of a process at a time: two of
    them hold it together. Raises CannotRunError when the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _open(path)

    def __enter__(self) -> None:
        _acquire(self._path, self._descriptor, blocking=True)

    def __exit__(self, *_: object) -> None:
        _unlock(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def _open(path: Path) -> int:
    try:
        # Non-blocking, or a pipe that lies there would wait for a reader.
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        raise _unlockable(path, error) from error


def _acquire(path: Path, descriptor: int, *, blocking: bool) -> None:
    try:
        _lock(descriptor, blocking=blocking)
    except BlockingIOError as error:
        raise LockHeld(path, _holder(descriptor)) from error
    except OSError as error:
        raise _unlockable(path, error) from error


def _try_lock(lock: Path) -> int | None:
    descriptor = _open(lock)
    with suppress(BlockingIOError, FileNotFoundError):
        _lock(descriptor, blocking=False)
        # Its holder may have removed the file between our open and our lock.
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _unlockable(path: Path, error: OSError) -> CannotRunError:
    why = error.strerror or error
    return CannotRunError(f"{path} cannot be locked: {why}; free it or make room, then rerun")


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
            time.sleep(_POLL_S)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _remove(lock: Path, descriptor: int) -> None:
        os.close(descriptor)
        with suppress(OSError):  # whoever waits has it open, which keeps it in place
            lock.unlink()

else:
    import fcntl

    def _lock(descriptor: int, *, blocking: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _remove(lock: Path, descriptor: int) -> None:
        lock.unlink(missing_ok=True)
        os.close(descriptor)
