"""Decides if a dispatch fits below the ceilings of a wave and a day. No I/O.

Tokens and money are reserved before use, dispatches are counted, minutes pass. All amounts are
whole numbers, money in micro-USD.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from state_store.database.spend import Total
from state_store.values.lazy_dataclass import dataclass
from tools.settings.schema import LimitsSettings

MICRO = 1_000_000
WAVE = "wave"
DAILY = "daily"
TOKENS = "tokens"
USD = "USD"
MINUTES = "minutes"
DISPATCHES = "dispatches"
MOST = 10**12  # no dispatch uses more, even if its backend says so
MOST_USD = 10**6  # no dispatch costs more; larger sums would not fit into the store


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The limits of one period. None means no limit. `usd` is in micro-USD."""

    tokens: int | None = None
    usd: int | None = None
    minutes: float | None = None
    dispatches: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of a run."""

    wave: Ceilings = Ceilings()
    day: Ceilings = Ceilings()
    default_tokens: int = 200_000
    allow_unpriced: bool = False

    @classmethod
    def of(cls, limits: LimitsSettings) -> Limits:
        """The limits in the settings `[limits]`."""
        return cls(
            Ceilings(
                limits.max_wave_tokens,
                micro(limits.max_wave_usd),
                limits.max_wave_minutes,
                limits.max_wave_dispatches,
            ),
            Ceilings(
                limits.max_daily_tokens,
                micro(limits.max_daily_usd),
                limits.max_daily_minutes,
                limits.max_daily_dispatches,
            ),
            limits.default_dispatch_tokens,
            limits.allow_unpriced,
        )


@dataclass(frozen=True, slots=True)
class Period:
    """A wave or a day: its limits, its use so far, and its minutes so far."""

    name: str
    ceilings: Ceilings
    total: Total
    minutes: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Spent, reserved and ceiling of each unit, for a report. Money is in USD."""
        total, limits = self.total, self.ceilings
        return {
            "tokens": {
                "spent": total.tokens,
                "reserved": total.reserved_tokens,
                "ceiling": limits.tokens,
            },
            "usd": {
                "spent": total.usd / MICRO,
                "reserved": total.reserved_usd / MICRO,
                "ceiling": None if limits.usd is None else limits.usd / MICRO,
            },
            "minutes": {"spent": round(self.minutes, 2), "ceiling": limits.minutes},
            "dispatches": {"spent": total.dispatches, "ceiling": limits.dispatches},
            "unmetered": total.unmetered,
            "unpriced": total.unpriced,
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """The probable use of a dispatch: `learnt` from others of its kind, or else a guess. `usd` is
    None if the price is unknown."""

    tokens: int
    usd: int | None
    learnt: bool = False


class Fit(StrEnum):
    """The decision on a dispatch: FITS now, FULL until another dispatch ends, or OVER for good."""

    FITS = "fits"
    FULL = "full"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision and its reason. If the dispatch fits, `tokens` and `usd` are to be reserved.
    Otherwise the other fields name the ceiling, and `reason` is the message."""

    fit: Fit
    tokens: int = 0
    usd: int = 0
    period: str = ""
    unit: str = ""
    ceiling: float | None = None
    spent: float | None = None
    reason: str = ""


def decide(periods: Sequence[Period], estimate: Estimate) -> Decision:
    """Decide if a dispatch fits below every ceiling.

    A reservation is never more than a whole ceiling, so that an estimate cannot stop the first
    dispatch. If a dispatch is too large only by a guess, it waits, because running dispatches may
    correct the guess.
    """
    for period in periods:
        limits, total = period.ceilings, period.total
        if limits.minutes is not None and period.minutes >= limits.minutes:
            spent = max(limits.minutes, round(period.minutes, 1))  # rounded, and still reached
            return _over(period, MINUTES, limits.minutes, spent)
        if limits.dispatches is not None and total.dispatches >= limits.dispatches:
            return _over(period, DISPATCHES, limits.dispatches, total.dispatches)
    limited = [period.ceilings for period in periods]
    tokens = min([estimate.tokens, *(c.tokens for c in limited if c.tokens is not None)])
    usd = min([estimate.usd or 0, *(c.usd for c in limited if c.usd is not None)])
    answers = [_refusal(period, TOKENS, tokens, estimate) for period in periods]
    answers += [_refusal(period, USD, usd, estimate) for period in periods]
    refused = [answer for answer in answers if answer is not None]
    if not refused:
        return Decision(Fit.FITS, tokens, usd)
    return next((answer for answer in refused if answer.fit is Fit.OVER), refused[0])


def micro(usd: float | None) -> int | None:
    """Micro-USD, rounded up."""
    return None if usd is None else math.ceil(round(usd * MICRO, 3))


def counted(value: Any) -> int | None:
    """A valid number of tokens; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST and value == int(value) else None


def priced(usd: Any) -> int | None:
    """Micro-USD of a reported cost; None for an invalid amount."""
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        return None
    return micro(usd) if 0 <= usd <= MOST_USD else None


def percentile_90(values: Sequence[int]) -> int:
    """The 90th percentile of `values`."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * 0.9) - 1]


def _refusal(period: Period, unit: str, need: int, estimate: Estimate) -> Decision | None:
    """The refusal if a need does not fit below one ceiling, else None."""
    total, ceilings = period.total, period.ceilings
    in_tokens = unit == TOKENS
    ceiling = ceilings.tokens if in_tokens else ceilings.usd
    spent = total.tokens if in_tokens else total.usd
    reserved = total.reserved_tokens if in_tokens else total.reserved_usd
    if ceiling is None or (spent < ceiling and spent + reserved + need <= ceiling):
        return None
    over = _over(period, unit, ceiling, spent, need)
    may_change = total.open and not estimate.learnt
    if spent < ceiling and (spent + need <= ceiling or may_change):
        return Decision(Fit.FULL, period=period.name, unit=unit, reason=over.reason)
    return over


def _over(
    period: Period, unit: str, ceiling: float, spent: float, need: float | None = None
) -> Decision:
    if unit == USD:
        ceiling, spent = ceiling / MICRO, spent / MICRO
        need = None if need is None else need / MICRO
    state = "reached" if spent >= ceiling else "too near"
    more = ""
    if need is not None and spent < ceiling:
        more = f", and a dispatch needs about {need:g}"
    reason = f"{period.name} ceiling {state}: {spent:.12g} of {ceiling:.12g} {unit} spent{more}"
    return Decision(
        Fit.OVER, period=period.name, unit=unit, ceiling=ceiling, spent=spent, reason=reason
    )
