"""Folders for a moment, of which nothing is worth keeping: a run that is killed may leave some."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "tidegate-scratch-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder, gone at the end with all that is in it."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        yield Path(folder)


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """Where this user's programs put what is for a moment."""
    return Path(environ.get("TMPDIR") or environ.get("TEMP") or tempfile.gettempdir())


def scratch_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """This user's that are there; each may still be in use."""
    for folder in sorted(temporary_folder(environ).glob(f"{_PREFIX}*")):
        with suppress(OSError):
            is_ours = os.name == "nt" or folder.lstat().st_uid == os.geteuid()
            if is_ours and folder.is_dir() and not folder.is_symlink():
                yield folder
