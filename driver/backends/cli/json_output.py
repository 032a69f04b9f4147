"""Reads the JSON that agent programs print line by line or write into a file.

A program may change its output with any release: a part that is missing or wrong reads as empty.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from state_store.documents import strict_json


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


def mapping_at(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`, an empty one where there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def text_at(record: Mapping[str, Any], key: str) -> str:
    """The text at `key`, "" where there is none."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


MAX_VERDICT_BYTES = 2**20


def read_verdict(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The object that a program was asked to write, and a warning when what it wrote is none."""
    try:
        # The program chose what lies here: a pipe or a device must not hold us up.
        if not stat.S_ISREG(path.lstat().st_mode):
            return None, "the verdict file is not a regular file"
        with path.open("rb") as file:
            content = file.read(MAX_VERDICT_BYTES + 1)
        if len(content) > MAX_VERDICT_BYTES:
            return None, f"the verdict file is larger than {MAX_VERDICT_BYTES} bytes"
        found = strict_json.parse(content.decode("utf-8"))
    except FileNotFoundError:
        return None, "there is no verdict file"
    except (OSError, ValueError) as error:
        return None, f"the verdict file cannot be used ({error})"
    return (found, "") if isinstance(found, dict) else (None, "the verdict file holds no object")
