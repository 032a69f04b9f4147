"""Folders below a root, opened without following links. With descriptors, a folder that is replaced
by a link between check and use has no effect."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass

FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_HAS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_REPARSE = 0x400  # Windows: links, junctions and other names of another path

Undo = list[Callable[[], None]]


class NotPlainError(CannotRunError):
    """A path is or passes through something other than a regular file or folder."""


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. Its entries are opened by its descriptor, or else by its path."""

    path: Path
    fd: int | None

    def stat(self, name: str) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return os.stat(self._at(name), dir_fd=self.fd, follow_symlinks=False)
        return None

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        return os.open(self._at(name), flags, mode, dir_fd=self.fd)

    def make(self, name: str) -> None:
        os.mkdir(self._at(name), dir_fd=self.fd)

    def link(self, name: str, target: str) -> None:
        os.symlink(target, self._at(name), dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self.fd)

    def rename(self, name: str, to: str) -> None:
        os.replace(self._at(name), self._at(to), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def _at(self, name: str) -> str:
        return name if self.fd is not None else str(self.path / name)


@contextmanager
def open_folder(root: Path, parts: Sequence[str], made: Undo | None = None) -> Iterator[Folder]:
    """The folder at `parts` below `root`. With `made`, missing folders are created and their
    removal is added to `made`."""
    opened: list[int] = []
    folder = Folder(root, _descend(None, str(root), opened, follow=True))
    try:
        for part in parts:
            if made is not None and folder.stat(part) is None:
                folder.make(part)
                made.append((folder.path / part).rmdir)
            folder = _inside(folder, part, opened)
        yield folder
    finally:
        for fd in opened:
            os.close(fd)


class FoldersBelow:
    """Opens folders below `root` one after the other, without following links. Missing ones are
    created. Those above the last one stay open until the block ends: the next may be near."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fds: list[int] = []
        self._parts: tuple[str, ...] = ()
        self._chain: list[Folder] = []  # the root, and a folder for each of the parts

    def __enter__(self) -> FoldersBelow:
        fd = _descend(None, str(self._root), self._fds, follow=True)
        self._chain.append(Folder(self._root, fd))
        return self

    def __exit__(self, *_: object) -> None:
        self._close(0)

    def at(self, parts: tuple[str, ...]) -> Folder:
        """The folder at `parts`, open until the next call. Raises NotPlainError if a link or a file
        is on the way."""
        while self._parts != parts[: len(self._parts)]:
            self._close(len(self._parts))
        for part in parts[len(self._parts) :]:
            folder = self._chain[-1]
            with suppress(FileExistsError):
                folder.make(part)
            self._chain.append(_inside(folder, part, self._fds))
            self._parts = (*self._parts, part)
        return self._chain[-1]

    def _close(self, left: int) -> None:
        """Close all folders but the first ones."""
        for fd in self._fds[left:]:
            os.close(fd)
        del self._fds[left:], self._chain[left:]
        self._parts = self._parts[: max(0, left - 1)]


def _inside(folder: Folder, part: str, opened: list[int]) -> Folder:
    """The folder `part` of an open folder."""
    if (found := folder.stat(part)) is None:
        raise FileNotFoundError(part)
    if not stat.S_ISDIR(found.st_mode) or stands_elsewhere(found):
        raise NotPlainError(f"{part} is a link or no folder; no link is followed here")
    return Folder(folder.path / part, _descend(folder.fd, part, opened))


def _descend(fd: int | None, name: str, opened: list[int], *, follow: bool = False) -> int | None:
    if not _HAS_FOLDERS:
        return None
    flags = os.O_RDONLY | (os.O_DIRECTORY if follow else FOLDER)
    opened.append(os.open(name, flags, dir_fd=fd))
    return opened[-1]


def stands_elsewhere(found: os.stat_result) -> bool:
    return bool(getattr(found, "st_file_attributes", 0) & _REPARSE)
