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
    """A temporary folder, removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
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
