"""Reads and writes open files by their descriptors, in as many steps as the system needs."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

if sys.platform == "linux":
    import fcntl

_CLONE_RANGE = 0x40049409  # FICLONE


def read_at(file: int, start: int, size: int) -> bytes:
    """At most `size` bytes of a file from `start` on; fewer only at its end."""
    os.lseek(file, start, os.SEEK_SET)
    got = b""
    while len(got) < size and (chunk := os.read(file, size - len(got))):
        got += chunk
    return got


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def share_blocks(old: int, new: int) -> bool:
    """Let a new file share the disk blocks of another; False where the file system cannot."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.ioctl(new, _CLONE_RANGE, old)
            return True
    return False
