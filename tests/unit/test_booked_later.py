"""A use that could not be booked when its dispatch ended is booked before the wave ends, and sooner
if another dispatch waits for its room."""

from __future__ import annotations

from pathlib import Path

from driver.backend_api.driver import AgentDriver, Usage, WorkerResult
from driver.execution.cancellation import CancellationToken
from driver.limits.admission import Admission
from driver.limits.spending import Spending
from state_store.database.spend import Charge, Reserved
from state_store.database.store import EventStore
from state_store.documents.errors import CannotRunError
from state_store.write_api import STATE_DB_FILENAME
from tests.support.waves import ScriptedDriver
from tools.budget.budget import Budget
from tools.budget.ceilings import Ceilings, Limits
from tools.budget.charges import Used


class OnceBusy(Budget):
    """A budget whose store does not take the first use."""

    busy = True

    def settle(self, reserved: Reserved, used: Used) -> Charge:
        if self.busy:
            self.busy = False
            raise CannotRunError("the store is locked by another program")
        return super().settle(reserved, used)


def dispatched(spending: Spending, driver: AgentDriver, usage: Usage) -> None:
    with spending.dispatch(driver, "a", phase="build", number=1, model="m") as one:
        one.run(lambda: WorkerResult("w", ok=True, usage=usage))


def test_what_was_used_is_booked_in_full_when_the_store_can_be_written_again(
    tmp_path: Path,
) -> None:
    with EventStore(tmp_path / STATE_DB_FILENAME) as store:
        books = OnceBusy(store, Limits(default_tokens=100), "me", state_dir=tmp_path)
        gates = Admission(None, CancellationToken())
        spending = Spending("w", gates, books)
        dispatched(spending, ScriptedDriver({}), Usage(5_000_000, 1))
        assert books.totals("w")[0].tokens == 0
        assert "locked" in (spending.problem or "")
        for _ in range(2):
            spending.give_up()
            assert books.totals("w")[0].tokens == 5_000_001
        assert spending.problem is None


def test_a_dispatch_that_waits_for_room_gets_that_of_a_use_that_was_not_booked(
    tmp_path: Path,
) -> None:
    limits = Limits(day=Ceilings(tokens=100), default_tokens=100)
    with EventStore(tmp_path / STATE_DB_FILENAME) as store:
        books = OnceBusy(store, limits, "me", state_dir=tmp_path)
        spending = Spending("w", Admission(None, CancellationToken()), books)
        for number in (1, 2):
            dispatched(spending, ScriptedDriver({}), Usage(10, number))
        assert books.totals("w")[0].tokens == 23
