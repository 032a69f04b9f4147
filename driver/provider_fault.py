"""Why a provider or its CLI gave no answer, in words that every backend shares. Pure data.

A fault is never the agent's work going wrong, so it never costs a repair round. What is done about
one (wait, try again, park the wave, stop) is decided by those who read it.
"""

from __future__ import annotations

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
