"""Takes known secrets out of files that other programs wrote: outputs, answers, reports."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from driver.filesystem.descriptors import read_at, write_all
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain
from state_store.redaction.installed import current

_BLOCK = 2**20
# A saved change is the work itself, and has to stay as it is.
_KEPT = (".patch",)


def redact_file(file: int) -> None:
    """Takes the known secrets out of the open file, in place. Raises OSError.

    The new text is on disk before the old one is removed.
    """
    redactor = current()
    if redactor is None:
        return
    size, step = os.fstat(file).st_size, max(_BLOCK, 4 * redactor.margin)
    overlap = redactor.margin
    parts = range(0, size, step)
    if not any(redactor.holds(read_at(file, at, step + overlap)) for at in parts):
        return
    with tempfile.TemporaryFile() as clean:
        clean.writelines(redactor.stream(read_at(file, at, step) for at in parts))
        clean.seek(0)
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        while part := clean.read(_BLOCK):
            write_all(file, part)


def redact_folder(folder: Path) -> None:
    """Takes the known secrets out of the regular files below a folder; saved changes stay."""
    for top, _, names in os.walk(folder) if current() is not None else ():
        for name in names:
            with suppress(OSError, NotPlainError):
                if not name.endswith(_KEPT):
                    with open_plain(Path(top), name, write=True) as file:
                        redact_file(file.fileno())
