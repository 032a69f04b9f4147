"""Detects changes in a folder by stat data alone, which is cheap for few files.

A folder that contains a git repository always counts as changed, because its files do not show the
state of that repository.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from driver.filesystem.tree import TooManyError, newest_of, signature_of, snapshot

_MOST = 3000  # with more files, git is as fast
_TICK_NS = 2_500_000_000  # the coarsest file system clock in use has steps of two seconds


class ChangeDetector:
    """Detects changes below the folder `top`, except in the folders `apart`, and of other single
    `files`. `now_ns` returns the time of the file system's clock."""

    def __init__(
        self,
        top: Path,
        files: Iterable[Path],
        apart: Iterable[Path] = (),
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._top = top
        real = Path(os.path.realpath(top))
        inside = (path for path in map(Path, map(os.path.realpath, apart)) if real in path.parents)
        self._apart = frozenset((".git", *(p.relative_to(real).as_posix() for p in inside)))
        self._files = tuple(files)
        self._now_ns = now_ns
        self._too_many = False

    def mark(self) -> object:
        """A mark that changes whenever a file changes; None if the last change is too recent. A
        file that is replaced within one clock step can have the same stat data."""
        if self._too_many:
            return None
        try:
            seen = snapshot(self._top, most=_MOST, without=self._apart)
            folders = [self._moved(path) for path, stats in seen.items() if len(stats) == 1]
        except TooManyError:
            self._too_many = True
            return None
        except OSError:
            return None
        newest = max([newest_of(seen), *(max(times[:2]) for times in folders)])
        settled = newest + _TICK_NS < self._now_ns()
        if not settled or any(path.endswith("/.git") for path in seen):
            return None
        files = list[object]()
        for path in self._files:
            try:
                files.append(signature_of(os.lstat(path)))
            except OSError as trouble:
                files.append(trouble.errno)
        return seen, folders, files

    def _moved(self, path: str) -> tuple[int, int, int]:
        """The times of a folder. They change if the folder is moved away and back; the times of its
        files do not."""
        seen = os.lstat(self._top / path)
        return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino
