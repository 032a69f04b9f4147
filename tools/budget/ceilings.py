"""What a wave and a day may use, and whether one more dispatch fits: pure decisions.

Tokens and money are reserved before they are used; dispatches are counted; minutes have passed or
have not. All amounts are whole numbers, money in micro-USD.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from state_store.database.spend import Total
from tools.settings.schema import LimitsSettings

MICRO = 1_000_000
WAVE = "wave"
DAILY = "daily"
TOKENS = "tokens"
USD = "USD"
MINUTES = "minutes"
DISPATCHES = "dispatches"
MOST = 10**12  # no dispatch uses more, whatever its backend says
MOST_USD = 10**6  # nor costs more; sums of larger ones would not fit into the store


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The limits of one period; None is no limit. `usd` is in micro-USD."""

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
        """From `[limits]`."""
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

    @property
    def has_usd(self) -> bool:
        """Whether money is limited."""
        return self.wave.usd is not None or self.day.usd is not None


@dataclass(frozen=True, slots=True)
class Period:
    """One of the two periods, its limits, what was used in it, and the minutes that count."""

    name: str
    ceilings: Ceilings
    total: Total
    minutes: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a dispatch will probably use. `learnt` from others of its kind, else a guess; `usd` is
    None where its price is unknown."""

    tokens: int
    usd: int | None
    learnt: bool = False


class Fit(StrEnum):
    """Whether one more dispatch may begin: now, perhaps when another has ended, or not."""

    FITS = "fits"
    FULL = "full"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Decision:
    """`tokens` and `usd` are what to reserve when it fits; else the rest says which ceiling of
    which period, in `unit`, and `reason` is the sentence for people."""

    fit: Fit
    tokens: int = 0
    usd: int = 0
    period: str = ""
    unit: str = ""
    ceiling: float | None = None
    spent: float | None = None
    reason: str = ""


def decide(periods: Sequence[Period], estimate: Estimate) -> Decision:
    """Whether a dispatch fits below every ceiling.

    A reservation is never more than a whole ceiling, so that an estimate alone does not keep the
    first dispatch from being tried. What is too much only by a guess waits while others may teach
    better.
    """
    counted = next(_used_up(periods), None)
    if counted is not None:
        return counted
    tokens = _capped(estimate.tokens, [period.ceilings.tokens for period in periods])
    usd = _capped(estimate.usd or 0, [period.ceilings.usd for period in periods])
    answers = [_one(period, TOKENS, tokens, estimate) for period in periods]
    answers += [_one(period, USD, usd, estimate) for period in periods]
    refused = [answer for answer in answers if answer is not None]
    if not refused:
        return Decision(Fit.FITS, tokens, usd)
    return next((answer for answer in refused if answer.fit is Fit.OVER), refused[0])


def micro(usd: float | None) -> int | None:
    """Micro-USD, rounded up."""
    return None if usd is None else math.ceil(round(usd * MICRO, 3))


def counted(value: Any) -> int | None:
    """A number of tokens, or None for what is none: negative, NaN, endless, no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST and value == int(value) else None


def priced(usd: Any) -> int | None:
    """Micro-USD of what a backend says it cost, None for what is no amount."""
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        return None
    return micro(usd) if 0 <= usd <= MOST_USD else None


def percentile_90(values: Sequence[int]) -> int:
    """The smallest of `values` that nine of ten do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * 0.9) - 1]


def _used_up(periods: Sequence[Period]) -> Iterator[Decision]:
    for period in periods:
        limits, total = period.ceilings, period.total
        if limits.minutes is not None and period.minutes >= limits.minutes:
            spent = max(limits.minutes, round(period.minutes, 1))  # rounded, and still reached
            yield _over(period, MINUTES, limits.minutes, spent)
        if limits.dispatches is not None and total.dispatches >= limits.dispatches:
            yield _over(period, DISPATCHES, limits.dispatches, total.dispatches)


def _capped(need: int, ceilings: Sequence[int | None]) -> int:
    return min([need, *[ceiling for ceiling in ceilings if ceiling is not None]])


def _one(period: Period, unit: str, need: int, estimate: Estimate) -> Decision | None:
    """Why a need does not fit below one ceiling, None when it does."""
    total, ceilings = period.total, period.ceilings
    in_tokens = unit == TOKENS
    ceiling = ceilings.tokens if in_tokens else ceilings.usd
    spent = total.tokens if in_tokens else total.usd
    reserved = total.reserved_tokens if in_tokens else total.reserved_usd
    if ceiling is None or (spent < ceiling and spent + reserved + need <= ceiling):
        return None
    told = _over(period, unit, ceiling, spent, need)
    may_change = total.open and not estimate.learnt
    if spent < ceiling and (spent + need <= ceiling or may_change):
        return Decision(Fit.FULL, period=period.name, unit=unit, reason=told.reason)
    return told


def _over(
    period: Period, unit: str, ceiling: float, spent: float, need: int | None = None
) -> Decision:
    scale = MICRO if unit == USD else 1
    ceiling, spent = (
        ceiling / scale if unit == USD else ceiling,
        spent / scale if unit == USD else spent,
    )
    state = "reached" if spent >= ceiling else "too near"
    more = ""
    if need is not None and spent < ceiling:
        more = f", and a dispatch needs about {need / scale if unit == USD else need:g}"
    reason = f"{period.name} ceiling {state}: {spent:.12g} of {ceiling:.12g} {unit} spent{more}"
    return Decision(
        Fit.OVER, period=period.name, unit=unit, ceiling=ceiling, spent=spent, reason=reason
    )
