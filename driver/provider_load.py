"""What the gate before a provider did, for people: lines when it closes and opens, and their sum.

Pure bookkeeping; times are seconds of the gate's clock. Who may start is the gate's decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from driver.provider_fault import ProviderFault


@dataclass(frozen=True, slots=True)
class ProviderLoad:
    """How often and how long (in seconds) nobody was let through to a provider, and how few were
    let through at once after that; None when that was never limited."""

    closings: int = 0
    closed_s: float = 0.0
    least_at_once: int | None = None


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate at one moment: closed until when (None: open), by how many faults in a row, and how
    many it lets through at once when it is open."""

    closed_until: float | None
    strikes: int
    limit: float


class GateLog:
    """Not thread safe."""

    def __init__(self) -> None:
        self._closings, self._closed_s, self._least = 0, 0.0, math.inf
        self._closed_at: float | None = None
        self._strikes = 0

    def line(self, state: GateState, now: float, fault: ProviderFault | None = None) -> str:
        """What to tell of the gate's way to `state`, which `fault` may have caused; "" for none."""
        worse, self._strikes = state.strikes > self._strikes, state.strikes
        if state.closed_until is None:
            return self._opened(state.limit, now)
        if self._closed_at is None:
            self._closings, self._closed_at = self._closings + 1, now
        if not worse or fault is None:
            return ""
        away_s = max(0.0, state.closed_until - now)
        return f"{fault.kind}, so no call to the provider for {away_s:.0f} s: {fault.message}"

    def load(self, now: float) -> ProviderLoad:
        """The sum so far."""
        closed_s = self._closed_s + (0.0 if self._closed_at is None else now - self._closed_at)
        least = None if self._least == math.inf else int(self._least)
        return ProviderLoad(self._closings, closed_s, least)

    def _opened(self, limit: float, now: float) -> str:
        if self._closed_at is None:
            return ""
        self._closed_s += now - self._closed_at
        self._closed_at = None
        self._least = min(self._least, limit)
        many = "as many at once as before" if limit == math.inf else f"at most {limit} at once"
        return f"the provider answers again: {many}"
