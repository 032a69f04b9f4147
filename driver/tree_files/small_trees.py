"""Writes the files of small trees without a process of git, which costs more than the files.

Only for trees whose files git would write as they are, and whose names are harmless on every
system; git writes all others.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from driver.filesystem.descriptors import write_all
from driver.filesystem.tree import folders_above, parent_of, remove_tree
from driver.tree_files.index_file import Noted, entries_in, noted_of, write_index

MOST_BYTES = 8_000_000
MOST_FILES = 400
_MOST_TREES = 256
FILE, PROGRAM, _LINK = "100644", "100755", "120000"
_MODES = frozenset({FILE, PROGRAM, _LINK})
# No part is a dot, a git dir under any name, or a file of rules for git.
_PLAIN = re.compile(
    r"(?!/|.*//|.*/$)(?!(.*/)?(\.{1,2}|\.git|\.gitattributes|\.gitmodules|git~\d+)[ .]*(/|$))"
    r"[^\\:\0-\x1f\x7f-\U0010ffff]+",
    re.IGNORECASE | re.ASCII,
)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

Entry = tuple[str, str]  # mode and id
Changed = tuple[str, str | None, str | None]  # path, mode and id; no mode if it is gone
Read = Callable[[Collection[str]], Mapping[str, bytes]]


class SmallTrees:
    """The files of the last trees, by the id of the tree. Safe to use from many threads."""

    def __init__(self) -> None:
        self.texts: Mapping[str, bytes] | None = None  # of the first tree
        self.first: Mapping[str, Entry] = {}
        self.lock = threading.Lock()
        self.trees: dict[str, str] = {}  # of commits
        self._known: dict[str, Mapping[str, Entry]] = {}

    def begin(self, commit: str, tree: str, files: Mapping[str, Entry]) -> None:
        """Note the files of a first tree. Without it, no tree is known."""
        if is_plain(files):
            self.first, self.trees = files, {commit: tree}
            self._known = {tree: files}

    def derive(self, base: str, tree: str, changes: Iterable[Changed]) -> None:
        """Note the files of a tree, if the tree is known from which it differs by the `changes`."""
        before = self._known.get(base)
        if before is None or tree in self._known:
            return
        files = with_changes(before, changes)
        if is_plain(files):
            with self.lock:
                if len(self._known) > _MOST_TREES:
                    del self._known[[*self._known][1]]
                self._known[tree] = files

    def files_of(self, tree: str) -> Mapping[str, Entry] | None:
        """The files of a tree; None if git has to write them."""
        return self._known.get(tree)

    def give_up(self) -> None:
        """Leave all trees to git."""
        self._known = {}


def with_changes(files: Mapping[str, Entry], changes: Iterable[Changed]) -> dict[str, Entry]:
    """The files of a tree that differs from a tree with these `files` by the `changes`."""
    changed = {path: (mode or "", name or "") for path, mode, name in changes}
    return {path: entry for path, entry in {**files, **changed}.items() if entry[0]}


def is_plain(files: Mapping[str, Entry]) -> bool:
    """True if these are the files of a small tree that need not be left to git."""
    if len(files) > MOST_FILES or not all(map(_PLAIN.fullmatch, files)):
        return False
    if any(mode not in _MODES for mode, _ in files.values()):
        return False
    return files.keys().isdisjoint(folders_above(files))


def write_small(
    files: Mapping[str, Entry], read: Read, top: Path, index: Path, algorithm: str
) -> None:
    """Reset the files of an index to `files`, as `git read-tree --reset -u` does. `read` returns
    the contents of blobs. Raises OSError and ValueError if git has to do it."""
    old = {}
    if index.exists():
        old = {path: (noted, name) for path, noted, name in entries_in(index, algorithm)}
    real = {""}
    for folder in sorted(folders_above(old)):  # each after the folder that it is in
        whole = top / folder
        if parent_of(folder) in real and whole.is_dir() and not whole.is_symlink():
            real.add(folder)
    entries: dict[str, tuple[Noted, str]] = {}
    for path, (mode, name) in files.items():
        before = old.get(path)
        is_same = before and before[1] == name and parent_of(path) in real
        if before and is_same and _is_as_noted(f"{top}/{path}", before[0], mode):
            entries[path] = before
    texts = read({name for path, (_, name) in files.items() if path not in entries})
    for path in old.keys() - files.keys():
        if parent_of(path) in real:
            _remove(top, path)
    wanted = sorted(path.rpartition("/")[::2] for path in files if path not in entries)
    for folder, inside in itertools.groupby(wanted, key=operator.itemgetter(0)):
        with _opened(top, folder) as descriptor:
            for _, base in inside:
                path = f"{folder}/{base}" if folder else base
                mode, name = files[path]
                place = f"{top}/{path}"
                entries[path] = (_written(descriptor, base, mode, texts[name], place), name)
    write_index(index, entries, algorithm)


def _is_as_noted(path: str, noted: Noted, mode: str) -> bool:
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    if mode == _LINK:
        is_kind = stat.S_ISLNK(seen.st_mode)
    else:
        is_program = bool(seen.st_mode & stat.S_IXUSR)
        is_kind = stat.S_ISREG(seen.st_mode) and is_program == (mode == PROGRAM)
    return is_kind and noted_of(seen, mode) == noted


def _remove(top: Path, path: str) -> None:
    """Remove a file, and the folders above it that are empty then."""
    with contextlib.suppress(OSError):
        (top / path).unlink()
        while path := parent_of(path):
            (top / path).rmdir()


@contextlib.contextmanager
def _opened(top: Path, folder: str) -> Iterator[int]:
    """A descriptor of a folder, which is made if it is none. No link is followed."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in filter(None, folder.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            except NotADirectoryError:  # a file, or a link
                os.unlink(part, dir_fd=here)
                os.mkdir(part, dir_fd=here)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _written(folder: int, name: str, mode: str, text: bytes, whole: str) -> Noted:
    """Write a new file or link in a folder; returns its stat data."""
    if mode != _LINK:
        with contextlib.suppress(FileExistsError):  # usually nothing is there
            return _written_file(folder, name, mode, text)
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            remove_tree(Path(whole))
        else:
            os.unlink(name, dir_fd=folder)
    if mode == _LINK:
        os.symlink(text, os.fsencode(name), dir_fd=folder)
        return noted_of(os.stat(name, dir_fd=folder, follow_symlinks=False), mode)
    return _written_file(folder, name, mode, text)


def _written_file(folder: int, name: str, mode: str, text: bytes) -> Noted:
    """Write a file that must be new; returns its stat data."""
    file = os.open(name, _NEW, 0o777 if mode == PROGRAM else 0o666, dir_fd=folder)
    try:
        write_all(file, text)
        return noted_of(os.fstat(file), mode)
    finally:
        os.close(file)
