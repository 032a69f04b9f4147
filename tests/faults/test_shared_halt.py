"""A halt on one machine halts every machine that shares the database."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driver import tidegate
from state_store.documents.errors import CannotRunError
from state_store.postgres.store import PostgresStore
from state_store.sql.addresses import Address, address_of, keep_rows
from tests.support.killing import RUN_LIMIT_S, Pace, Yard
from tests.support.postgres import Server
from tests.support.processes import eventually
from tests.support.programs import Ran, call
from tools import halt

Machine = Callable[..., Yard]


@pytest.fixture
def machine(postgres: Server, tmp_path: Path) -> Machine:
    """Makes machines that share one schema."""
    found = importlib.util.find_spec("psycopg")
    assert found is not None
    assert found.origin is not None
    packages = str(Path(found.origin).parents[1])
    schema = postgres.new_schema()
    rows = f'[state]\nurl = "{postgres.url}"\nschema = "{schema}"\n'

    def make(name: str, agent_s: float = 0.0) -> Yard:
        yard = Yard(tmp_path / name, slugs=("a",), config=rows, pace=Pace(agent=agent_s))
        yard.environ["PYTHONPATH"] = packages
        (yard.repo.path / "tidegate.toml").write_text(rows, encoding="utf-8")
        keep_rows(yard.state, Address(postgres.url, schema))
        return yard

    return make


def told(yard: Yard, *words: str) -> Ran:
    """A word of the command on this machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(yard.repo.path)
        return call(tidegate.main, *words, "--state-dir", str(yard.state))


def test_a_halt_on_one_machine_stops_the_running_wave_of_another(machine: Machine) -> None:
    one, two = machine("one"), machine("two", agent_s=60)
    with two.running() as program:
        assert eventually(two.dispatched, 60)
        began = time.monotonic()
        halt.halt("the tests are down", one.state)
        _, err = program.communicate(timeout=RUN_LIMIT_S)
        took_s = time.monotonic() - began
    assert program.returncode == 3, err
    assert "the tests are down" in err
    assert took_s < 30, "the agent was not ended"
    assert not (two.state / ".HALT").exists()
    assert two.run().code == 3, "no run starts"
    assert halt.clear_halt(two.state)
    assert not halt.is_halted(one.state), "the copy of a halt that is over"
    assert not (one.state / ".HALT").exists()
    assert not halt.is_halted(two.state)


def test_each_machine_tells_who_halted_all_and_since_when(machine: Machine) -> None:
    one, two = machine("one"), machine("two")
    done = told(one, "halt", "set", "the tests are down")
    assert done.code == 0, done.err
    asked = told(two, "halt", "--status", "--json")
    answer = json.loads(asked.out)
    assert (asked.code, answer["reason"]) == (1, "the tests are down")
    assert answer["by"].endswith(f"@{os.uname().nodename}")
    said = f"the tests are down (set for all machines by {answer['by']}, {answer['timestamp']})"
    assert told(two, "halt", "--status").out == f"HALTED: {said}\n"
    status = told(two, "status")
    assert status.out.startswith("halted: the tests are down (since "), status.err
    assert answer["by"] in status.out
    assert said in told(two, "doctor").out
    planned = told(two, "plan")
    assert (planned.code, said in planned.out + planned.err) == (3, True), planned
    found = told(two, "halt", "--clear", "--json")
    assert json.loads(found.out)["cleared"] is True
    assert json.loads(told(one, "status", "--json").out)["halt"] is None
    assert told(one, "halt", "--status").code == 0


def test_a_file_by_hand_halts_its_machine_alone(machine: Machine) -> None:
    one, two = machine("one"), machine("two")
    PostgresStore(one.state / "tracker_events.db", shared(one)).close()
    one.state.mkdir()
    (one.state / ".HALT").write_text("lunch", encoding="utf-8")
    assert halt.is_halted(one.state)
    assert not halt.is_halted(two.state)
    assert not halt.clear_halt(two.state)
    assert halt.is_halted(one.state)
    assert halt.clear_halt(one.state)
    assert not halt.is_halted(one.state)


@pytest.mark.usefixtures("postgres")
def test_without_the_server_this_machine_is_halted_and_the_user_told(tmp_path: Path) -> None:
    keep_rows(tmp_path, Address("postgresql:///none?host=/nowhere&user=x", "x"))
    with pytest.raises(CannotRunError, match=r"only this machine is halted: .* cannot be reached"):
        halt.halt("enough", tmp_path)
    assert halt.is_halted(tmp_path), "its file needs no server"
    with pytest.raises(CannotRunError, match="cannot be reached"):
        halt.clear_halt(tmp_path)
    assert halt.is_halted(tmp_path)
    (tmp_path / ".HALT").unlink()
    with pytest.raises(CannotRunError, match="cannot be reached"):
        halt.is_halted(tmp_path)
    keep_rows(tmp_path, None)
    assert not halt.is_halted(tmp_path)


@pytest.mark.usefixtures("postgres")
def test_this_machine_is_halted_while_the_server_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        url = f"postgresql://x@127.0.0.1:{silent.getsockname()[1]}/x"
        keep_rows(tmp_path, Address(url, "x"))
        halted = pool.submit(halt.halt, "enough", tmp_path)
        assert eventually(lambda: halt.is_halted_here(tmp_path), 5)
        assert not halted.done()
        silent.close()
        with pytest.raises(CannotRunError, match="only this machine is halted"):
            halted.result()
    keep_rows(tmp_path, None)


def test_a_store_of_an_older_version_has_no_such_halt(postgres: Server, tmp_path: Path) -> None:
    address = Address(postgres.url, postgres.new_schema())
    keep_rows(tmp_path, address)
    assert not halt.is_halted(tmp_path), "no tables at all"
    assert not halt.clear_halt(tmp_path)
    PostgresStore(tmp_path / "tracker_events.db", address).close()
    postgres.ask(f'DROP TABLE "{address.schema}".halts')
    assert not halt.is_halted(tmp_path)


def shared(yard: Yard) -> Address:
    found = address_of(yard.state)
    assert found is not None
    return found
