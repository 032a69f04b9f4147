"""Reads and writes regular files below a folder without following links.

If the platform has folder descriptors, each step uses a descriptor, so replacing a folder by a link
between check and write has no effect.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO

from driver.filesystem.descriptors import write_all
from driver.filesystem.open_folders import (
    Folder,
    NotPlainError,
    Undo,
    open_folder,
    stands_elsewhere,
)
from state_store.documents.files import BadFileError, MissingFileError, read_bytes
from state_store.redaction.installed import current
from state_store.values.lazy_dataclass import dataclass

MAX_LISTED = 2000
_LARGEST = 2**31  # of a file that may be as large as the machine allows
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_PATIENCE = getattr(os, "O_NONBLOCK", 0)  # a reader must not block on a pipe


class TooLargeError(NotPlainError):
    """A file has more bytes, `size`, than may be read."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.size = size
        super().__init__(f"{path} has {size} bytes, more than the {limit} allowed")


def regular_bytes(path: Path, max_bytes: int = _LARGEST) -> bytes:
    """Like `read_bytes`, for callers that handle OSError: for files that an agent, a test or
    another program may have replaced by a pipe or a device."""
    try:
        return read_bytes(path, max_bytes)
    except MissingFileError as error:
        raise FileNotFoundError(errno.ENOENT, error.why, str(path)) from error
    except BadFileError as error:
        raise OSError(errno.EINVAL, error.why, str(path)) from error


def read_plain(root: Path, path: str, limit: int) -> bytes | None:
    """The content of `path` below `root`; None if it does not exist.

    Raises NotPlainError unless it is a regular file of at most `limit` bytes, OSError if it cannot
    be read.
    """
    with suppress(FileNotFoundError), open_plain(root, path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise TooLargeError(path, size, limit)
        return file.read(limit + 1)
    return None


def read_plain_end(root: Path, path: str, most: int) -> tuple[bytes, int]:
    """The last `most` bytes of a regular file, without known secrets, and the number of bytes
    before them. Nothing of a link, a pipe or a file that cannot be read."""
    with suppress(OSError, NotPlainError), open_plain(root, path) as file:
        before = max(os.fstat(file.fileno()).st_size - most, 0)
        return read_growing(file, before, most), before
    return b"", 0


def read_growing(file: BinaryIO, start: int, most: int) -> bytes:
    """At most `most` bytes of a growing file from `start` on, without known secrets, also without
    those that begin before or may end later."""
    redactor = current()
    margin = min(start, redactor.margin) if redactor else 0
    file.seek(start - margin)
    data = file.read(margin + most)
    return redactor.data(data, skip=margin, open_ended=True) if redactor else data


@contextmanager
def open_plain(root: Path, path: str, *, write: bool = False) -> Iterator[BinaryIO]:
    """A regular file below `root`, open for reading, or also to `write`. Raises NotPlainError for
    anything else, and never waits for the writer of a pipe."""
    *parents, name = path.split("/")
    with open_folder(root, parents) as folder:
        if (found := folder.stat(name)) is None:
            raise FileNotFoundError(path)
        _require_regular(found, path)
        flags = os.O_RDWR if write else os.O_RDONLY
        with FileIO(folder.open(name, flags | _FILE | _PATIENCE), "r+" if write else "r") as raw:
            file = BufferedReader(raw)
            _require_regular(os.fstat(file.fileno()), path)
            yield file


def list_plain(root: Path, folder: str) -> tuple[str, ...]:
    """The regular files below `folder`, relative to `root`, sorted, without links.

    Raises NotPlainError if there are more than `MAX_LISTED` entries.
    """
    waiting, found, seen = [folder], [], 0
    while waiting:
        current = waiting.pop()
        for name, is_folder, is_file in _entries(root, current):
            seen += 1
            if is_folder:
                waiting.append(f"{current}/{name}")
            elif is_file:
                found.append(f"{current}/{name}")
        if seen > MAX_LISTED:
            why = f"{folder}/ has more than {MAX_LISTED} entries"
            raise NotPlainError(f"{why}; list fewer files, or a smaller folder, in ownsFiles")
    return tuple(sorted(found))


def write_plain(root: Path, files: Mapping[str, bytes]) -> None:
    """Write all files below `root`, or none. Creates missing folders.

    Raises NotPlainError, before any write, if a path is or passes through a link or a special file,
    and PermissionError for a file that is read-only. Raises OSError after a failed write; all old
    files are restored then.
    """
    for path in files:
        *parents, name = path.split("/")
        with suppress(FileNotFoundError), open_folder(root, parents) as folder:
            if (found := folder.stat(name)) is not None:
                _require_regular(found, path)
                if not found.st_mode & stat.S_IWUSR:  # its folder would let it be replaced
                    raise PermissionError(f"{path} is read-only")
    undo: Undo = []
    try:
        new = [_staged(root, path, files[path], undo) for path in files]
        for one in new:
            one.put(undo)
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError, NotPlainError):
                step()
        raise
    for one in new:
        one.forget()


@dataclass(frozen=True, slots=True)
class _New:
    """A new file under the temporary name `draft`. `old` is the temporary name of the file it
    replaces, or None.

    No folder stays open between the steps, because an answer may have more files than a process may
    open.
    """

    root: Path
    parents: Sequence[str]
    name: str
    draft: str
    old: str | None

    def put(self, undo: Undo) -> None:
        with open_folder(self.root, self.parents) as folder:
            if self.old is not None:
                folder.rename(self.name, self.old)
                undo.append(partial(self.do, Folder.rename, self.old, self.name))
            folder.rename(self.draft, self.name)
            undo.append(partial(self.do, Folder.unlink, self.name))

    def forget(self) -> None:
        if self.old is not None:
            with suppress(OSError, NotPlainError):
                self.do(Folder.unlink, self.old)

    def do(self, act: Callable[..., None], *names: str) -> None:
        with open_folder(self.root, self.parents) as folder:
            act(folder, *names)


def replace_plain(
    root: Path, path: str, content: bytes, *, mode: int = 0o666, like: os.stat_result | None = None
) -> None:
    """Put a file at `path` below `root`, in place of a file or link there. Creates missing folders.
    The file gets the times of `like`, and of a regular file its mode.

    Raises NotPlainError if a link or a file stands on the way, and OSError.
    """
    *parents, name = path.split("/")
    with open_folder(root, parents, []) as folder:
        with suppress(FileNotFoundError):
            folder.unlink(name)
        fd = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode)
        with FileIO(fd, "w"):
            write_all(fd, content)
            if like is None:
                return
            if stat.S_ISREG(like.st_mode) and hasattr(os, "fchmod"):
                os.fchmod(fd, stat.S_IMODE(like.st_mode))
            times = like.st_atime_ns, like.st_mtime_ns
            os.utime(fd if os.utime in os.supports_fd else root / path, ns=times)


def append_plain(root: Path, path: str, content: bytes) -> None:
    """Append to a regular file below `root`, or make it. Raises NotPlainError and OSError."""
    *parents, name = path.split("/")
    with open_folder(root, parents, []) as folder:
        if (found := folder.stat(name)) is not None:
            _require_regular(found, path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FILE | _PATIENCE
        with os.fdopen(folder.open(name, flags), "ab") as file:
            _require_regular(os.fstat(file.fileno()), path)
            file.write(content)


def make_plain(folder: Path) -> None:
    """Make a folder, unless it exists. Raises NotPlainError if a link or a file is in its place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open_folder(folder.parent, (folder.name,), []):
        pass


def link_plain(root: Path, path: str, target: str) -> None:
    """Make a link at `path` below `root`, where nothing may be. Creates missing folders. Raises
    NotPlainError if a link or a file stands on the way, and OSError."""
    *parents, name = path.split("/")
    with open_folder(root, parents, []) as folder:
        folder.link(name, target)


def _staged(root: Path, path: str, content: bytes, undo: Undo) -> _New:
    *parents, name = path.split("/")
    with open_folder(root, parents, undo) as folder:
        found = folder.stat(name)
        if found is not None:
            _require_regular(found, path)
        unique = f".tidegate-{uuid.uuid4().hex}"
        old = None if found is None else f"{unique}.old"
        new = _New(root, parents, name, f"{unique}.new", old)
        fd = folder.open(new.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE)
        undo.append(partial(new.do, Folder.unlink, new.draft))
        with os.fdopen(fd, "wb") as file:
            if found is not None and hasattr(os, "fchmod"):
                os.fchmod(fd, stat.S_IMODE(found.st_mode) & 0o777)
            file.write(content)
    return new


def _require_regular(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode) or stands_elsewhere(found):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise NotPlainError(f"{path} is {kind}; Tidegate reads and writes only regular files here")


def _entries(root: Path, path: str) -> list[tuple[str, bool, bool]]:
    """(name, is a folder, is a regular file) of each entry of a folder, without links."""
    with (
        suppress(FileNotFoundError),
        open_folder(root, path.split("/")) as folder,
        os.scandir(folder.path if folder.fd is None else folder.fd) as entries,
    ):
        return [
            (
                entry.name,
                entry.is_dir(follow_symlinks=False)
                and not (os.name == "nt" and stands_elsewhere(entry.stat(follow_symlinks=False))),
                entry.is_file(follow_symlinks=False),
            )
            for entry in entries
            if entry.name != ".git"
        ]
    return []
