"""Names git objects, checks them against their names, and lists the names in packs."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes
from state_store.values.lazy_dataclass import dataclass

_KEPT, _KEPT_BYTES = 64, 1 << 16

_INDEX_2 = b"\xfftOc\0\0\0\2"
_FANOUT = 1024


def misnamed(printed: bytes) -> tuple[str, ...]:
    """The names of objects that are missing or have another content."""
    return tuple(one.name for one in read_objects(printed) if not is_named(one))


def object_name(kind: str, body: bytes, algorithm: str) -> str:
    """The name of an object, in git's object format `algorithm`."""
    whole = hashlib.new(algorithm, header(kind, body), usedforsecurity=False)
    whole.update(body)
    return whole.hexdigest()


def header(kind: str, body: bytes) -> bytes:
    """The bytes before the body of an object, which are part of its name."""
    return f"{kind} {len(body)}\0".encode()


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object as git printed it. `kind` is "" if the object is missing."""

    name: str
    kind: str = ""
    body: bytes = b""


def read_objects(printed: bytes) -> Iterator[GitObject]:
    """The objects in `git cat-file` output, in order."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, *facts = printed[at:end].decode("ascii").split(" ")
        at = end + 1
        if len(facts) != 2:
            yield GitObject(name)
            continue
        kind, size = facts[0], int(facts[1])
        yield GitObject(name, kind, printed[at : at + size])
        at += size + 1


def is_named(one: GitObject) -> bool:
    """True if an object is there and has the content that its name says."""
    algorithm = "sha256" if len(one.name) == 64 else "sha1"
    return bool(one.kind) and one.name == object_name(one.kind, one.body, algorithm)


class Recent:
    """A cache of just examined objects, which are soon read again. Only for objects whose content
    fits their name. Thread safe."""

    def __init__(self) -> None:
        self._kept = deque[Mapping[str, bytes]](maxlen=_KEPT)

    def keep(self, objects: Sequence[GitObject]) -> None:
        """Keep objects, unless they are too large."""
        if sum(len(one.body) for one in objects) <= _KEPT_BYTES:
            self._kept.append({one.name: one.body for one in objects})

    def among(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of the named objects, if they are still kept."""
        known = {name: body for one in tuple(self._kept) for name, body in one.items()}
        return {name: known[name] for name in names if name in known}


def names_in_index(index: bytes, width: int) -> tuple[str, ...]:
    """The names, of `width` bytes each, in a pack's index file of version 1 or 2."""
    if index.startswith(_INDEX_2):
        start, step, skip = len(_INDEX_2) + _FANOUT, width, 0
    else:
        start, step, skip = _FANOUT, width + 4, 4
    count = int.from_bytes(index[start - 4 : start], "big")
    last = min(start + count * step, len(index))
    return tuple(index[at + skip : at + step].hex() for at in range(start, last, step))


def touched_since(objects: Path, since_ns: int, width: int) -> set[str]:
    """The names, of `width` bytes each, of new or changed loose objects and of all objects in new
    or changed packs. May contain more names."""
    names = set[str]()
    for folder in _entries(objects):
        if len(folder.name) == 2:
            names |= {folder.name + e.name for e in _entries(folder.path) if _is_new(e, since_ns)}
        elif folder.name == "pack":
            changed = {Path(e.path).stem for e in _entries(folder.path) if _is_new(e, since_ns)}
            for stem in changed:
                # A pack without an index is ignored, as git does.
                with suppress(OSError):
                    index = regular_bytes(Path(folder.path, f"{stem}.idx"))
                    names |= {*names_in_index(index, width)}
    return names


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return


def _is_new(entry: os.DirEntry[str], since_ns: int) -> bool:
    try:
        found = entry.stat()
    except OSError:
        return False
    return max(found.st_ctime_ns, found.st_mtime_ns) >= since_ns
