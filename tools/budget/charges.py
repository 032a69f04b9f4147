"""What counts of a dispatch that has ended, and how its event tells it. Pure.

A backend's word is believed only where it is a number; what nobody knows counts as reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from state_store.database import events
from state_store.database.spend import Charge, OpenUse, Overrun, Reserved
from tools.budget import ceilings
from tools.budget.ceilings import MICRO

OK, FAILED, EMPTY, HUNG = "OK", "FAILED", "EMPTY", "HUNG"


@dataclass(frozen=True, slots=True)
class Used:
    """What a backend says of a dispatch, believed only where it is a number; None is unknown.

    `usd` in USD; `verdict` is one of the ledger's words. `least_tokens` and `least_usd` are what is
    known of a use whose whole is not.
    """

    tokens_in: Any = None
    tokens_out: Any = None
    tokens: Any = None
    usd: Any = None
    least_tokens: Any = 0
    least_usd: Any = 0.0
    seconds: float = 0.0
    verdict: str = OK
    model: str | None = None


def charge_of(reserved: Reserved, used: Used) -> Charge:
    """What counts of a use; more than was reserved where that much is known."""
    entered, left = ceilings.counted(used.tokens_in), ceilings.counted(used.tokens_out)
    total = entered + left if entered is not None and left is not None else None
    if total is None:
        total = ceilings.counted(used.tokens)
    usd = ceilings.priced(used.usd)
    told = ceilings.counted(used.least_tokens) or 0
    at_least = max(reserved.tokens, told, (entered or 0) + (left or 0))
    least_usd = max(reserved.usd, ceilings.priced(used.least_usd) or 0)
    return Charge(
        tokens=at_least if total is None else total,
        usd=least_usd if usd is None else usd,
        tokens_in=entered,
        tokens_out=left,
        metered=total is not None,
        priced=usd is not None,
        seconds=used.seconds,
        verdict=used.verdict,
        model=used.model or reserved.purpose.model,
    )


def in_full(use: OpenUse) -> Charge:
    """The charge for a reservation whose holder ended without a word."""
    reserved = use.reserved
    return charge_of(reserved, Used(verdict=HUNG))


def billed(reserved: Reserved, charge: Charge, usd: Any) -> Mapping[str, Any]:
    """`cost_usd` is what was told, to the last digit; what counts is in whole micro-USD."""
    purpose = reserved.purpose
    known_usd = float(usd) if charge.priced else None
    return {
        "agent_id": events.agent_id(purpose.wave, purpose.item, purpose.phase, purpose.number),
        **{k: v for k, v in asdict(purpose).items() if k != "number"},
        "attempt": purpose.number,
        "model": charge.model or None,
        "tokens_in": charge.tokens_in,
        "tokens_out": charge.tokens_out,
        "tokens": charge.tokens if charge.metered else None,
        "cost_usd": known_usd,
        "charged_tokens": charge.tokens,
        "charged_usd": charge.usd / MICRO,
        "duration_s": round(charge.seconds, 3),
        "stamp": reserved.stamp,
    }


def beyond(running: Iterable[OpenUse], overruns: Sequence[Overrun]) -> tuple[int, int]:
    """Tokens and micro-USD to be set aside for `running` above what they reserved."""
    more = [_beyond(use, overruns) for use in running]
    return sum(tokens for tokens, _ in more), sum(usd for _, usd in more)


def _beyond(use: OpenUse, overruns: Sequence[Overrun]) -> tuple[int, int]:
    purpose, held = use.reserved.purpose, use.reserved
    kind = (purpose.backend, purpose.model, purpose.phase)
    beside = [one for one in overruns if one.kind == kind and one.settled >= use.since]
    return (
        max([0, *(one.tokens - held.tokens for one in beside)]),
        max([0, *(one.usd - held.usd for one in beside)]),
    )
