"""Temporary folders. A killed run may leave some behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "tidegate-scratch-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, removed when the block ends. Its name tells whose it is."""
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """The folder for temporary files of this user."""
    return Path(environ.get("TMPDIR") or environ.get("TEMP") or tempfile.gettempdir())


def scratch_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """The existing scratch folders of this user, some of them possibly in use."""
    for folder in sorted(temporary_folder(environ).glob(f"{_PREFIX}*")):
        with suppress(OSError):
            is_ours = os.name == "nt" or folder.lstat().st_uid == os.geteuid()
            if is_ours and folder.is_dir() and not folder.is_symlink():
                yield folder


def scratch_of_dead(pid: int, environ: Mapping[str, str]) -> Iterator[Path]:
    """The scratch folders of a process that has ended; none if its number has another owner now."""
    if not Path("/proc", str(pid)).exists():
        mine = f"{_PREFIX}{pid}-"
        yield from (one for one in scratch_folders(environ) if one.name.startswith(mine))
