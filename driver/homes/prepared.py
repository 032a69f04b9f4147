"""Gives a home what a set-up left in its own: copies of what is small, which the command may
change, and links to the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from driver.filesystem.open_folders import FoldersBelow, NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain
from driver.filesystem.tree import remove_tree
from driver.homes.compiled import COMPILED

# Folders of a home in which several tools have a part each.
SHARED = frozenset(
    {
        *("", ".cache", ".config", ".local", ".local/share", ".local/state", ".cargo", ".npm"),
        *(".gradle", ".m2", "go", ".yarn", ".cache/node"),
    }
)
# Their tools must be able to write there, and fill them again without a network.
MADE_ANEW = frozenset(
    {*COMPILED, ".cache/uv", ".cache/pip", ".npm/_logs", ".cache/yarn", ".gradle/caches"}
)
# The starter of gradle locks each distribution by a file beside it.
GRADLE_STARTER = ".gradle/wrapper"
_DISTRIBUTIONS = "dists/*/*/*"
# A program that finds a part of itself in two places would load it twice.
_OF_ONE_PROGRAM = frozenset(
    {"node_modules", "package.json", "site-packages", "lib", "pyvenv.cfg", ".git"}
)
_MOST_FILES, _MOST_BYTES = 500, 16 << 20  # of all copies in a home
_MOST_SEEN = 5_000  # entries that are looked at, because each test asks
_MOST_ENTRIES, _DEEPEST = 100, 3  # of large folders that are made anew, with links in them


class _Laying:
    """The copies and links of one home, with the room that is left for copies. The set-up's home
    also has links to that of the `user`."""

    def __init__(self, prepared: Path, home: Path, folders: FoldersBelow, user: Path) -> None:
        self._prepared, self._home, self._user = prepared, home, user
        self._folders = folders
        self._files, self._bytes, self._looks = _MOST_FILES, _MOST_BYTES, _MOST_SEEN

    def lay(self, below: str, depth: int) -> None:
        """Lay the entries of a folder, of which the home has nothing that it keeps."""
        for entry in self._entries(below):
            name = f"{below}/{entry.name}".lstrip("/")
            is_folder = entry.is_dir(follow_symlinks=False)
            if name in MADE_ANEW or self._is_lent(name):
                continue
            if name == GRADLE_STARTER:
                link_distributions(self._prepared / name, self._folders)
            elif name in SHARED and is_folder:
                self.lay(name, depth)
            elif os.path.lexists(self._home / name) or self._copied(entry, name):
                continue
            elif is_folder and depth and self._may_be_split(name):
                self.lay(name, depth - 1)
            else:
                link(self._folders, name, f"{self._prepared}/{name}")

    def _entries(self, below: str) -> list[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(self._prepared / below) as entries:
            return sorted(entries, key=lambda entry: entry.name)
        return []

    def _is_lent(self, name: str) -> bool:
        """True for the link to a part of the user's home that only a set-up may read."""
        with suppress(OSError):
            return Path(self._prepared, name).readlink() == self._user / name
        return False

    def _may_be_split(self, name: str) -> bool:
        """True for a folder of several things that do not look for each other in it."""
        names = {entry.name for entry in self._entries(name)}
        is_whole = bool({*names, name.rpartition("/")[2]} & _OF_ONE_PROGRAM)
        self._looks -= len(names)
        return not is_whole and len(names) <= _MOST_ENTRIES and self._looks > 0

    def _copied(self, entry: os.DirEntry[str], name: str) -> bool:
        """Copy an entry if there is room for it. A link is no copy."""
        if entry.is_symlink():
            return False
        sizes = [*self._sizes(entry)]
        files, size = len(sizes), sum(sizes)
        self._looks -= files
        if self._looks <= 0 or files > self._files or size > self._bytes:
            return False
        try:
            copy_plain(Below(self._prepared, name), Below(self._home, name))
        except (OSError, NotPlainError):  # a link to all of it serves better than a part
            remove_tree(self._home / name)
            return False
        self._files, self._bytes = self._files - files, self._bytes - size
        return True

    def _sizes(self, entry: os.DirEntry[str]) -> Iterator[int]:
        """The sizes of a file or of all in a folder, until they are too many for a copy."""
        waiting, left = [entry], self._files
        while waiting and left >= 0:
            one = waiting.pop()
            left -= 1
            with suppress(OSError):
                yield 0 if one.is_symlink() else one.stat(follow_symlinks=False).st_size
                if one.is_dir(follow_symlinks=False):
                    with os.scandir(one.path) as entries:
                        waiting += entries


def lay_prepared(prepared: Path, home: Path, user: Path) -> None:
    """Give a home what a set-up left in `prepared`. What the home has already stays as it is."""
    with FoldersBelow(home) as folders:
        _Laying(prepared, home, folders, user).lay("", _DEEPEST)


def link(home: FoldersBelow, name: str, target: str) -> None:
    """Make a link that the home lacks; none below another link, which would change the target."""
    *parents, last = name.split("/")
    with suppress(FileExistsError, NotPlainError):
        home.at(tuple(parents)).link(last, target)


def link_distributions(source: Path, home: FoldersBelow) -> None:
    """Link what is in each distribution of gradle, whose own folder is then one of this home."""
    for path in source.glob(_DISTRIBUTIONS):
        link(home, f"{GRADLE_STARTER}/{path.relative_to(source)}", str(path))
