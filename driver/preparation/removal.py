"""Removes large folders in the background, so that nobody waits for it.

In a wave, one after the other. At its end the whole folder of the run gets another name, and a
process removes it that the run does not wait for. The next run and `gc` finish that if it was
ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from driver.execution.processes import capture
from driver.execution.worker_pool import BackgroundTask
from driver.filesystem.tree import remove_tree
from driver.preparation.copies import remove_folder

SUFFIX = ".removed"  # ends the name of a folder that its run no longer needs
_MOST_WAITING = 8
_START_LIMIT_S = 10.0
# A folder without rights can be emptied only after they are given back. Files keep their modes:
# they may have other names elsewhere.
_REMOVE = """\
{
    nice -n 19 rm -rf -- "$@" || {
        find "$@" -type d ! -perm -700 -exec chmod u+rwx {} ';'
        rm -rf -- "$@"
    }
} < /dev/null > /dev/null 2>&1 &
"""


class Removal:
    """Removes folders of one run, which wait in the folder `waiting`. Safe to use from many
    threads."""

    def __init__(self, waiting: Path, environ: Mapping[str, str]) -> None:
        self._waiting, self._environ = waiting, environ
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._queue: list[Path] = []
        self._task: BackgroundTask[None] | None = None

    def remove(self, folder: Path) -> None:
        """Take a folder away from its place. Raises OSError if it stays."""
        if folder.is_symlink() or not folder.is_dir():
            remove_tree(folder)
            return
        away = self._waiting / str(next(self._numbers))
        try:
            self._waiting.mkdir(exist_ok=True)
            folder.rename(away)
        except OSError:  # a folder without rights
            remove_folder(folder, self._environ)
            return
        with self._lock:
            is_full = len(self._queue) >= _MOST_WAITING
            if not is_full:
                self._queue.append(away)
                if self._task is None:
                    self._task = BackgroundTask(self._work)
        if is_full:
            remove_folder(away, self._environ)

    def stop(self) -> None:
        """Begin no further removal."""
        with self._lock:
            self._queue.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._task = None
                    return
                folder = self._queue.pop(0)
            with contextlib.suppress(OSError):  # what stays goes with the folder of the run
                remove_folder(folder, self._environ, gently=True)


def remove_after_the_run(folder: Path, environ: Mapping[str, str]) -> None:
    """Remove the large folder of a run that ends, without waiting for it."""
    away = folder.with_name(folder.name + SUFFIX)
    try:
        folder.rename(away)
    except OSError:
        away = folder
    if not _started([away], environ):
        shutil.rmtree(away, ignore_errors=True)


def finish_removals(root: Path, environ: Mapping[str, str]) -> None:
    """Remove what earlier runs left, without waiting for it."""
    if left := [one for one in root.glob(f"*{SUFFIX}") if not one.is_symlink()]:
        _started(left, environ)


def _started(folders: list[Path], environ: Mapping[str, str]) -> bool:
    """Start to remove folders; False if this system cannot."""
    if os.name != "posix":
        return False
    with contextlib.suppress(OSError):
        argv = ("/bin/sh", "-c", _REMOVE, "sh", *map(str, folders))
        return capture(argv, cwd=Path("/"), env=environ, timeout_s=_START_LIMIT_S).ok
    return False
