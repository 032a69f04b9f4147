"""Git objects as bytes: whether they are what their names say, and which a pack has. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

_INDEX_2 = b"\xfftOc\0\0\0\2"
_FANOUT = 1024


def misnamed(printed: bytes) -> tuple[str, ...]:
    """The names of objects with another content, or that are missing, in what `git cat-file
    --batch` prints."""
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


def names_in_index(index: bytes, width: int) -> tuple[str, ...]:
    """The names, of `width` bytes each, in a pack's index file of either form."""
    if index.startswith(_INDEX_2):
        start, step, skip = len(_INDEX_2) + _FANOUT, width, 0
    else:
        start, step, skip = _FANOUT, width + 4, 4
    count = int.from_bytes(index[start - 4 : start], "big")
    last = min(start + count * step, len(index))
    return tuple(index[at + skip : at + step].hex() for at in range(start, last, step))
