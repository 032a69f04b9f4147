"""What a recording tells was used once; playing it costs nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.backend_api.driver import DriverCapabilities, Usage, WorkerResult
from driver.execution.cancellation import CancellationToken
from driver.limits.admission import Admission
from driver.limits.spending import Spending
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support.waves import ScriptedDriver
from tools.budget.budget import Budget
from tools.budget.ceilings import Limits


class Played(ScriptedDriver):
    """Says of itself that it only repeats."""

    def probe_capabilities(self) -> DriverCapabilities:
        return replace(super().probe_capabilities(), replays=True)

    def get_tokens_spent(self) -> int:
        return 5_000


@pytest.mark.parametrize("usage", [Usage(4_000, 1_000, 0.5), Usage()])
def test_what_is_replayed_is_told_and_not_counted(tmp_path: Path, usage: Usage) -> None:
    with EventStore(tmp_path / STATE_DB_FILENAME) as store:
        books = Budget(store, Limits(default_tokens=100), "me", state_dir=tmp_path)
        spending = Spending("w", Admission(None, CancellationToken()), books)
        driver = Played({})
        with spending.dispatch(driver, "a", phase="build", number=1, model="m") as one:
            one.run(lambda: WorkerResult("w", ok=True, usage=usage))
        totals = books.totals("w")[0]
        assert (totals.tokens, totals.usd, totals.unmetered, totals.dispatches) == (0, 0, 0, 1)
        assert (spending.uses, spending.recorded) == ([("build", usage)], True)
