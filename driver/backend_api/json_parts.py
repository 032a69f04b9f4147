"""Reads parts of foreign JSON: a missing or wrong part reads as empty.

Pure. Providers and programs may change their JSON with any release.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from driver.backend_api.usage import amount, count


def mapping_at(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`; an empty object for anything else."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def text_at(record: Mapping[str, Any], key: str) -> str:
    """The text at `key`; "" for anything else."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def count_at(record: Mapping[str, Any], key: str) -> int | None:
    """The whole number of at least 0 at `key`; None for anything else."""
    with suppress(ValueError):
        return count(record, key)
    return None


def amount_at(record: Mapping[str, Any], key: str) -> float | None:
    """The finite number of at least 0 at `key`; None for anything else."""
    with suppress(ValueError):
        return amount(record, key)
    return None
