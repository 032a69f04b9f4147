"""The caches of compilers: what a test on the base compiled, for later runs of the same test.

A test in closed walls has a new home, in which a compiler would begin from nothing. Only a run on
the base fills a cache that is kept, so no item's work can get into one; each later run has a copy
that it may change.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain
from driver.filesystem.safe_file_access import replace_plain
from driver.filesystem.tree import TooManyError, snapshot
from state_store.values.lazy_dataclass import dataclass

GO = ".cache/go-build"
COMPILED = (GO, ".cache/ccache", ".ccache")
_MOST_BYTES = 2 << 30
_MOST_FILES = 100_000


class CompilerCaches:
    """The kept caches of one wave, in a folder that no command inside of walls can reach. Safe to
    use from threads."""

    def __init__(self, folder: Path, most_files: int = _MOST_FILES) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._bytes, self._files = _MOST_BYTES, most_files

    def of(self, test: tuple[str, ...], *, on_base: bool) -> CachesOfTest:
        """The caches of a test, which a run `on_base` fills."""
        name = hashlib.sha256("\0".join(test).encode("utf-8", "surrogateescape")).hexdigest()
        return CachesOfTest(self, self._folder / name, on_base)

    def keep(self, home: Path, name: str, target: Path) -> None:
        """Move a cache out of a home whose command has ended, if there is none at the target and it
        is not too large."""
        parent, _, last = f"./{name}".rpartition("/")
        with self._lock, suppress(OSError, TooManyError):
            # The command could have put a link to the user's own cache there.
            folder = os.open(home / parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if (home / name).is_symlink():
                    return
                seen = snapshot(home / name, most=self._files, without=())
                files, size = len(seen), sum(one[1] for one in seen.values() if len(one) > 1)
                if 0 < files <= self._files and size <= self._bytes:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.rename(last, target, src_dir_fd=folder)
                    self._files, self._bytes = self._files - files, self._bytes - size
            finally:
                os.close(folder)


@dataclass(frozen=True, slots=True)
class CachesOfTest:
    """The kept caches of one test in `folder`, for one run of it."""

    caches: CompilerCaches
    folder: Path
    on_base: bool

    def lend(self, home: Path) -> None:
        """Copy the caches into a new home. A place that a link leads elsewhere is left alone."""
        for name in COMPILED:
            source, target = self.folder / name, home / name
            taken = os.path.lexists(target) or target.parent.is_symlink()
            if taken or not source.is_dir() or source.is_symlink():
                continue
            with suppress(OSError, NotPlainError):  # then the compiler begins from nothing
                copy_plain(Below(self.folder, name), Below(home, name))
                if name == GO:  # Go also keeps results of tests; each of ours runs
                    now = f"{time.time_ns()}\n".encode()
                    replace_plain(target, "testexpire.txt", now, mode=0o600)

    def keep(self, home: Path) -> None:
        """Keep what a run on the base compiled; nothing of any other run."""
        for name in COMPILED if self.on_base else ():
            self.caches.keep(home, name, self.folder / name)
