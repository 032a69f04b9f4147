"""Whether git objects are what their names say. Pure: reads what `git cat-file --batch` prints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass


def misnamed(printed: bytes) -> tuple[str, ...]:
    """The names of objects with another content, or that are missing."""
    return tuple(one.name for one in read_objects(printed) if one.name != _named(one))


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object as git printed it; `kind` is "" for one that is missing."""

    name: str
    kind: str = ""
    body: bytes = b""


def read_objects(printed: bytes) -> Iterator[GitObject]:
    """The objects in the order in which they were asked for."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, *told = printed[at:end].decode("ascii").split(" ")
        at = end + 1
        if len(told) != 2:
            yield GitObject(name)
            continue
        kind, size = told[0], int(told[1])
        yield GitObject(name, kind, printed[at : at + size])
        at += size + 1


def _named(one: GitObject) -> str:
    """The name that its content has; "" for one that is missing."""
    if not one.kind:
        return ""
    whole = hashlib.new("sha256" if len(one.name) == 64 else "sha1", usedforsecurity=False)
    whole.update(f"{one.kind} {len(one.body)}\0".encode())
    whole.update(one.body)
    return whole.hexdigest()
