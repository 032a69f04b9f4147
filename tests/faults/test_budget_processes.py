"""Four processes spend from one state folder, and some die at it; the ceiling holds."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driver.execution.process_identity import is_gone
from state_store.database.spend import SpendBook, Total, utc_day
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.killing import Yard
from tests.support.programs import ROOT
from tools import fleet_ledger
from tools.budget import budget as spent
from tools.budget.budget import Budget
from tools.budget.ceilings import Limits
from tools.ledger.rows import all_rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
PROCESSES = 4
CEILING = 20_000
PATIENCE_S = 60.0
SPENDER = """
import random, sys, threading, time
from pathlib import Path
from driver.execution.process_identity import holder_name, is_gone
from state_store.database.spend import Purpose, Reserved
from state_store.database.store import EventStore
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.charges import Used
from tools.budget.ceilings import Ceilings, Limits

state, seed, ceiling = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
FEW = 5  # of all they leave enough for those that are to die
store = EventStore(state / "tracker_events.db")
limits = Limits(day=Ceilings(tokens=ceiling), default_tokens=400)
books = Budget(store, limits, holder_name(), is_gone, state_dir=state)

def work(number):
    chance = random.Random(f"{seed}-{number}")
    for attempt in range(60):
        while attempt == FEW and not (state / "all are dead").exists():
            time.sleep(0.01)
        purpose = Purpose(f"w{seed}", f"i{number}", attempt, "build", "b", "m")
        try:
            found = books.reserve(purpose)
        except OverBudgetError:
            return
        if not isinstance(found, Reserved):
            continue
        tokens = chance.choice((None, float("nan"), -3, chance.randint(0, found.tokens)))
        books.settle(found, Used(tokens=tokens))

threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
books.close()
"""


def spender(state: Path, seed: int, fail: str = "") -> subprocess.Popen[bytes]:
    argv = [*PYTHON, "-c", SPENDER, str(state), str(seed), str(CEILING)]
    return subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "TIDEGATE_FAIL": fail})


def today(book: SpendBook) -> Total:
    return book.of_day(utc_day(time.time()))


@beside
def test_four_processes_do_not_pass_one_ceiling(folder: Path) -> None:
    chance = random.Random(7)
    seen: list[Total] = []
    with EventStore(folder / STATE_DB_FILENAME) as store:
        fails = ["", "", "budget.reserved@5=kill", "budget.before_settle@4=kill"]
        chance.shuffle(fails)
        running = [spender(folder, seed, fail) for seed, fail in enumerate(fails)]
        dying = [one for one, fail in zip(running, fails, strict=True) if fail]
        try:
            deadline = time.monotonic() + PATIENCE_S
            while any(one.poll() is None for one in running):
                assert time.monotonic() < deadline
                seen.append(store.read_spend(today, Total()))
                if all(one.poll() is not None for one in dying):
                    (folder / "all are dead").touch()
        finally:
            for one in running:
                one.kill()
                one.wait()
        codes = sorted(one.returncode for one in running)
        assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
        assert max(total.tokens + total.reserved_tokens for total in seen) <= CEILING
        assert [t.tokens for t in seen] == sorted(t.tokens for t in seen), "spent fell"
        Budget(store, Limits(), "next", is_gone, state_dir=folder).recover()
        total = store.read_spend(today, Total())
        rows = all_rows(folder)
    assert (total.open, total.dispatches) == (0, len(rows))
    assert CEILING >= total.tokens == sum(row.tokens for row in rows) > CEILING / 2
    assert sum(row.verdict == "HUNG" for row in rows) >= 2, "the dead were not charged"
    assert spent.tokens(folder, None, None) == total.tokens


@pytest.mark.more
@pytest.mark.parametrize(
    "point",
    [
        "budget.reserved",
        pytest.param("budget.before_settle", marks=pytest.mark.sweep),
        "budget.settled",
        pytest.param("file.before_replace", marks=pytest.mark.sweep),
    ],
)
@beside
def test_a_kill_around_a_dispatch_costs_its_reservation_once(folder: Path, point: str) -> None:
    yard = Yard(folder, slugs=("a",), config="[limits]\ndefault_dispatch_tokens = 700\n")
    killed = yard.run(f"{point}=kill")
    assert killed.code == -signal.SIGKILL
    _, undone = yard.run_until_done()
    assert [*undone, *yard.wrong()] == []
    with EventStore(yard.state / STATE_DB_FILENAME) as store:
        total = store.read_spend(today, Total())
        billed = [e for e in store.read("agent_traces") if e["type"] == "agent_billed"]
    rows = fleet_ledger.parse_ledger_rows(yard.state)
    assert len({row["iso_ts"] for row in rows}) == len(rows) == len(billed) == total.dispatches
    assert total.tokens == 700 * total.dispatches
    assert [total.open, sum(row["tokens_in"] for row in rows)] == [0, total.tokens]
    begun = sum(yard.dispatched().values())
    assert begun <= total.dispatches <= begun + 1, "every agent that ran is charged"
