"""Adds up the `usage` of the answers of a dispatch. Pure.

An answer without credible use makes the sum unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.backend_api.driver import Usage
from driver.backend_api.json_parts import amount_at, count_at, mapping_at
from driver.backend_api.models import Price, cost_of
from driver.backend_api.usage import count, total_of, with_least
from driver.backends.http.chat_answer import says_something

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
        use = read_use(document, self.model, self.prices)
        if isinstance(use, str):
            self.trouble = self.trouble or use
        else:
            self._uses.append(use)

    def add_unknown(self) -> None:
        """Count a request without an answer, for which a model may have worked."""
        self.trouble = self.trouble or MISSING

    @property
    def usage(self) -> Usage:
        """The sum; unknown with a lower bound if one part is unknown."""
        return with_least(Usage(), self._uses) if self.trouble else total_of(self._uses)


def read_use(document: Mapping[str, Any], model: str, prices: Mapping[str, Price]) -> Usage | str:
    """The use in an answer, or MISSING or MALFORMED.

    Zeros in a real answer were invented by a proxy, and count as malformed.
    """
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return MISSING if usage is None else MALFORMED
    try:
        counts = [count(usage, f"{kind}_tokens") for kind in ("prompt", "completion", "total")]
    except ValueError:
        return MALFORMED
    entered, left, total = counts
    known = [one for one in counts if one is not None]
    if not known or (total is None and len(known) < 2):
        return MISSING
    if 0 in known and says_something(document):
        return MALFORMED
    cost = amount_at(usage, "cost")
    if entered is None or left is None:
        return Usage(undivided_tokens=total, cost_usd=cost)
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
    return Usage(entered, left, cost)
