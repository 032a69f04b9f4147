"""Whether one more dispatch fits below the ceilings."""

from __future__ import annotations

from typing import Any

import pytest

from state_store.database.spend import Purpose, Reserved, Total
from tools.budget.ceilings import (
    DAILY,
    WAVE,
    Ceilings,
    Decision,
    Estimate,
    Fit,
    Period,
    counted,
    decide,
    micro,
    percentile_90,
    priced,
)
from tools.budget.charges import Used, charge_of

NAN, ENDLESS = float("nan"), float("inf")


def wave(ceiling: int | None, spent: int = 0, reserved: int = 0, is_open: int = 0) -> Period:
    total = Total(tokens=spent, reserved_tokens=reserved, open=is_open, dispatches=is_open)
    return Period(WAVE, Ceilings(tokens=ceiling), total)


@pytest.mark.parametrize(
    ("ceiling", "spent", "reserved", "need", "fit", "taken"),
    [
        (None, 10**9, 10**9, 500, Fit.FITS, 500),
        (1000, 0, 0, 500, Fit.FITS, 500),
        (1000, 500, 0, 500, Fit.FITS, 500),
        (1000, 501, 0, 500, Fit.OVER, 0),
        (1000, 1000, 0, 0, Fit.OVER, 0),
        (1000, 0, 501, 500, Fit.FULL, 0),
        (1000, 500, 500, 500, Fit.FULL, 0),
        (1000, 501, 400, 500, Fit.OVER, 0),
        (1000, 0, 0, 5000, Fit.FITS, 1000),  # an estimate alone never keeps the first
        (1000, 0, 1, 5000, Fit.FULL, 0),
        (0, 0, 0, 1, Fit.OVER, 0),
    ],
)
def test_spent_reserved_and_needed_stay_below_the_ceiling(
    ceiling: int | None, spent: int, reserved: int, need: int, fit: Fit, taken: int
) -> None:
    period = wave(ceiling, spent, reserved, is_open=int(reserved > 0))
    found = decide([period], Estimate(need, 0, learnt=True))
    assert (found.fit, found.tokens) == (fit, taken)


def test_a_guess_that_is_too_large_waits_for_what_others_teach() -> None:
    period = wave(1000, 600, 100, is_open=1)
    assert decide([period], Estimate(500, 0)).fit is Fit.FULL
    assert decide([period], Estimate(500, 0, learnt=True)).fit is Fit.OVER


def test_the_narrower_of_two_ceilings_decides() -> None:
    periods = [wave(10_000), Period(DAILY, Ceilings(tokens=300), Total(tokens=100))]
    assert decide(periods, Estimate(200, 0)).tokens == 200
    refused = decide(periods, Estimate(201, 0, learnt=True))
    assert (refused.fit, refused.period, refused.ceiling, refused.spent) == (
        *(Fit.OVER, DAILY, 300),
        100,
    )
    assert refused.reason == (
        "daily ceiling too near: 100 of 300 tokens spent, and a dispatch needs about 201"
    )


@pytest.mark.parametrize(
    ("ceilings", "total", "minutes", "reason"),
    [
        (Ceilings(minutes=2), Total(), 2.0, "wave ceiling reached: 2 of 2 minutes spent"),
        (Ceilings(minutes=0.02), Total(), 0.03, "wave ceiling reached: 0.02 of 0.02 minutes"),
        (Ceilings(dispatches=3), Total(dispatches=3), 0, "3 of 3 dispatches spent"),
        (Ceilings(usd=2_500_000), Total(usd=2_500_000), 0, "2.5 of 2.5 USD spent"),
        (Ceilings(usd=0), Total(), 0, "0 of 0 USD spent"),
    ],
)
def test_every_unit_has_a_ceiling(
    ceilings: Ceilings, total: Total, minutes: float, reason: str
) -> None:
    found = decide([Period(WAVE, ceilings, total, minutes)], Estimate(1, 1))
    assert found.fit is Fit.OVER
    assert reason in found.reason


def test_without_ceilings_everything_fits() -> None:
    assert decide([Period(WAVE, Ceilings(), Total(10**12))], Estimate(7, None)) == Decision(
        Fit.FITS, 7, 0
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5], 5), ([1, 9], 9), (list(range(1, 11)), 9), (list(range(100, 0, -1)), 90)],
)
def test_nine_of_ten_need_no_more(values: list[int], expected: int) -> None:
    assert percentile_90(values) == expected


@pytest.mark.parametrize(
    "value", [None, NAN, ENDLESS, -1, -0.001, True, "5", [5], 10**13, 10**400], ids=repr
)
def test_what_is_no_amount_is_unknown(value: Any) -> None:
    assert (counted(value), priced(value)) == (None, None)
    held = Reserved(1, "", Purpose("w", "i", 1, "build", "b", "m"), 400, 7)
    charge = charge_of(held, Used(value, 3, value, value))
    assert (charge.tokens, charge.usd, charge.metered, charge.priced) == (400, 7, False, False)


def test_what_is_known_of_a_use_is_charged_where_it_is_more_than_was_reserved() -> None:
    held = Reserved(1, "", Purpose("w", "i", 1, "build", "b", "m"), 400, 0)
    assert charge_of(held, Used(900, None)).tokens == 900
    assert charge_of(held, Used(900, None)).metered is False
    assert charge_of(held, Used(tokens=5)).tokens == 5


@pytest.mark.parametrize(
    ("usd", "expected"), [(None, None), (0.0, 0), (1e-9, 1), (0.1 + 0.2, 300_000), (2.5, 2_500_000)]
)
def test_money_is_whole_and_rounded_up(usd: float | None, expected: int | None) -> None:
    assert micro(usd) == expected
