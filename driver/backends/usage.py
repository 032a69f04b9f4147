"""What a backend says it used: read strictly, and added up. Pure; an unknown is never a zero."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from driver.agent_driver import Usage

MAX_USAGE_BYTES = 65_536
NOTHING_SPENT = Usage(0, 0, 0.0)
_MOST = 10**12  # nobody uses so much, and sums of longer numbers cannot be written down


def parse_usage(content: bytes) -> Usage:
    """Usage from `{"input_tokens": n, "output_tokens": n, "cost_usd": x}`; null is unknown.

    Raises ValueError saying what is wrong, also for bad JSON and bad UTF-8.
    """
    if len(content) > MAX_USAGE_BYTES:
        raise ValueError(f"it is larger than {MAX_USAGE_BYTES} bytes")
    try:
        record = json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError("it must hold a JSON object")  # noqa: TRY004 - bad data, not a bug
    return usage_from(record)


def usage_from(record: Mapping[str, Any]) -> Usage:
    """Usage from a decoded object. Raises ValueError naming the key that is wrong."""
    return Usage(
        input_tokens=count(record, "input_tokens"),
        output_tokens=count(record, "output_tokens"),
        cost_usd=amount(record, "cost_usd"),
    )


def count(record: Mapping[str, Any], key: str) -> int | None:
    """A non-negative whole number, or None when absent. Raises ValueError for anything else, and
    for one that nobody can have used."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} must be a whole number of at least 0, not {value!r:.40}")
    if value >= _MOST:
        raise ValueError(f"{key} must be below {_MOST}")
    return value


def amount(record: Mapping[str, Any], key: str) -> float | None:
    """A non-negative finite number, or None when absent. Raises ValueError for anything else."""
    value = record.get(key)
    if value is None:
        return None
    number = _finite(value)
    if number is None or number < 0:
        raise ValueError(f"{key} must be a finite number of at least 0, not {value!r:.40}")
    if number >= _MOST:
        raise ValueError(f"{key} must be below {_MOST}")
    return number


def added(first: Usage, second: Usage) -> Usage:
    """The sum; a number that is unknown in one of them is unknown in it."""
    if NOTHING_SPENT in (first, second):  # also where the other only tells one number of tokens
        return second if first == NOTHING_SPENT else first
    cost = None
    if first.cost_usd is not None and second.cost_usd is not None:
        cost = first.cost_usd + second.cost_usd
    return Usage(
        input_tokens=_sum(first.input_tokens, second.input_tokens),
        output_tokens=_sum(first.output_tokens, second.output_tokens),
        cost_usd=cost,
        undivided_tokens=_sum(first.undivided_tokens, second.undivided_tokens),
    )


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond the range of float
        return None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
