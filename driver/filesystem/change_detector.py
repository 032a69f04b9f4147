"""Detects changes of a folder by stat data alone, which is cheap for few files.

A git repository inside has a state that no file here shows, so such a folder is never unchanged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from driver.filesystem.tree import TooManyError, newest_of, signature_of, snapshot

_MOST = 3000  # with more files, git is as fast
_TICK_NS = 2_500_000_000  # the coarsest file system clock still in use counts in twos


class ChangeDetector:
    """Detects changes below the folder `top`, except in the folders `apart`, and of single `files`
    elsewhere. `now_ns` returns the time of their clock."""

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
        self._apart = frozenset(path.relative_to(real).as_posix() for path in inside)
        self._files = tuple(files)
        self._now_ns = now_ns
        self._too_many = False

    def mark(self) -> object:
        """A mark that stays equal as long as nothing changes; None if that cannot be known: a new
        file can look like the one it replaced as long as the clock shows the same time."""
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
        """The times of a folder: the only trace of another folder that stood here for a moment,
        because a rename changes the times of no file within."""
        seen = os.lstat(self._top / path)
        return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino
