"""Which objects in a folder of git's were laid down or touched since some moment, by stat data.

Whoever writes an object that is there again, or lays a pack beside it, decides what git reads for
it, and git does not compare content and name. Whether the content is right is `driver.objects`'
question.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from driver.objects import names_in_index


def touched_since(objects: Path, since_ns: int, width: int) -> set[str]:
    """The names, of `width` bytes each, of loose objects and of all objects in packs that are new
    or changed; more than these at most."""
    names = set[str]()
    for folder in _entries(objects):
        if len(folder.name) == 2:
            names |= {folder.name + e.name for e in _entries(folder.path) if _is_new(e, since_ns)}
        elif folder.name == "pack":
            changed = {Path(e.path).stem for e in _entries(folder.path) if _is_new(e, since_ns)}
            for stem in changed:
                names |= {*_packed(Path(folder.path, f"{stem}.idx"), width)}
    return names


def _packed(index: Path, width: int) -> tuple[str, ...]:
    try:
        return names_in_index(index.read_bytes(), width)
    except OSError:  # no pack without an index; git does not read it either
        return ()


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
