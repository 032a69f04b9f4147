"""Computes the charge of a dispatch, and its event. No I/O.

Only valid numbers of a backend's report count. An unknown use counts as its reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from state_store.database import events
from state_store.database.spend import Charge, OpenUse, Overrun, Reserved, Total
from state_store.values.lazy_dataclass import asdict, dataclass, replace
from tools.budget import ceilings
from tools.budget.ceilings import MICRO

OK, FAILED, EMPTY, HUNG = "OK", "FAILED", "EMPTY", "HUNG"


@dataclass(frozen=True, slots=True)
class Used:
    """The reported use of a dispatch. None and invalid values are unknown.

    `usd` is in USD. `verdict` is a verdict of the ledger. `least_tokens` and `least_usd` are the
    known part of an unknown total.
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
    """The charge for a use. If the use is unknown, it is the reservation, or the known part if
    larger."""
    entered, left = ceilings.counted(used.tokens_in), ceilings.counted(used.tokens_out)
    total = entered + left if entered is not None and left is not None else None
    if total is None:
        total = ceilings.counted(used.tokens)
    usd = ceilings.priced(used.usd)
    known = ceilings.counted(used.least_tokens) or 0
    at_least = max(reserved.tokens, known, (entered or 0) + (left or 0))
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


def billed(reserved: Reserved, charge: Charge, usd: Any) -> Mapping[str, Any]:
    """The payload of a use's event. `cost_usd` is the exact reported cost; the charge is in whole
    micro-USD."""
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


def with_overruns(total: Total, running: Iterable[OpenUse], overruns: Sequence[Overrun]) -> Total:
    """`total` with more reserved for `running` uses: the largest use of the same kind that exceeded
    its reservation while they ran."""
    tokens, usd = total.reserved_tokens, total.reserved_usd
    for use in running:
        purpose, held = use.reserved.purpose, use.reserved
        kind = (purpose.backend, purpose.model, purpose.phase)
        larger = [one for one in overruns if one.kind == kind and one.settled >= use.since]
        tokens += max([0, *(one.tokens - held.tokens for one in larger)])
        usd += max([0, *(one.usd - held.usd for one in larger)])
    return replace(total, reserved_tokens=tokens, reserved_usd=usd)
