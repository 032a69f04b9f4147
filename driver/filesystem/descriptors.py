"""Reads and writes open files by their descriptors, in as many steps as the system needs."""

from __future__ import annotations

import os


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
