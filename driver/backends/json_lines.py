"""The objects among the lines of a program that prints one a line. Pure.

Such a program may change what it prints with any release: what is not there reads as empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from state_store import strict_json


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, None when it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def answer_in(text: str) -> dict[str, Any] | None:
    """The same for an answer that something is decided by: none where readers may differ on it."""
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
