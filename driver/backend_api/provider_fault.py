"""Why a provider or its CLI gave no answer, in words that every backend shares. Pure data.

A fault is never the agent's work going wrong, so it never costs a repair round. What is done about
one (wait, try again, park the wave, stop) is decided by those who read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What kept the answer away."""

    BAD_KEY = "bad_key"
    BAD_REQUEST = "bad_request"
    UNKNOWN_MODEL = "unknown_model"
    NO_CREDIT = "no_credit"
    USAGE_LIMIT = "usage_limit"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    DROPPED = "dropped"
    SILENT = "silent"
    MALFORMED = "malformed"
    GIVEN_UP = "given_up"


# Another try of the same request may work; for all others it is money or time for nothing.
TRANSIENT = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.OVERLOADED,
        FaultKind.DROPPED,
        FaultKind.SILENT,
        FaultKind.MALFORMED,
    }
)

# The whole backend is of no use for now, whatever the item: the next request meets the same.
LASTING = frozenset(
    {
        FaultKind.BAD_KEY,
        FaultKind.UNKNOWN_MODEL,
        FaultKind.NO_CREDIT,
        FaultKind.USAGE_LIMIT,
        FaultKind.GIVEN_UP,
    }
)

# Time alone helps: the wave is parked, and a later run goes on.
PARKING = frozenset({FaultKind.USAGE_LIMIT, FaultKind.GIVEN_UP})


@dataclass(frozen=True, slots=True)
class ProviderFault:
    """One fault, and the sentence for people.

    `status` is the HTTP status where there was one; `retry_after_s` what the provider asked for,
    in seconds from now; `resets_at` when a used-up plan works again, in seconds since the epoch.
    """

    kind: FaultKind
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    resets_at: float | None = None

    @property
    def transient(self) -> bool:
        """True when the same request may work a little later."""
        return self.kind in TRANSIENT

    @property
    def lasting(self) -> bool:
        """True when no other item of this wave would fare better."""
        return self.kind in LASTING


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
