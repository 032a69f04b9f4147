"""Several machines with one backlog: own clone, home, state folder and tracker file, one database
and one remote. What shipped is read from the remote."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from state_store.sql.addresses import Address, keep_rows
from tests.support.killing import RUN_LIMIT_S, Yard
from tests.support.postgres import Server
from tests.support.programs import call
from tools import state as state_tool

SLUGS = ("a", "b", "c", "d")
Machine = Callable[[str], Yard]


@pytest.fixture
def machine(postgres: Server, tmp_path: Path) -> Machine:
    """Makes machines by name; the first one has the remote of all."""
    found = importlib.util.find_spec("psycopg")
    assert found
    assert found.origin
    schema = postgres.new_schema()
    rows = f'[state]\nurl = "{postgres.url}"\nschema = "{schema}"\n'
    made: list[Yard] = []

    def make(name: str) -> Yard:
        yard = Yard(tmp_path / name, slugs=SLUGS, config=rows)
        yard.environ["PYTHONPATH"] = str(Path(found.origin or "").parents[1])
        if made:
            yard.remote = made[0].remote
            yard.repo.git("remote", "set-url", "origin", str(yard.remote.path))
            yard.before = yard._checkout()
        made.append(yard)
        keep_rows(yard.state, Address(postgres.url, schema))
        return yard

    return make


def shipped(yard: Yard) -> dict[str, int]:
    return {name: len(several) for name, several in yard.commits().items()}


ONCE = {slug.upper(): 1 for slug in SLUGS}


@pytest.mark.more
def test_machines_that_run_at_once_ship_each_item_once(machine: Machine) -> None:
    machines = [machine("one"), machine("two"), machine("three")]
    said: list[str] = []
    for _ in range(4):
        with ExitStack() as stack:
            running = [stack.enter_context(one.running()) for one in machines]
            said += [program.communicate(timeout=RUN_LIMIT_S)[1] for program in running]
        if shipped(machines[0]) == ONCE:
            break
    assert shipped(machines[0]) == ONCE, said
    for one in machines:  # the next run of each brings its file up to date
        assert one.run().code in (0, 3)
        assert set(one.statuses().values()) == {"in_progress"}
    dispatched = sum((one.dispatched() for one in machines), machines[0].dispatched().__class__())
    assert set(dispatched) == set(SLUGS)


def test_another_machine_goes_on_where_one_was_killed(machine: Machine) -> None:
    first, second = machine("one"), machine("two")
    second.tracker.unlink()  # it has none, and gets one
    killed = first.run("git.before_push=kill")
    assert killed.code < 0, killed.err
    ran = second.run()
    assert shipped(second) == ONCE, ran.err
    assert set(second.statuses().values()) == {"in_progress"}
    assert first.run().code in (0, 3)
    assert shipped(first) == ONCE
    assert set(first.statuses().values()) == {"in_progress"}


@pytest.mark.more
def test_work_that_one_machine_pushed_last_is_not_shipped_again(machine: Machine) -> None:
    first, second = machine("one"), machine("two")
    assert first.run("git.after_push=kill").code < 0
    ran = second.run()
    assert shipped(second) == ONCE, ran.err
    assert second.run().code in (0, 3)
    assert shipped(second) == ONCE


def test_programs_for_looking_find_the_rows(machine: Machine) -> None:
    one = machine("one")
    ran = one.run()
    assert ran.code == 0, ran.err
    assert not (one.state / "tracker_events.db").exists()
    config = one.folder / "tidegate.toml"
    config.rename(one.repo.path / "tidegate.toml")
    assert call(state_tool.main, "items", "--state-dir", str(one.state)).code != 0
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(one.repo.path)
        found = call(state_tool.main, "items", "--json", "--state-dir", str(one.state))
    items = json.loads(found.out)["items"]
    assert {item["status"] for item in items} == {"in_progress"}, found.err
