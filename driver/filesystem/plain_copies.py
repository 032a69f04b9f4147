"""Copies and moves of files, links and folders below a root, without following links.

Where the platform has folder descriptors, each step uses one, as in `open_folders`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from driver.filesystem.descriptors import share_blocks, write_all
from driver.filesystem.open_folders import FOLDER, NotPlainError, open_folder
from driver.filesystem.tree import copy_into
from state_store.values.lazy_dataclass import dataclass

_CHUNK = 1 << 20
_DEEPEST = 200  # two folders of each level are open
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_RIGHTS = (errno.EPERM, errno.ENOTSUP, errno.ENODATA, errno.EINVAL, errno.EACCES)


@dataclass(frozen=True, slots=True)
class Below:
    """The place `path` below the folder `root`, with slashes. Links lead to `root` at most."""

    root: Path
    path: str

    @property
    def whole(self) -> Path:
        """The path itself."""
        return self.root / self.path

    @property
    def parts(self) -> tuple[list[str], str]:
        """The folders above it below the root, and its name."""
        *parents, name = self.path.split("/")
        return parents, name


def copy_plain(source: Below, target: Below) -> None:
    """Copy a file, link or folder to a place where nothing may be. Creates missing folders. The
    copy shares disk blocks if the file system supports it. Pipes and devices are left out.

    Raises NotPlainError if a link or a file stands on the way, and OSError.
    """
    (parents, name), (above, own) = source.parts, target.parts
    target.root.mkdir(parents=True, exist_ok=True)
    with open_folder(source.root, parents) as here, open_folder(target.root, above, []) as there:
        if here.fd is None or there.fd is None:
            copy_into(source.whole, target.whole)
        else:
            _copy((here.fd, name), (there.fd, own), _DEEPEST)


def move_plain(source: Below, target: Below) -> None:
    """Move a folder to a place on the same disk. Creates missing folders. Raises NotPlainError for
    anything but a folder, and if a link or a file stands on the way, and OSError."""
    (parents, name), (above, own) = source.parts, target.parts
    target.root.mkdir(parents=True, exist_ok=True)
    with open_folder(source.root, parents) as here, open_folder(target.root, above, []) as there:
        found = here.stat(name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise NotPlainError(f"{source.whole} is a link or no folder")
        if here.fd is None or there.fd is None:
            source.whole.rename(target.whole)
        else:
            os.rename(name, own, src_dir_fd=here.fd, dst_dir_fd=there.fd)


def make_folder(place: Below, mode: int) -> None:
    """Make a folder, or change the mode of one. Raises NotPlainError if it or one above it is a
    link or a file, and OSError."""
    parents, name = place.parts
    with open_folder(place.root, parents) as above:
        if above.stat(name) is None:
            above.make(name)
    with open_folder(place.root, [*parents, name]) as folder:
        if folder.fd is None:
            folder.path.chmod(mode)
        else:
            os.fchmod(folder.fd, mode)


def _copy(source: tuple[int, str], target: tuple[int, str], depth: int) -> None:
    """Copy an entry of an open folder into another."""
    (here, name), (there, own) = source, target
    seen = os.stat(name, dir_fd=here, follow_symlinks=False)
    if stat.S_ISLNK(seen.st_mode):
        os.symlink(os.readlink(name, dir_fd=here), own, dir_fd=there)
        times = seen.st_atime_ns, seen.st_mtime_ns
        os.utime(own, ns=times, dir_fd=there, follow_symlinks=False)
    elif stat.S_ISDIR(seen.st_mode):
        if not depth:
            raise OSError(errno.ENAMETOOLONG, "too many folders in each other", name)
        os.mkdir(own, 0o700, dir_fd=there)
        flags = os.O_RDONLY | FOLDER
        with _opened(here, name, flags) as old, _opened(there, own, flags) as new:
            for entry in os.listdir(old):  # noqa: PTH208 - of a descriptor
                _copy((old, entry), (new, entry), depth - 1)
            _make_alike(old, new)
    elif stat.S_ISREG(seen.st_mode):
        # A pipe in its place would be waited for.
        with _opened(here, name, os.O_RDONLY | _NO_LINK | os.O_NONBLOCK) as old:
            if not stat.S_ISREG(os.fstat(old).st_mode):
                raise NotPlainError(f"{name} is no regular file any more")
            with _opened(there, own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK) as new:
                _copy_content(old, new)
                _make_alike(old, new)


@contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[int]:
    """An entry of an open folder, opened for a while."""
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy_content(old: int, new: int) -> None:
    """Share the disk blocks of the original, or copy them where the file system cannot."""
    if not share_blocks(old, new):
        while chunk := os.read(old, _CHUNK):
            write_all(new, chunk)


def _make_alike(old: int, new: int) -> None:
    """Give a copy the labels, the mode and the times of the original."""
    seen = os.fstat(old)
    for name, label in _labels(old).items():
        try:
            os.setxattr(new, name, label)
        except OSError as refused:
            if refused.errno not in _NO_RIGHTS:
                raise
    os.fchmod(new, stat.S_IMODE(seen.st_mode))
    os.utime(new, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _labels(old: int) -> Mapping[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    found = dict[str, bytes]()
    with suppress(OSError):
        for name in os.listxattr(old):
            found[name] = os.getxattr(old, name)
    return found
