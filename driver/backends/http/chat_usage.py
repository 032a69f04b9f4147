"""Adds up the `usage` of the answers of a dispatch. Pure.

An answer without credible use makes the sum unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.backend_api.driver import Usage
from driver.backend_api.json_parts import amount_at, count_at, mapping_at
from driver.backend_api.models import Price, cost_of
from driver.backend_api.usage import count, total_of
from driver.backends.http.chat_answer import says_something
from state_store.values.lazy_dataclass import dataclass, field

MISSING = "missing"
MALFORMED = "malformed"


@dataclass(slots=True)
class Bill:
    """Adds up the answers of one dispatch. `trouble` is the reason for an unknown sum, if any."""

    model: str
    prices: Mapping[str, Price] = field(default_factory=dict)
    trouble: str = ""
    _uses: list[Usage] = field(default_factory=list)

    def add(self, document: Mapping[str, Any]) -> None:
        """Count one answer, even if it was unusable."""
        use, trouble = read_use(document, self.model, self.prices)
        self.trouble = self.trouble or trouble
        self._uses.append(use)

    def add_unknown(self) -> None:
        """Count a request without an answer, for which a model may have worked."""
        self.trouble = self.trouble or MISSING
        self._uses.append(Usage())

    @property
    def usage(self) -> Usage:
        """The sum of what is not booked yet. Numbers that one answer does not tell are unknown in
        the sum, with a lower bound."""
        return total_of(self._uses)

    def book(self) -> Usage:
        """Return the usage so far, which does not count any more."""
        usage, self._uses = self.usage, []
        return usage


def read_use(
    document: Mapping[str, Any], model: str, prices: Mapping[str, Price]
) -> tuple[Usage, str]:
    """The use in an answer, and MISSING or MALFORMED if it is not complete, else "".

    Each number counts, even if another one is missing or malformed. Zeros in a real answer were
    invented by a proxy, and count as malformed.
    """
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return Usage(), MISSING if usage is None else MALFORMED
    trouble, counts = "", list[int | None]()
    for kind in ("prompt", "completion", "total"):
        try:
            counts.append(count(usage, f"{kind}_tokens"))
        except ValueError:
            counts.append(None)
            trouble = MALFORMED
    cost = amount_at(usage, "cost")
    if 0 in counts and says_something(document):
        counts = [counts[0] or None, counts[1] or None, None]
        cost, trouble = cost or None, MALFORMED
    entered, left, total = counts
    if entered is None or left is None:
        known = Usage(entered, left, cost, undivided_tokens=total)
        return known, trouble if trouble or total is not None else MISSING
    # Some servers count thoughts only in the total.
    left = max(left, (total or 0) - entered)
    if cost is None:
        inner = count_at(mapping_at(usage, "prompt_tokens_details"), "cached_tokens")
        found = (
            inner,
            count_at(usage, "cached_tokens"),
            count_at(usage, "prompt_cache_hit_tokens"),
        )
        cached = next((one for one in found if one is not None), 0)
        use = Usage(entered, left)
        cost = cost_of(model, use, prices, cached_tokens=cached, one_request=True)
    return Usage(entered, left, cost), trouble
