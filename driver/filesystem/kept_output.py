"""The files in which the output of a command is kept: `.out` of stdout, `.err` of stderr."""

from __future__ import annotations

import os
from pathlib import Path

ENDINGS = OUT, ERR = ".out", ".err"


def both_files(output_file: str | Path) -> tuple[Path, Path]:
    """The file of stdout, by which reports name the output, and the file of stderr."""
    return Path(output_file), Path(output_file).with_suffix(ERR)


def file_to_read(output_file: str) -> str:
    """The file that a person is to read: that of stderr if only stderr has text."""
    of_errors = str(both_files(output_file)[1])
    return of_errors if not _size(output_file) and _size(of_errors) else output_file


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
