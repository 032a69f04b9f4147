"""Use that only a ledger or a backend's own counter knows is charged, and once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from driver.backend_api.driver import Usage, WorkerResult
from driver.execution.cancellation import CancellationToken
from driver.limits.admission import Admission
from driver.limits.spending import Spending
from state_store.database.spend import Purpose, Use
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support.waves import ScriptedDriver
from tools import cost_ceiling, fleet_ledger
from tools.budget import budget
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.ceilings import Ceilings, Limits


def add(folder: Path, tokens: int, wave: str = "other") -> None:
    stamp = f"{datetime.now(UTC):%Y-%m-%dT00:00:00Z}"  # all in one second
    fleet_ledger.append_ledger_line(stamp, "a", "m", 1, tokens, 0, wave=wave, state_dir=folder)


def spent(folder: Path) -> tuple[int, int]:
    """Tokens of today as the gate and as the budget read them, without a change."""
    config = {"limits": {"max_daily_tokens": 10**9}}
    answer = cost_ceiling.check(period="daily", config=config, state_dir=folder, trip=False)
    return answer["spent"], budget.read_totals(folder, "w")[1].tokens


def test_a_row_of_another_program_counts_once_below_every_ceiling(tmp_path: Path) -> None:
    limits = Limits(Ceilings(tokens=1000), Ceilings(tokens=1000, dispatches=1), default_tokens=10)
    purpose = Purpose("w", "i", 1, "build", "b", "m")
    with EventStore(tmp_path / STATE_DB_FILENAME) as store:
        books = [Budget(store, limits, name, state_dir=tmp_path) for name in ("one", "two")]
        for count in (300, 300):
            add(tmp_path, count)
        assert spent(tmp_path) == (600, 600)
        for book in (*books, *books):
            book.check("w")
        assert books[0].totals("w")[1].tokens == 600
        assert books[0].totals("other")[0].tokens == 600
        assert books[0].totals("w")[1].dispatches == 0
        assert spent(tmp_path) == (600, 600)
        add(tmp_path, 400)
        with pytest.raises(OverBudgetError, match="daily ceiling reached: 1000 of 1000 tokens"):
            books[1].reserve(purpose)
        assert spent(tmp_path) == (1000, 1000)
        assert store.read_spend(lambda book: book.unledgered(), list[Use]()) == []


class Counting(ScriptedDriver):
    """Counts all its tokens, and tells none of them by dispatch."""

    counted = 7_000

    def get_tokens_spent(self) -> int:
        return self.counted


def test_a_backends_own_counter_bounds_a_use_that_it_does_not_tell(tmp_path: Path) -> None:
    with EventStore(tmp_path / STATE_DB_FILENAME) as store:
        books = Budget(store, Limits(default_tokens=100), "me", state_dir=tmp_path)
        spending = Spending("w", Admission(None, CancellationToken()), books)
        driver = Counting({})
        charged = []
        for number, growth in enumerate((500, 20, 150), 1):
            with spending.dispatch(driver, "a", phase="build", number=number, model="m") as one:
                driver.counted += growth
                one.run(lambda: WorkerResult("w", ok=True, usage=Usage()))
            charged.append(books.totals("w")[0].tokens)
        # What is counted is charged; what is not known is charged as it was reserved.
        assert charged == [500, 600, 700]
        with (
            spending.dispatch(driver, "b", phase="build", number=1, model="m"),
            spending.dispatch(driver, "c", phase="build", number=1, model="m") as one,
        ):
            driver.counted += 180  # of which the other one may have used what it reserved
            one.run(lambda: WorkerResult("w", ok=True, usage=Usage()))
        assert books.totals("w")[0].tokens == 800
