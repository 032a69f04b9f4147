"""Whether git objects are what their names say. Pure: reads what `git cat-file --batch` prints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator


def misnamed(printed: bytes) -> tuple[str, ...]:
    """The names of objects with another content, or that are missing."""
    return tuple(name for name, right in _checked(printed) if name != right)


def _checked(printed: bytes) -> Iterator[tuple[str, str]]:
    """Each object's name, and the one that its content has."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, *told = printed[at:end].decode("ascii").split(" ")
        at = end + 1
        if len(told) != 2:
            yield name, ""
            continue
        kind, size = told[0], int(told[1])
        whole = hashlib.new("sha256" if len(name) == 64 else "sha1", usedforsecurity=False)
        whole.update(f"{kind} {size}\0".encode())
        whole.update(memoryview(printed)[at : at + size])
        yield name, whole.hexdigest()
        at += size + 1
