"""What is known of a use whose whole is not: it is charged where it is more than was reserved."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import Usage, WorkerResult
from driver.backend_api.models import Price
from driver.backend_api.usage import total_of
from driver.backends.cli.claude_stream import read_stream
from driver.backends.command import read_usage
from driver.backends.http.chat_usage import Bill
from driver.backends.pricing import sound
from state_store.database.spend import Purpose, Reserved
from tests.support.raw_server import completion
from tools.budget.charges import Used, charge_of

OWN = {"m": Price(1.0, 10.0)}
MILLION = 1_000_000


def charged(usage: Usage) -> tuple[int, int]:
    """Tokens and micro-USD that count where 200,000 and 500 had been reserved."""
    one = sound(WorkerResult("", ok=True, usage=usage), "m", OWN)
    used = Used(
        one.input_tokens,
        one.output_tokens,
        one.total_tokens,
        one.cost_usd,
        least_tokens=one.known_tokens,
        least_usd=one.least_usd,
    )
    charge = charge_of(Reserved(1, "", Purpose("w", "i", 1, "build", "b", "m"), 200_000, 500), used)
    return charge.tokens, charge.usd


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(), (200_000, 500)),
        (Usage(5 * MILLION, None), (5 * MILLION, 5 * MILLION)),
        (Usage(None, MILLION), (MILLION, 10 * MILLION)),
        (Usage(undivided_tokens=5 * MILLION), (5 * MILLION, 5 * MILLION)),
        (Usage(10, None), (200_000, 500)),
        (Usage(least_tokens=5 * MILLION, least_usd=9.0), (5 * MILLION, 9 * MILLION)),
    ],
)
def test_a_part_that_is_known_is_charged_in_tokens_and_in_money(
    usage: Usage, expected: tuple[int, int]
) -> None:
    assert charged(usage) == expected


@pytest.mark.parametrize("wrong", ["x", -3, float("nan"), True, [1], 10**13], ids=repr)
def test_a_least_that_is_no_number_is_nothing_known(wrong: Any) -> None:
    assert charged(Usage(least_tokens=wrong, least_usd=wrong)) == (200_000, 500)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"input_tokens": 5000000, "output_tokens": 1, "cost_usd": "x"}', 5 * MILLION + 1),
        (b'{"input_tokens": 5000000, "output_tokens": -1}', 5 * MILLION),
        (b'{"input_tokens": 5000000, "input_tokens": 1, "output_tokens": 1}', 200_000),
    ],
)
def test_one_wrong_number_of_a_usage_file_hides_none_of_the_others(
    tmp_path: Path, content: bytes, expected: int
) -> None:
    (tmp_path / "usage.json").write_bytes(content)
    usage, warning = read_usage(tmp_path / "usage.json")
    assert charged(usage)[0] == expected
    assert "cannot be used" in warning


def test_a_try_that_told_nothing_hides_none_of_the_others() -> None:
    tries = total_of([total_of([Usage(5 * MILLION, 7, 2.5), Usage()]), Usage(1, 1, 0.5)])
    assert (tries.total_tokens, tries.cost_usd) == (None, None)
    assert charged(tries) == (5 * MILLION + 9, 5_000_009)
    assert total_of([Usage(least_usd=9.0), Usage(1, 2)]).least_usd == 9.0


def test_an_answer_that_told_nothing_hides_none_of_the_others() -> None:
    bill = Bill("unpriced")
    told = {"prompt_tokens": 5 * MILLION, "completion_tokens": 7, "total_tokens": 5 * MILLION + 7}
    bill.add(completion("words", {**told, "cost": 2.5}))
    bill.add(completion("words", told))
    assert (bill.usage.cost_usd, bill.usage.least_usd) == (None, 2.5)
    bill.add_unknown()
    assert (bill.usage.total_tokens, bill.usage.known_tokens) == (None, 10 * MILLION + 14)


def test_the_answers_of_an_agent_that_was_ended_are_counted_once_each() -> None:
    def answer(name: str, **use: int) -> str:
        return json.dumps({"type": "assistant", "message": {"id": name, "usage": use}})

    lines = [
        answer("1", input_tokens=1000, output_tokens=1),
        answer("1", input_tokens=1000, output_tokens=9),
        answer("2", input_tokens=10, cache_read_input_tokens=4 * MILLION, output_tokens=5),
        answer("3", input_tokens=-1),
    ]
    usage = read_stream(lines, datetime.now(UTC)).usage
    assert (usage.total_tokens, usage.known_tokens) == (None, 4 * MILLION + 1024)


def test_tokens_of_unknown_kind_cost_what_the_cheapest_cost() -> None:
    cached = {"m": Price(1.0, 10.0, cached=0.1)}
    told = WorkerResult("", ok=True, usage=Usage(least_tokens=5 * MILLION))
    assert sound(told, "m", cached).least_usd == pytest.approx(0.5)
    assert sound(told, "m", OWN).least_usd == pytest.approx(5.0)
