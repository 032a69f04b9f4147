"""Faults: reasons why a provider or its CLI gave no answer, for all backends. No I/O.

A fault is never an error in the agent's work, so it never costs a repair round. The caller decides
to wait, try again, park the wave or stop.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

from state_store.values.lazy_dataclass import dataclass

AWAY = ", so no call to the provider for "  # between the kind of fault and the time


class FaultKind(StrEnum):
    """The kind of a fault."""

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
    DID_NOTHING = "did_nothing"


# The same request may work later. For all other kinds another try only costs money or time.
TRANSIENT = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.OVERLOADED,
        FaultKind.DROPPED,
        FaultKind.SILENT,
        FaultKind.MALFORMED,
    }
)

# The requests of all other items meet the same fault, so the backend is closed.
LASTING = frozenset(
    {
        FaultKind.BAD_KEY,
        FaultKind.UNKNOWN_MODEL,
        FaultKind.NO_CREDIT,
        FaultKind.USAGE_LIMIT,
        FaultKind.GIVEN_UP,
    }
)

# These faults of a bad request come from the address, all others from the prompt.
WRONG_ADDRESS = (404, 407, 501)

# Only time helps: the wave is parked, and a later run resumes it.
PARKING = frozenset({FaultKind.USAGE_LIMIT, FaultKind.GIVEN_UP, FaultKind.DID_NOTHING})


@dataclass(frozen=True, slots=True)
class ProviderFault:
    """A fault and its message for people.

    `status` is the HTTP status, if any. `retry_after_s` is the wait that the provider asks for.
    `resets_at` is the time at which a used-up plan works again, in seconds since the epoch.
    """

    kind: FaultKind
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    resets_at: float | None = None

    @property
    def transient(self) -> bool:
        """True if the same request may work a little later."""
        return self.kind in TRANSIENT

    @property
    def did_nothing(self) -> bool:
        """True if no model worked, and the reason is probably the same for every item: unknown
        words, or the wrong address."""
        wrong_address = self.kind is FaultKind.BAD_REQUEST and self.status in WRONG_ADDRESS
        return wrong_address or self.kind is FaultKind.DID_NOTHING

    @property
    def lasting(self) -> bool:
        """True if every other item of this wave would meet the same fault."""
        return self.kind in LASTING


@dataclass(frozen=True, slots=True)
class ProviderLoad:
    """The load of a provider: the number and total seconds of the gate's closings, and the lowest
    limit of calls at once; None if calls were never limited."""

    closings: int = 0
    closed_s: float = 0.0
    least_at_once: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The key `provider` of a report."""
        closed_s = round(self.closed_s, 3)
        return {"closings": self.closings, "closedS": closed_s, "leastAtOnce": self.least_at_once}


@dataclass(frozen=True, slots=True)
class GateState:
    """The state of a gate: its opening time (None if open), the faults in a row that closed it, and
    the limit of calls at once."""

    closed_until: float | None
    strikes: int
    limit: float


ASKED_AGAIN = "the provider is asked again"  # begins the message about the end of an outage


class GateLog:
    """The messages and the load of a gate. Not thread safe."""

    def __init__(self) -> None:
        self._closings, self._closed_s, self._least = 0, 0.0, math.inf
        self._closed_at: float | None = None
        self._strikes = 0

    def line(self, state: GateState, now: float, fault: ProviderFault | None = None) -> str:
        """The message about the gate's change to `state`, which `fault` may have caused, or ""."""
        worse, self._strikes = state.strikes > self._strikes, state.strikes
        if state.closed_until is None:
            return "" if self._closed_at is None else self._opened(state.limit, now)
        if self._closed_at is None:
            self._closings, self._closed_at = self._closings + 1, now
        if not worse or fault is None:
            return ""
        away_s = max(0.0, state.closed_until - now)
        return f"{fault.kind}{AWAY}{away_s:.0f} s: {fault.message}"

    def load(self, now: float) -> ProviderLoad:
        """The load so far."""
        closed_s = self._closed_s + (0.0 if self._closed_at is None else now - self._closed_at)
        least = None if self._least == math.inf else int(self._least)
        return ProviderLoad(self._closings, closed_s, least)

    def _opened(self, limit: float, now: float) -> str:
        """The message about the end of an outage; "" if the gate was open already."""
        if self._closed_at is None:
            return ""
        self._closed_s += now - self._closed_at
        self._closed_at = None
        self._least = min(self._least, limit)
        many = "as many at once as before" if limit == math.inf else f"at most {limit} at once"
        return f"{ASKED_AGAIN}: {many}"
