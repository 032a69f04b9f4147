"""File locks between processes. The operating system releases them if the holder dies.

`locked` is for a file that people edit too, `LockQueue` for a frequently used lock.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from state_store.documents.errors import CannotRunError, StoppedByPolicyError

LOCK_PATIENCE_S = 30.0
QUEUE_PATIENCE_S = 60.0
_POLL_S = 0.01
_LOCKED_BYTE = 2**30  # Windows locks bytes against reading too; this one is far past the pid


class LockHeld(StoppedByPolicyError):
    """Another process has the lock. `pid` is its number; None if unknown."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path, self.pid = path, pid
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is locked by {holder}; wait until it has ended")


@contextmanager
def locked(path: Path, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
    """Hold the lock `<path>.lock`. It is removed afterwards, so that a repository stays clean.

    Raises CannotRunError if the lock cannot be created or another process keeps it.
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
    """A lock file that stays open, for a frequently used lock.

    The wait in the kernel's queue has no time-out, so a thread of this class waits, and the caller
    gives up after `patience_s`. One thread of a process holds the lock at a time. Raises
    CannotRunError if the file cannot be created, LockHeld after `patience_s`.
    """

    def __init__(self, path: Path, patience_s: float = QUEUE_PATIENCE_S) -> None:
        self._path = path
        self._patience_s = patience_s
        self._descriptor = _open(path)
        self._waiter: _Waiter | None = None

    def __enter__(self) -> None:
        try:
            # An abandoned wait goes on. Its lock must not be mistaken for ours.
            if self._waiter is None or not self._waiter.is_waiting:
                try:
                    _lock(self._descriptor, blocking=False)
                    return
                except BlockingIOError:
                    self._waiter = self._waiter or _Waiter(self._descriptor)
            if self._waiter.wait(self._patience_s):
                return
        except OSError as error:
            raise _unlockable(self._path, error) from error
        raise LockHeld(self._path, _flock_holder(self._descriptor))

    def __exit__(self, *_: object) -> None:
        _unlock(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        if self._waiter is None:
            os.close(self._descriptor)
        else:
            self._waiter.close()


class _Waiter:
    """A thread that waits for a lock in the kernel's queue, so that callers can give up.

    `is_waiting` stays true until an abandoned lock has been released.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._asked = threading.Semaphore(0)
        self._answered = threading.Lock()
        self._answered.acquire()
        self._is_wanted = self._is_closed = self.is_waiting = False
        self._error: OSError | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, patience_s: float) -> bool:
        """Wait for the lock; False after the time-out. Raises OSError."""
        with self._guard:
            self._is_wanted = True
            if not self.is_waiting:
                self.is_waiting = True
                self._asked.release()
        try:
            is_answered = self._answered.acquire(timeout=patience_s)
        except BaseException:  # a signal
            if self._was_answered():
                _unlock(self._descriptor)
            raise
        if not is_answered and not self._was_answered():
            return False
        if self._error is not None:
            raise self._error
        return True

    def close(self) -> None:
        """End the thread after its wait, and close the file."""
        self._is_closed = True
        self._asked.release()

    def _was_answered(self) -> bool:
        """Give up the wait; True if the lock came at the last moment."""
        with self._guard:
            self._is_wanted = False
            return self._answered.acquire(blocking=False)

    def _run(self) -> None:
        while self._asked.acquire() and not self._is_closed:
            try:
                _lock(self._descriptor, blocking=True)
                self._error = None
            except OSError as error:
                self._error = error
            with self._guard:
                if self._is_wanted:
                    self._answered.release()
                elif self._error is None:
                    _unlock(self._descriptor)
                self.is_waiting = False
        os.close(self._descriptor)


def _open(path: Path) -> int:
    try:
        # Non-blocking, because opening a pipe would wait for a reader.
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        raise _unlockable(path, error) from error


def _try_lock(lock: Path) -> int | None:
    descriptor = _open(lock)
    with suppress(BlockingIOError, FileNotFoundError):
        _lock(descriptor, blocking=False)
        # The last holder may have removed the file between our open and our lock.
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _unlockable(path: Path, error: OSError) -> CannotRunError:
    why = error.strerror or error
    return CannotRunError(f"{path} cannot be locked: {why}; free it or make room, then rerun")


def _flock_holder(descriptor: int) -> int | None:
    """The process that holds the file's lock; None if the system does not tell."""
    status = os.fstat(descriptor)
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()  # the line of a waiting process has "->" as its second word
            if words[1:2] == ["FLOCK"] and words[5:6] == [inode] and int(words[4]) > 0:
                return int(words[4])
    return None


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
        with suppress(OSError):  # Windows keeps the file if a waiting process has it open
            lock.unlink()

else:
    import fcntl

    def _lock(descriptor: int, *, blocking: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _remove(lock: Path, descriptor: int) -> None:
        lock.unlink(missing_ok=True)  # before the release, because the next holder checks the file
        os.close(descriptor)
