"""Rewriting a file that other processes and people write too: a lock, a check, one swap.

Our own processes queue on `<file>.lock`. People's editors know no lock, so the content is compared
once more just before the swap.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from state_store.errors import CannotRunError
from state_store.failpoints import failpoint

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_PATIENCE_S = 30.0
LOCK_POLL_S = 0.01


@contextmanager
def locked(path: Path, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
    """Hold `<path>.lock` alone; it is gone afterwards, so nothing new shows in a repository.

    Raises CannotRunError when the folder cannot be written or the lock stays taken.
    """
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + patience_s
    while (handle := _try_lock(lock)) is None:
        if time.monotonic() > deadline:
            raise CannotRunError(
                f"another process has held {lock} for {patience_s:.0f} s; end it and try again"
            )
        time.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        _release(lock, handle)


def replace_unchanged(path: Path, data: bytes, digest: str) -> bool:
    """Swap `data` in durably; False, and nothing changed, when the file's SHA-256 is another.

    Raises CannotRunError when it cannot be written; the old content is whole then.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                failpoint("file.write", lambda n: os.write(handle, data[:n]))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(path.stat().st_mode & 0o7777)
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                return False
            failpoint("file.before_replace")
            temporary.replace(path)
            failpoint("file.after_replace")
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as fault:
        raise _unwritable(path, fault) from fault
    return True


def _try_lock(lock: Path) -> int | None:
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as fault:
        raise _unwritable(lock, fault) from fault
    try:
        _lock_handle(handle)
        # Its holder may have removed the file between our open and our lock.
        if os.path.samestat(os.fstat(handle), lock.stat()):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _lock_handle(handle: int) -> None:
    """Take the lock or raise OSError at once."""
    if sys.platform == "win32":
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _release(lock: Path, handle: int) -> None:
    if (
        sys.platform == "win32"
    ):  # an open file cannot be removed there: whoever waits keeps it in place
        os.close(handle)
        with suppress(OSError):
            lock.unlink()
    else:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    if sys.platform != "win32":  # a folder cannot be opened there
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unwritable(path: Path, fault: OSError) -> CannotRunError:
    reason = fault.strerror or fault
    return CannotRunError(f"{path} cannot be written: {reason}; free it or make room, then rerun")
