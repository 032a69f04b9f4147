"""Several schedulers at once: on one state folder, and on two that share nothing but a remote.

Real processes, begun together. What they did is read from the remote, the trackers and the log of
the agents. The whole, as the sweep:
`python -m pytest -m sweep -s tests/faults/test_many_schedulers.py`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import warm
from tests.support.killing import AGENT, RUN_LIMIT_S, Pace, Yard
from tests.support.processes import MARKER, eventually
from tests.support.programs import Ran
from tests.support.repos import hook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
SLUGS = ("a", "c", "d", "e")
DONE, BY_OTHERS = 0, 3
ELSEWHERE = "shipped_elsewhere"
# Says that it is there, and waits for the word.
WAIT = """
touch "FOLDER/ready-$TIDEGATE_ITEM"
while [ ! -e BARRIER ]; do sleep 0.02; done
"""
CURRENT = '[ship]\nmode = "current"\n'


def started(yard: Yard, *flags: str) -> warm.Program:
    return warm.start(
        [*yard.argv(), *flags],
        cwd=yard.folder,
        env={**yard.environ, MARKER: yard.marked.marker},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def at_work(programs: Sequence[warm.Program]) -> Iterator[None]:
    """Whatever becomes of them, they are gone at the end."""
    with ExitStack() as stack:
        for program in programs:
            stack.callback(program.communicate)
            stack.callback(program.kill)
        yield


def ended(program: warm.Program) -> Ran:
    out, err = program.communicate(timeout=RUN_LIMIT_S)
    return Ran(program.returncode, out, err)


def wrong_on_one_state(folder: Path, seed: int) -> list[str]:
    """What went wrong with 2 to 8 schedulers that were begun on one state folder at once."""
    draw = random.Random(seed)
    count = draw.randint(2, 8)
    pace = Pace(agent=draw.choice((0, 0.05)), test=draw.choice((0, 0.05)))
    yard = Yard(folder, slugs=SLUGS[: draw.randint(2, 4)], pace=pace)
    each = str(draw.randint(-(-len(yard.slugs) // count), len(yard.slugs)))
    programs = [started(yard, "--max-items", each) for _ in range(count)]
    with at_work(programs):
        runs = [ended(program) for program in programs]
    found = yard.wrong()
    if any(run.code not in (DONE, BY_OTHERS) for run in runs):
        found += [f"ended with {run.code}: {run.err[-1500:]}" for run in runs]
    if yard.dispatched() != Counter(yard.slugs):
        found.append(f"dispatched: {yard.dispatched()}")
    said = Counter(one["slug"] for run in runs for one in run.report["items_shipped"])
    if said != Counter(yard.slugs):
        found.append(f"told as shipped: {said}")
    return [f"seed {seed}, {count} schedulers of {each} items: {one}" for one in found]


def test_schedulers_on_one_state_folder_do_every_item_once(tmp_path: Path) -> None:
    assert wrong_on_one_state(tmp_path, 0) == []


@pytest.mark.sweep
def test_all_of_many_schedulers_on_one_state_folder(tmp_path: Path) -> None:
    found: list[str] = []
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found += wrong_on_one_state(folder, seed)
    sys.stdout.write(f"\nmany schedulers runs=100 violations={len(found)} target=0\n")
    assert found == []


class Two:
    """Two checkouts with state folders and trackers of their own, and one remote."""

    def __init__(
        self, folder: Path, slugs: Sequence[Sequence[str]], configs: Sequence[str]
    ) -> None:
        self.go = folder / "go"
        self.yards = [
            self._yard(folder / name, mine, config)
            for name, mine, config in zip("xy", slugs, configs, strict=True)
        ]
        first, second = self.yards
        second.repo.git("remote", "set-url", "origin", str(first.remote.path))
        self.remote = second.remote = first.remote

    def _yard(self, folder: Path, slugs: Sequence[str], config: str) -> Yard:
        folder.mkdir()
        wait = WAIT.replace("FOLDER", str(folder)).replace("BARRIER", str(self.go))
        yard = Yard(folder, slugs=slugs, config=config, agent=wait + AGENT)
        yard.tests = {slug: f"grep -qx good {slug}.txt" for slug in slugs}  # the same in both
        yard.track(*map(yard.item, slugs))
        return yard

    def run(self) -> list[Ran]:
        """Both schedulers; no agent goes on before all of both are there."""
        programs = [started(yard) for yard in self.yards]
        with at_work(programs):
            ready = [y.folder / f"ready-{slug}" for y in self.yards for slug in y.slugs]
            assert eventually(lambda: all(path.exists() for path in ready), RUN_LIMIT_S)
            self.go.touch()
            return [ended(program) for program in programs]

    def shipped(self) -> Counter[str]:
        """How many commits of the remote, on whatever branch, say that they are of an item."""
        trailer = "--format=%(trailers:key=Item-Id,valueonly,separator=%x0A)"
        return Counter(self.remote.git("log", "--all", trailer).split())

    def items(self) -> list[dict[str, dict[str, Any]]]:
        texts = (yard.tracker.read_text(encoding="utf-8") for yard in self.yards)
        return [{item["id"]: item for item in json.loads(text)["items"]} for text in texts]


def wrong_on_two_states(folder: Path, draw: random.Random) -> list[str]:
    """What went wrong where two state folders took the same item at the same moment."""
    configs = [draw.choice(("", CURRENT)) for _ in range(2)]
    two = Two(folder, (("a", "c"), ("c", "d")), configs)
    if draw.random() < 0.5:  # pushes that last are at work at the same moment
        hook(two.remote.path / "hooks", "pre-receive", f"sleep {draw.choice((0.1, 0.3))}")
    runs = two.run()
    told, found = two.shipped(), list[str]()
    if max(told.values()) > 1 or told["C"] != 1:
        found.append(f"shipped at first: {told}")
    runs += [yard.run() for yard in two.yards]  # what was overtaken is shipped by then
    if two.shipped() != Counter("ACD"):
        found.append(f"shipped: {two.shipped()}")
    said = Counter(one["slug"] for run in runs for one in run.report["items_shipped"])
    if said != Counter("acd"):
        found.append(f"told as shipped: {said}")
    here, there = (items["C"] for items in two.items())
    if {here["status"], there["status"]} - {"in_progress", "done"} or (
        here["shipped"]["commit"] != there["shipped"]["commit"]
    ):
        found.append(f"trackers: {here} {there}")
    return [f"{configs}: {one} {[run.err[-800:] for run in runs]}" for one in found]


@pytest.mark.more
def test_two_state_folders_ship_an_item_once_and_both_trackers_name_the_branch(
    tmp_path: Path,
) -> None:
    two = Two(tmp_path, (("a", "c"), ("c", "d")), ("", ""))
    runs = two.run()
    assert two.shipped() == Counter("ACD"), [run.err for run in runs]
    loser = next(run for run in runs if run.verdicts["c"] == ELSEWHERE)
    winner = next(run for run in runs if run is not loser)
    assert winner.verdicts["c"] == "verified"
    assert {one["slug"] for one in loser.report["items_shipped"]} <= {"a", "d"}
    assert [item["C"]["status"] for item in two.items()] == ["in_progress", "in_progress"]
    branches = [item["C"]["shipped"]["branch"] for item in two.items()]
    assert branches == [winner.report["branch"]] * 2
    assert [(one["id"], one["what"]) for one in loser.report["items_followed"]] == [("C", "found")]
    # and that is the end of it
    for yard in two.yards:
        again = yard.run()
        assert (again.code, again.report["items_selected"]) == (DONE, [])


@pytest.mark.sweep
def test_all_of_two_state_folders(tmp_path: Path) -> None:
    found: list[str] = []
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found += wrong_on_two_states(folder, random.Random(seed))
    sys.stdout.write(f"\ntwo state folders runs=100 violations={len(found)} target=0\n")
    assert found == []
