"""Reads the JSON that agent programs print line by line or write into a file."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from state_store.documents import strict_json

MAX_VERDICT_BYTES = 2**20


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, None when it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def answer_in(text: str) -> dict[str, Any] | None:
    """The JSON object of an answer that decides something: None also where parsers may differ on
    it, as on a key that occurs twice."""
    try:
        value = strict_json.parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def objects_in(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The lines that are JSON objects; all others are passed over."""
    return (found for line in lines if (found := object_in(line)) is not None)


def bytes_of(path: Path, most: int) -> bytes:
    """The content of a file that an agent may have written.

    Raises ValueError when it is larger than `most` bytes or no regular file: reading a pipe or a
    device would hang. Raises OSError when it cannot be read.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return content


def read_verdict(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The object that a program was asked to write, and a warning when what it wrote is none."""
    try:
        found = strict_json.parse(bytes_of(path, MAX_VERDICT_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return None, "there is no verdict file"
    except (OSError, ValueError) as error:
        return None, f"the verdict file cannot be used ({error})"
    return (found, "") if isinstance(found, dict) else (None, "the verdict file holds no object")
