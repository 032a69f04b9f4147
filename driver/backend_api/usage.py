"""Reads and adds up reported usage strictly: an unknown number is never a zero. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from driver.backend_api.driver import Usage
from state_store.documents import strict_json

MAX_USAGE_BYTES = 65_536
NOTHING_SPENT = Usage(0, 0, 0.0)
_MOST = 10**12  # larger than any real use; sums of longer numbers cannot be stored


class BadUsageError(ValueError):
    """A reported use is not credible; `known` is its credible part."""

    def __init__(self, why: str, known: Usage) -> None:
        self.known = known
        super().__init__(why)


def parse_usage(content: bytes) -> Usage:
    """Usage from `{"input_tokens": n, "output_tokens": n, "cost_usd": x}`; null is unknown.

    Raises ValueError with the reason, also for bad JSON and bad UTF-8, and BadUsageError if a part
    is credible.
    """
    if len(content) > MAX_USAGE_BYTES:
        raise ValueError(f"it is larger than {MAX_USAGE_BYTES} bytes")
    record = strict_json.parse(content.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError("it must hold a JSON object")  # noqa: TRY004 - bad data, not a bug
    return usage_from(record)


def usage_from(record: Mapping[str, Any]) -> Usage:
    """Usage from a decoded object. Raises BadUsageError with the wrong keys."""
    known: dict[str, Any] = {}
    wrong = []
    for key, read in (("input_tokens", count), ("output_tokens", count), ("cost_usd", amount)):
        try:
            known[key] = read(record, key)
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise BadUsageError("; ".join(wrong), Usage(**known))
    return Usage(**known)


def count(record: Mapping[str, Any], key: str) -> int | None:
    """A non-negative whole number; None if absent. Raises ValueError for anything else and for
    numbers that are too large."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} must be a whole number of at least 0, not {value!r:.40}")
    if value >= _MOST:
        raise ValueError(f"{key} must be below {_MOST}")
    return value


def amount(record: Mapping[str, Any], key: str) -> float | None:
    """A non-negative finite number; None if absent. Raises ValueError for anything else."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{key} must be a finite number of at least 0, not {value!r:.40}")
    if value >= _MOST:
        raise ValueError(f"{key} must be below {_MOST}")
    return float(value)


def total_of(uses: Iterable[Usage]) -> Usage:
    """The sum of all uses. If a number is unknown in one use, its sum is unknown, and the sum of
    its known parts is the lower bound."""
    parts = [use for use in uses if use != NOTHING_SPENT]
    if len(parts) < 2:  # a part of unknown cost is not changed by parts without cost
        return parts[0] if parts else NOTHING_SPENT
    costs = [use.cost_usd for use in parts if use.cost_usd is not None]
    whole = Usage(
        input_tokens=_sum(use.input_tokens for use in parts),
        output_tokens=_sum(use.output_tokens for use in parts),
        cost_usd=math.fsum(costs) if len(costs) == len(parts) else None,
    )
    if whole.total_tokens is None:
        whole = replace(whole, undivided_tokens=_sum(use.total_tokens for use in parts))
    return with_least(whole, parts)


def with_least(whole: Usage, parts: Iterable[Usage]) -> Usage:
    """`whole` with a lower bound, from the known `parts`, for each unknown sum."""
    known = list(parts)
    tokens = sum(one.known_tokens for one in known) if whole.total_tokens is None else 0
    usd = math.fsum(one.known_usd for one in known) if whole.cost_usd is None else 0.0
    return replace(whole, least_tokens=tokens, least_usd=usd)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(one or 0 for one in known)
