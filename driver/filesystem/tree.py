"""Lists, copies and removes folders that other programs wrote.

Never follows links or opens special files. A folder with `.git` counts as a repository.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from driver.filesystem.descriptors import share_blocks
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, field

MAX_FILE_BYTES = 1 << 29
MAX_TOUCHED_FILES = 200_000


class OversizeError(TidegateError):
    """The changed files of a workspace are too large or too many."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Paths by kind: files and links, nested repositories, and other paths."""

    files: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def sorted_by_kind(work_tree: Path, paths: Iterable[str]) -> OnDisk:
    """Sort paths by their kind on disk. Raises OversizeError."""
    found, real = OnDisk(), {"": True}

    def is_real(folder: str) -> bool:  # a link could lead out of the tree
        if folder not in real:
            whole = work_tree / folder
            real[folder] = is_real(parent_of(folder)) and whole.is_dir() and not whole.is_symlink()
        return real[folder]

    for path in sorted(path.rstrip("/") for path in paths):
        seen = _lstat(work_tree / path) if is_real(parent_of(path)) else None
        if seen and (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
            if seen.st_size > MAX_FILE_BYTES:
                size = f"{seen.st_size} bytes, more than the {MAX_FILE_BYTES} allowed"
                raise OversizeError(f"{path!a} has {size}")
            if len(found.files) >= MAX_TOUCHED_FILES:
                raise OversizeError(f"more than {MAX_TOUCHED_FILES} files were made or changed")
            found.files.append(path)
        elif seen and stat.S_ISDIR(seen.st_mode) and os.path.lexists(work_tree / path / ".git"):
            found.nested.append(path)
        else:
            found.gone.append(path)
    return found


def parent_of(path: str) -> str:
    """The folder of a path; "" for the top."""
    return path.rpartition("/")[0]


def folders_above(paths: Iterable[str]) -> set[str]:
    """The folders in which the paths are, without the top."""
    found = {""}
    for path in paths:
        while (path := parent_of(path)) not in found:
            found.add(path)
    return found - {""}


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def files_of(work_tree: Path, owned: Iterable[str], made_after_ns: int) -> Iterator[str]:
    """Owned files and links whose metadata changed after `made_after_ns`."""
    for path in owned:
        seen = None if path.endswith("/") else _lstat(work_tree / path)
        if seen and not stat.S_ISDIR(seen.st_mode) and newest_ns(seen) > made_after_ns:
            yield path


def newest_ns(seen: os.stat_result) -> int:
    """The time of a file's last change. On POSIX no program can set it back."""
    return max(seen.st_mtime_ns, seen.st_ctime_ns)


Signature = tuple[int, ...]


class TooManyError(Exception):
    """A folder has more entries than the caller's limit."""


def snapshot(
    top: Path, *, most: int | None = None, without: Collection[str] = (".git",)
) -> dict[str, Signature]:
    """Map each path below `top`, except the paths `without`, to stat data that every edit changes.

    A folder has only kind and mode as data. Raises OSError if a folder cannot be read, and
    TooManyError if there are clearly more than `most` paths.
    """
    seen: dict[str, Signature] = {}
    waiting, root = [""], str(top)  # texts, because Path objects would take most of the time
    while waiting:
        if most is not None and len(seen) > most:
            raise TooManyError
        folder = waiting.pop()
        start = f"{folder}/" if folder else ""
        with os.scandir(f"{root}/{folder}") as entries:
            for entry in entries:
                path = start + entry.name
                if path in without:
                    continue
                found = entry.stat(follow_symlinks=False)
                mode = found.st_mode
                if stat.S_ISDIR(mode):
                    seen[path] = (mode,)
                    waiting.append(path)
                else:  # as `signature_of`, whose call would take a tenth of the time
                    times = found.st_mtime_ns, found.st_ctime_ns
                    seen[path] = (mode, found.st_size, *times, found.st_ino)
    return seen


def newest_of(seen: Mapping[str, Signature]) -> int:
    """The time of the latest file change in a snapshot, in nanoseconds; 0 without files."""
    return max((max(s[2], s[3]) for s in seen.values() if len(s) > 1), default=0)


def signature_of(seen: os.stat_result) -> Signature:
    """The stat data that `snapshot` keeps of a path."""
    mode = seen.st_mode
    if stat.S_ISDIR(mode):
        return (mode,)
    return (mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def signature_at(path: str) -> Signature | None:
    """The signature of a path now; None if it does not exist or cannot be read."""
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return None


def renew_change_times(top: Path, names: Iterable[str]) -> list[str]:
    """Give files the current time as their change time (ctime), and leave their other times.
    Returns the names of those that exist."""
    there = [name for name in names if os.path.lexists(top / name)]
    follow = os.utime not in os.supports_follow_symlinks
    for name in there:
        seen = (top / name).lstat()
        os.utime(top / name, ns=(seen.st_atime_ns, seen.st_mtime_ns), follow_symlinks=follow)
    return there


def copy_into(source: Path, target: Path) -> None:
    """Copy a file, link or folder. The copy shares disk blocks if the file system supports it.

    Never makes hard links, because a write to the copy would change the original.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(
            source, target, symlinks=True, ignore=_special_files, copy_function=_copy_file
        )
    else:
        _copy_file(str(source), str(target))


def _special_files(folder: str, names: list[str]) -> list[str]:
    modes = {name: os.lstat(Path(folder, name)).st_mode for name in names}
    usual = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name, mode in modes.items() if not any(kind(mode) for kind in usual)]


def _copy_file(source: str, target: str) -> None:
    is_shared = False
    if sys.platform == "linux" and not Path(source).is_symlink():
        with Path(source).open("rb") as old, Path(target).open("wb") as new:
            is_shared = share_blocks(old.fileno(), new.fileno())
    if is_shared:
        shutil.copystat(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def remove_tree(top: Path) -> None:
    """Remove a path and everything below it, also read-only files, pipes, very deep folders, or
    nothing.

    Raises OSError with the first path that could not be removed.
    """
    if top.is_symlink() or not top.is_dir():
        if os.path.lexists(top):
            _unlink(top)
        return
    # Each folder is moved up to the top before it is emptied, so paths have at most two names more
    # than `top`, and deep trees need no recursion.
    numbers = itertools.count()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        waiting += _empty(folder, top, numbers)
        if folder != top:
            folder.rmdir()
    top.rmdir()


def _empty(folder: Path, top: Path, numbers: Iterator[int]) -> list[Path]:
    """Unlink the files in a folder, move its folders to the top, and return these."""
    _make_writable(folder)
    moved: list[Path] = []
    with os.scandir(folder) as entries:
        found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            _unlink(name)
            continue
        path = Path(name)
        if folder == top:
            moved.append(path)
        else:
            _make_writable(path)  # moving a folder writes its `..`
            free = next(to for n in numbers if not os.path.lexists(to := top / f"-{n}"))
            moved.append(path.rename(free))
    return moved


def _make_writable(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.chmod(stat.S_IRWXU)


def _unlink(path: str | Path) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - a Path would double the time of this frequent call
    except PermissionError:  # Windows keeps read-only files
        Path(path).chmod(stat.S_IWRITE)
        Path(path).unlink()
