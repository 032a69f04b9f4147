"""What answers say they were billed, and what it costs; an unknown is never a zero."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backend_api.driver import MODEL_ROLES, Usage
from driver.backend_api.models import CODEX_MODELS, PRICES, Price, cost_of, takes_temperature
from driver.backends.http.chat_usage import MALFORMED, MISSING, Bill, read_use
from tests.support.raw_server import USED, completion


def use_of(usage: Any, content: str | None = "words", model: str = "m") -> Usage:
    return told(usage, content, model)[0]


def told(usage: Any, content: str | None = "words", model: str = "m") -> tuple[Usage, str]:
    return read_use(completion(content, usage), model, {})


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USED, Usage(120, 30)),
        ({"prompt_tokens": 120, "completion_tokens": 30}, Usage(120, 30)),
        ({"total_tokens": 150}, Usage(undivided_tokens=150)),
        ({"prompt_tokens": None, "total_tokens": 9}, Usage(undivided_tokens=9)),
        ({**USED, "total_tokens": 200}, Usage(120, 80)),
        ({**USED, "total_tokens": 10}, Usage(120, 30)),
        ({**USED, "cost": 0.25}, Usage(120, 30, 0.25)),
        ({**USED, "cost": 0}, Usage(120, 30, 0.0)),
        ({**USED, "cost": "0.25"}, Usage(120, 30)),
        ({**USED, "cost": -1}, Usage(120, 30)),
        ({**USED, "cost": True}, Usage(120, 30)),
    ],
)  # fmt: skip
def test_what_one_answer_used(usage: Any, expected: Usage) -> None:
    assert told(usage) == (expected, "")


@pytest.mark.parametrize(
    ("usage", "known", "trouble"),
    [
        (None, Usage(), MISSING),
        ({}, Usage(), MISSING),
        ({"prompt_tokens": 120}, Usage(120), MISSING),
        ({"prompt_tokens": 120, "cost": 0.5}, Usage(120, cost_usd=0.5), MISSING),
        ({"cost": 42}, Usage(cost_usd=42.0), MISSING),
        ({"prompt_tokens": None, "total_tokens": None}, Usage(), MISSING),
        ([], Usage(), MALFORMED),
        ("150", Usage(), MALFORMED),
        ({"total_tokens": "150"}, Usage(), MALFORMED),
        ({"total_tokens": -150}, Usage(), MALFORMED),
        ({"total_tokens": 1.5, "cost": 42}, Usage(cost_usd=42.0), MALFORMED),
        ({"total_tokens": True}, Usage(), MALFORMED),
        ({"total_tokens": 10**13}, Usage(), MALFORMED),
        ({**USED, "completion_tokens": "30"}, Usage(120, undivided_tokens=150), MALFORMED),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage(), MALFORMED),
        ({**USED, "completion_tokens": 0, "total_tokens": 120}, Usage(120), MALFORMED),
    ],
)  # fmt: skip
def test_a_number_counts_though_another_is_missing(usage: Any, known: Usage, trouble: str) -> None:
    assert told(usage) == (known, trouble)


def test_zeros_for_an_answer_that_says_nothing_may_be_true() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    assert use_of(usage, content=None) == Usage(9, 0)


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens_details": {"cached_tokens": 20}},
        {"cached_tokens": 20},
        {"prompt_cache_hit_tokens": 20},
    ],
)
def test_cached_tokens_cost_less(told: dict[str, Any]) -> None:
    use = use_of({**USED, **told}, model="gpt-6-luna")
    assert use.cost_usd == pytest.approx((100 * 0.10 + 20 * 0.01 + 30 * 0.50) / 1e6)


@pytest.mark.parametrize("cached", [{"cached_tokens": "x"}, {"cached_tokens": None}, None, 5])
def test_cached_tokens_that_cannot_be_read_are_priced_in_full(cached: Any) -> None:
    use = use_of({**USED, "prompt_tokens_details": cached}, model="gpt-6-luna")
    assert use.cost_usd == pytest.approx((120 * 0.10 + 30 * 0.50) / 1e6)


def bill(*usages: Any) -> Bill:
    one = Bill("m")
    for usage in usages:
        one.add(completion("words", usage))
    return one


def test_no_request_is_nothing_spent() -> None:
    assert bill().usage == Usage(0, 0, 0.0)


def test_every_answer_counts() -> None:
    assert bill(USED, USED, {**USED, "total_tokens": 160}).usage == Usage(360, 100)
    costly = {**USED, "cost": 0.1}
    assert bill(*[costly] * 3).usage == Usage(360, 90, 0.30000000000000004)
    assert bill(costly, USED).usage == Usage(240, 60, least_usd=0.1)


def test_one_number_beside_two_makes_one_number() -> None:
    assert bill(USED, {"total_tokens": 50}).usage == Usage(undivided_tokens=200)


def test_one_unknown_makes_the_whole_unknown() -> None:
    first = bill(USED, None, USED)
    assert (first.usage, first.trouble) == (Usage(least_tokens=300), MISSING)
    second = bill(USED)
    second.add_unknown()
    assert second.usage == Usage(least_tokens=150)


def test_the_models_of_every_role_have_a_price() -> None:
    assert set(CODEX_MODELS) == set(MODEL_ROLES)
    assert set(CODEX_MODELS.values()) <= set(PRICES)


def test_every_price_is_above_zero_and_cached_is_cheaper() -> None:
    for price in PRICES.values():
        assert 0 < (price.cached or 0) < price.input < price.output


@pytest.mark.parametrize(
    ("usage", "cached", "cost"),
    [
        (Usage(1_000_000, 0), 0, 2.0),
        (Usage(0, 1_000_000), 0, 10.0),
        (Usage(1_000_000, 1_000_000), 1_000_000, 10.1),
        (Usage(100, 0), 10**9, 100 * 0.1 / 1e6),
        (Usage(0, 0), 0, 0.0),
        (Usage(None, 5), 0, None),
        (Usage(5, None), 0, None),
        (Usage(undivided_tokens=5), 0, None),
        (Usage(), 0, None),
    ],
)
def test_what_tokens_cost(usage: Usage, cached: int, cost: float | None) -> None:
    assert cost_of("gpt-6.2-sol", usage, {}, cached_tokens=cached) == pytest.approx(cost)


def test_a_long_request_costs_more_and_a_sum_of_short_ones_does_not() -> None:
    long = Usage(300_000, 1_000)
    assert cost_of("gpt-6.2-sol", long) == pytest.approx(0.61)
    assert cost_of("gpt-6.2-sol", long, one_request=True) == pytest.approx(1.215)
    assert cost_of("gpt-6.2-sol", Usage(272_000, 0), one_request=True) == pytest.approx(0.544)


def test_an_unknown_model_has_an_unknown_cost() -> None:
    assert cost_of("gpt-6.2-sol-2099", Usage(1, 1)) is None
    assert use_of(USED, model="somebody/own") == Usage(120, 30)


def test_the_users_own_price_goes_first() -> None:
    own = {"m": Price(1.0, 2.0), "gpt-6.2-sol": Price(0.0, 0.0, 0.0)}
    assert cost_of("m", Usage(1_000_000, 1_000_000), own) == 3.0
    assert cost_of("m", Usage(10, 10), own, cached_tokens=5) is None
    assert cost_of("gpt-6.2-sol", Usage(10, 10), own) == 0.0


@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-6-luna", False), ("openai/gpt-5.6-sol", False), ("o3", False), ("gpt-4o", True)],
)
def test_models_that_refuse_a_temperature_are_sent_none(model: str, takes: bool) -> None:
    assert takes_temperature(model) is takes
