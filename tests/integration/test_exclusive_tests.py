"""Tests that disturb each other by a port, and what the wave makes of it."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.run_state.test_turns import LEARNED_FILE
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tests.support.waves import PATIENCE_S, Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

# Holds a port until another run has tried to get it, or for a moment.
HOLDS = """
import pathlib, socket, sys, time
port, met, file, loud = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
with socket.socket() as server:
    try:
        server.bind(("127.0.0.1", port))
    except OSError as error:
        met.joinpath("tried").touch()
        sys.exit(str(error) if loud else 1)
    met.joinpath("held").touch()
    end = time.monotonic() + 20
    while not met.joinpath("tried").exists() and time.monotonic() < end and not loud[1:]:
        time.sleep(0.01)
sys.exit("good" not in pathlib.Path(file).read_text())
"""
FILES = {"hold.py": HOLDS, "a.txt": "bad\n", "b.txt": "bad\n"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def receipts(report: Any, purpose: str) -> list[Any]:
    evidence = built(report)["a"]["attempts"][-1]["evidence"]
    return [one for one in evidence["receipts"] if one["purpose"] == purpose]


class Place:
    """A scene whose tests use one port, and the folder in which they meet."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self.scene = Scene(folder, FILES, config=config)
        self.met = folder / "met"
        self.met.mkdir()
        self.port = free_port()

    def item(self, name: str, *more: str, **keys: Any) -> dict[str, Any]:
        command = [*PYTHON, "hold.py", str(self.port), str(self.met), f"{name}.txt", *more]
        return item(name, f"{name}.txt", command, repairCap=0, **keys)

    def writes_once_held(self, agent: Agent) -> None:
        """An agent that is ready when another run has the port."""
        assert eventually((self.met / "held").exists, PATIENCE_S)
        name = agent.request.environment["TIDEGATE_ITEM"]
        agent.write({f"{name}.txt": "good\n"})


@beside
def test_a_proof_beside_the_base_is_red_then_alone_ships_and_is_learned(folder: Path) -> None:
    place = Place(folder)
    report, driver = place.scene.play({"a": place.writes_once_held}, [place.item("a")])
    assert verdicts(report) == {"a": "verified"}
    assert len(driver.rounds_of("a")) == 1
    [proof] = receipts(report, "proof")
    assert proof["reason"] == "red beside other test runs, then green alone"
    assert place.scene.said.getvalue().count("from now on its runs wait for each other") == 1
    [kept] = json.loads((place.scene.state / LEARNED_FILE).read_text())["tests"]
    assert kept["alone"] == "command"
    assert kept["command"].endswith("a.txt")


@pytest.mark.more
@beside
def test_a_red_proof_that_is_red_alone_as_well_is_charged(folder: Path) -> None:
    place = Place(folder)

    def wrong(agent: Agent) -> None:
        assert eventually((place.met / "held").exists, PATIENCE_S)
        agent.write({"a.txt": "still bad\n"})

    report, _ = place.scene.play({"a": wrong}, [place.item("a")])
    assert verdicts(report) == {"a": "failed"}
    assert not (place.scene.state / LEARNED_FILE).exists()


@pytest.mark.more
@beside
def test_tests_of_two_items_that_meet_at_a_port_ship_if_they_say_so(folder: Path) -> None:
    """The commands differ; the output tells that the address was in use."""
    place = Place(folder)
    items = [place.item("a", "loud"), place.item("b", "loud")]
    report, driver = place.scene.play(dict.fromkeys("ab", place.writes_once_held), items)
    assert verdicts(report) == {"a": "verified", "b": "verified"}
    assert len(driver.requests) == 2


ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "setting": ("exclusive = true", {}),
    "item": ("exclusive = false", {"exclusive": True}),
    "needs": ('exclusive = ["db", "port"]', {"needs": ["port"]}),
    "undeclared needs": ("exclusive = false", {"needs": ["port"]}),
}


@pytest.mark.more
@pytest.mark.parametrize("how", ALONE)
@beside
def test_an_exclusive_project_or_item_is_never_disturbed(folder: Path, how: str) -> None:
    setting, keys = ALONE[how]
    place = Place(folder, f"[verify]\n{setting}\n")
    items = [place.item(name, "loud", "at once", **keys) for name in "ab"]
    report, _ = place.scene.play(dict.fromkeys("ab", place.writes_once_held), items)
    assert verdicts(report) == {"a": "verified", "b": "verified"}
    assert not (place.met / "tried").exists()
    assert not (place.scene.state / LEARNED_FILE).exists()


@pytest.mark.more
@beside
def test_a_resource_that_the_project_does_not_name_is_refused(folder: Path) -> None:
    place = Place(folder, '[verify]\nexclusive = ["db", "port"]\n')
    report, _ = place.scene.play({}, [place.item("a", needs=["db", "dbb"])])
    assert report["abort_reason"] == "invalid_input"
    told = "item 'a': it needs 'dbb', which [verify] exclusive does not name (db, port)"
    assert told in json.dumps(report)


@pytest.mark.more
@beside
def test_a_common_command_needs_every_resource_that_has_a_name(folder: Path) -> None:
    """It belongs to no item, and runs beside the tests of the batch."""
    config = '[verify]\nexclusive = ["db"]\nintegration = ["mkdir $MET/db && rmdir $MET/db"]\n'
    place = Place(folder, f'{config}env = ["MET"]\n')
    place.scene.environ["MET"] = str(place.met)
    command = "mkdir $MET/db && sleep 0.1 && rmdir $MET/db && grep -q good {}.txt"
    items = [item(n, f"{n}.txt", command.format(n), repairCap=0, needs=["db"]) for n in "ab"]
    works = {n: writes(**{f"{n}__txt": "good\n"}) for n in "ab"}
    report, _ = place.scene.play(works, items)
    assert verdicts(report) == {"a": "verified", "b": "verified"}
