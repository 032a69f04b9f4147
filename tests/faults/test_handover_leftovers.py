"""Things of one machine in the shared store and on the remote: the outputs of its agents and tests
can be read elsewhere, and `gc` removes what nobody needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_store.sql.unshipped import MOST_OF_OUTPUT
from tests.support.handovers import ONCE, SLUG, UNSHIPPED, Machines, names, shipped
from tests.support.killing import Yard
from tests.support.postgres import Server

LOGS = "driver/tidegate.py", "logs", SLUG
LONG = MOST_OF_OUTPUT + 1000


@pytest.fixture
def machines(postgres: Server, tmp_path: Path) -> Machines:
    return Machines(postgres, tmp_path)


def talkative(machines: Machines) -> Yard:
    """A machine whose agent prints more than the store keeps of a file."""
    yard = machines.make("one")
    agent = yard.folder / "agent.sh"
    words = f"head -c {LONG} /dev/zero | tr '\\0' x; echo; echo this is the end\n"
    agent.write_text(words + agent.read_text())
    return yard


def test_outputs_are_read_on_another_machine(machines: Machines) -> None:
    one, two = talkative(machines), machines.make("two")
    machines.go()
    ran = one.run()
    assert shipped(one) == ONCE, ran.err
    told = machines.asked(two, *LOGS)
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "this is the end" in lines
    [cut] = [line for line in lines if line.startswith("[... before, ")]
    path = Path(cut.split(": ")[1].partition(" on ")[0])
    assert path.stat().st_size > LONG
    kept = machines.rows("SELECT SUM(length(body)) FROM outputs WHERE name LIKE '%.out'")
    assert kept
    assert "this is the end" in machines.asked(one, *LOGS).out
    assert " on " not in machines.asked(one, *LOGS).out


def test_gc_removes_what_nobody_goes_on_with(machines: Machines) -> None:
    one, two = machines.make("one"), machines.make("two")
    two.state.mkdir()
    assert one.run("handover.noted=kill").code < 0
    [ref] = names(two)
    spare = f"{UNSHIPPED}/{machines.schema}/gone/w-000000000000"
    two.remote.git("update-ref", spare, "refs/heads/main")
    gc = "tools/gc.py", "--older-than"
    dry = machines.asked(two, *gc, "0", "--dry-run")
    assert dry.code == 0, dry.err
    assert spare in dry.out
    assert ref not in dry.out  # the killed run's lease has not ended yet
    machines.change("UPDATE leases SET holder = NULL")
    assert ref in machines.asked(two, *gc, "0", "--dry-run").out
    assert names(two) == sorted([ref, spare])
    assert machines.asked(two, *gc, "14").code == 0
    assert names(two) == [ref]
    assert machines.asked(two, *gc, "0").code == 0
    assert not names(two)
    assert not machines.rows("SELECT slug FROM unshipped")
    assert not machines.rows("SELECT slug FROM outputs")
