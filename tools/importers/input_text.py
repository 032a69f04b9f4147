"""The text of a file that the command line names; `-` is stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, read_text

STDIN = "-"


def input_text(file: str) -> str:
    """The text, without a byte order mark of stdin. Raises InputError."""
    if file != STDIN:
        try:
            return read_text(Path(file))
        except BadFileError as error:
            raise InputError(f"{error}: name a file in UTF-8") from error
    if sys.stdin is None:
        raise InputError("stdin is closed: name a file")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"stdin is not UTF-8 (byte {error.start})") from error
