"""What the requests of one dispatch were billed, from the `usage` of each answer. Pure.

One answer without a believable use makes the whole unknown; an unknown is never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from driver.backend_api.driver import Usage
from driver.backend_api.models import Price, cost_of
from driver.backend_api.usage import NOTHING_SPENT, with_least
from driver.backends.http.chat_answer import says_something

_MOST = 10**12
MISSING = "missing"
MALFORMED = "malformed"


@dataclass(slots=True)
class Bill:
    """Adds up the answers of one dispatch; `trouble` says why the sum is unknown, if it is."""

    model: str
    prices: Mapping[str, Price] = field(default_factory=dict)
    trouble: str = ""
    _uses: list[Usage] = field(default_factory=list)

    def add(self, document: Mapping[str, Any]) -> None:
        """Count one answer, whether or not it was of any use."""
        use = read_use(document, self.model, self.prices)
        if isinstance(use, str):
            self.trouble = self.trouble or use
        else:
            self._uses.append(use)

    def add_unknown(self) -> None:
        """A model may have worked for a request that brought no answer."""
        self.trouble = self.trouble or MISSING

    @property
    def usage(self) -> Usage:
        """The sum; all of it unknown when one part is, but for the least that it was."""
        if self.trouble:
            return with_least(Usage(), self._uses)
        if not self._uses:
            return NOTHING_SPENT
        costs = [use.cost_usd for use in self._uses]
        cost = None if None in costs else math.fsum(one or 0.0 for one in costs)
        if any(use.input_tokens is None for use in self._uses):
            total = sum(use.total_tokens or 0 for use in self._uses)
            return with_least(Usage(cost_usd=cost, undivided_tokens=total), self._uses)
        whole = Usage(
            input_tokens=sum(use.input_tokens or 0 for use in self._uses),
            output_tokens=sum(use.output_tokens or 0 for use in self._uses),
            cost_usd=cost,
        )
        return with_least(whole, self._uses)


def read_use(document: Mapping[str, Any], model: str, prices: Mapping[str, Price]) -> Usage | str:
    """What one answer says it was billed, else MISSING or MALFORMED.

    Zeros beside an answer were made up by something on the way, and count as malformed.
    """
    told = document.get("usage")
    if not isinstance(told, dict):
        return MISSING if told is None else MALFORMED
    counts = [told.get(f"{kind}_tokens") for kind in ("prompt", "completion", "total")]
    if any(count is not None and not _is_count(count) for count in counts):
        return MALFORMED
    entered, left, total = counts
    known = [count for count in counts if count is not None]
    if not known or (total is None and len(known) < 2):
        return MISSING
    if 0 in known and says_something(document):
        return MALFORMED
    if entered is None or left is None:
        return Usage(undivided_tokens=total, cost_usd=_told_cost(told))
    # Some servers count thoughts in the total only.
    left = max(left, (total or 0) - entered)
    use = Usage(entered, left)
    cost = _told_cost(told)
    if cost is None:
        cost = cost_of(model, use, prices, cached_tokens=_cached(told), one_request=True)
    return Usage(entered, left, cost)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _cached(told: Mapping[str, Any]) -> int:
    details = told.get("prompt_tokens_details")
    inner = details.get("cached_tokens") if isinstance(details, dict) else None
    found = (inner, told.get("cached_tokens"), told.get("prompt_cache_hit_tokens"))
    return next((count for count in found if _is_count(count)), 0)


def _told_cost(told: Mapping[str, Any]) -> float | None:
    cost = told.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    return float(cost) if 0 <= cost < _MOST else None
