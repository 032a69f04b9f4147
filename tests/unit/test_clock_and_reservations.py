"""Reservations and the clock: midnight, a clock that is set, and a machine that sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.execution.process_identity import holder_name, is_gone, is_living
from state_store.database.spend import Purpose, Reserved
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support.manual_clock import ManualClock
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.ceilings import Ceilings, Limits
from tools.budget.charges import Used

DAY_S = 86_400.0
HOLD_S = 3600.0


class StepLog:
    """Budgets of several holders on one store, whose clock tests move."""

    def __init__(self, store: EventStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        clock.jump(DAY_S - clock.wall_s % DAY_S - 60)  # a minute before midnight

    def of(self, holder: str, ceiling: int | None = None) -> Budget:
        limits = Limits(day=Ceilings(tokens=ceiling), default_tokens=100)
        return Budget(self.store, limits, holder, is_gone, hold_s=HOLD_S, is_living=is_living)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[StepLog]:
    clock = ManualClock()
    with EventStore(tmp_path / STATE_DB_FILENAME, clock=clock) as store:
        yield StepLog(store, clock)


def held(budget: Budget) -> Reserved:
    found = budget.reserve(Purpose("w", "i", 1, "build", "b", "m"))
    assert isinstance(found, Reserved)
    return found


def test_who_is_seen_alive_is_not_given_up_by_the_clock(books: StepLog) -> None:
    here, other = books.of(holder_name()), books.of("another")
    mine = held(here)
    books.clock.jump(HOLD_S + 1)
    other.recover()
    here.settle(mine, Used(5_000_000, 1))
    assert here.totals("w")[0].tokens == 5_000_001


def test_who_nobody_can_see_is_given_up_when_its_time_is_over(books: StepLog) -> None:
    far, here = books.of("elsewhere:7:x@1-12345678"), books.of(holder_name())
    held(far)
    here.recover()
    assert here.totals("w")[0].tokens == 0
    books.clock.jump(HOLD_S + 1)
    here.recover()
    assert here.totals("w")[0].tokens == 100


def test_a_use_belongs_to_the_day_on_which_it_was_begun(books: StepLog) -> None:
    here = books.of(holder_name(), ceiling=500)
    mine = held(here)
    books.clock.pass_by(120)
    here.settle(mine, Used(499, 1))
    assert here.totals("w")[1].tokens == 0
    held(here)
    books.clock.jump(-120)  # and yesterday is as full as it was
    with pytest.raises(OverBudgetError, match="500 of 500"):
        held(here)
