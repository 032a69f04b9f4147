"""Whether a folder is as it was, told by stat data alone: cheap where it holds few files.

Knows nothing of git but that a repository inside has a state that no file here shows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from driver.filesystem.tree import TooManyError, newest_of, signature_of, snapshot

_MOST = 3000  # of more, git tells as fast
_TICK_NS = 2_500_000_000  # the coarsest file system clock still in use counts in twos


class ChangeDetector:
    """Of one folder, but not of what is in the places `apart`, and of single files elsewhere;
    `now_ns` is the time that their clock shows."""

    def __init__(
        self,
        top: Path,
        files: Iterable[Path],
        apart: Iterable[Path] = (),
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._top = top
        real = Path(os.path.realpath(top))
        inside = (
            place for place in map(Path, map(os.path.realpath, apart)) if real in place.parents
        )
        self._apart = frozenset(place.relative_to(real).as_posix() for place in inside)
        self._files = tuple(files)
        self._now_ns = now_ns
        self._too_many = False

    def mark(self) -> object:
        """What stays the same as long as nothing changes; None where that cannot be told.

        Something new can look like what it replaced while the clock stands still.
        """
        if self._too_many:
            return None
        try:
            seen = snapshot(self._top, most=_MOST, without=self._apart)
            folders = [self._moved(path) for path, told in seen.items() if len(told) == 1]
        except TooManyError:
            self._too_many = True
            return None
        except OSError:
            return None
        newest = max([newest_of(seen), *(max(times[:2]) for times in folders)])
        settled = newest + _TICK_NS < self._now_ns()
        if not settled or any(path.endswith("/.git") for path in seen):
            return None
        return seen, folders, [_signature(path) for path in self._files]

    def _moved(self, path: str) -> tuple[int, int, int]:
        """Another folder that stood here for a moment, while git looked, has left no other trace:
        a rename changes the times of no file within."""
        seen = os.lstat(self._top / path)
        return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


def _signature(path: Path) -> object:
    try:
        return signature_of(os.lstat(path))
    except OSError as trouble:
        return trouble.errno
