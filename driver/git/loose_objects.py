"""Writes objects into a git dir of ours without a process, for commits that only a test sees.

Nothing here is flushed: an object that a crash takes away is never needed again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from driver.filesystem.tree import folders_above
from driver.git.command import raw
from driver.git.object_check import header, object_name
from driver.tree_files.small_trees import Entry
from state_store.values.lazy_dataclass import dataclass

MODE_FOLDER = "040000"
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class LooseObjects:
    """The folder `objects` of a git dir. `algorithm` is the git dir's object format."""

    objects: Path
    algorithm: str

    def commit_like(
        self, found: bytes, listed: Mapping[str, Entry], path: str, mode: str, content: bytes
    ) -> str:
        """A commit that differs from the commit of the text `found`, whose tree has the entries
        `listed`, in one file only: same parents, people, times and message."""
        entry: Entry = (mode, self.write("blob", content))
        above = [*map(str, PurePosixPath(path).parents)]
        inside = _inside(listed, above)
        for folder in above:
            inside[folder][PurePosixPath(path).name] = entry
            entry, path = (MODE_FOLDER, self.write("tree", _tree(inside[folder]))), folder
        _, line_end, rest = found.partition(b"\n")
        return self.write("commit", b"tree " + raw(entry[1]) + line_end + rest)

    def tree_of(self, files: Mapping[str, Entry], known: set[str]) -> str:
        """The tree of all these files; writes each folder of it that is not `known` yet."""
        inside: dict[str, dict[str, Entry]] = {folder: {} for folder in ("", *folders_above(files))}
        for path, entry in files.items():
            folder, _, base = path.rpartition("/")
            inside[folder][base] = entry
        name = ""
        for path in sorted(inside, reverse=True):  # each before the folder that it is in
            body = _tree(inside[path])
            name = object_name("tree", body, self.algorithm)
            if name not in known:
                known.add(self.write("tree", body))
            if path:
                folder, _, base = path.rpartition("/")
                inside[folder][base] = (MODE_FOLDER, name)
        return name

    def write(self, kind: str, body: bytes) -> str:
        """Write an object, also over an existing one of this name; returns its name."""
        name = object_name(kind, body, self.algorithm)
        path = self.objects / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_name(f"tmp_obj_{os.urandom(8).hex()}")
        fresh.write_bytes(zlib.compress(header(kind, body) + body, 1))
        fresh.chmod(_READ_ONLY)
        fresh.replace(path)
        return name


def _inside(listed: Mapping[str, Entry], folders: list[str]) -> dict[str, dict[str, Entry]]:
    """The entries in each of the folders, by their names."""
    found: dict[str, dict[str, Entry]] = {folder: {} for folder in folders}
    for path, entry in listed.items():
        folder, _, name = path.rpartition("/")
        if (entries := found.get(folder or ".")) is not None:
            entries[name] = entry
    return found


def _tree(entries: Mapping[str, Entry]) -> bytes:
    """The body of a tree. Git sorts a folder as if its name ended in a slash."""
    named = [(raw(name), mode, blob) for name, (mode, blob) in entries.items()]
    named.sort(key=lambda one: one[0] + b"/" if one[1] == MODE_FOLDER else one[0])
    return b"".join(
        b"%s %s\0%s" % (raw(mode.lstrip("0")), name, bytes.fromhex(blob))
        for name, mode, blob in named
    )
