"""Reads parts of JSON that a provider or a program wrote: what is missing or wrong reads as empty.

Pure. Such JSON may change with any release of its writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from driver.backend_api.usage import amount, count


def mapping_at(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`, an empty one for anything else."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def text_at(record: Mapping[str, Any], key: str) -> str:
    """The text at `key`, "" for anything else."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def count_at(record: Mapping[str, Any], key: str) -> int | None:
    """The whole number of at least 0 at `key`, None for anything else."""
    with suppress(ValueError):
        return count(record, key)
    return None


def amount_at(record: Mapping[str, Any], key: str) -> float | None:
    """The finite number of at least 0 at `key`, None for anything else."""
    with suppress(ValueError):
        return amount(record, key)
    return None
