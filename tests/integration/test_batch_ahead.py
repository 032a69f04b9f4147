"""The batch is tested while its last items are still at work, and only what ships counts."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from driver.terminal.progress import Progress
from tests.support.processes import eventually
from tests.support.walls import CLOSED_LEVELS, needs
from tests.support.waves import Agent, Scene, ScriptedDriver, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are made by Linux")
PATIENCE_S = 60.0
FILES = {**{f"{slug}.txt": "base\n" for slug in "abc"}, "check.sh": "grep -q good $1.txt\n"}
ITEMS = [item(slug, f"{slug}.txt", ["sh", "check.sh", slug]) for slug in "abc"]
CONFIG = "[limits]\nmax_parallel_tests = 3\n"


class Enclosed(ScriptedDriver):
    """A backend whose agents, were they programs, would run inside."""

    encloses = True


class Said(io.StringIO):
    """The lines of a wave, and an event that is set when all `awaited` texts were said."""

    def __init__(self, *awaited: str) -> None:
        super().__init__()
        self._awaited = set(awaited)
        self.all_said = threading.Event()

    def write(self, text: str) -> int:
        self._awaited -= {one for one in self._awaited if one in text}
        if not self._awaited:
            self.all_said.set()
        return super().write(text)

    def after(self, last: str) -> str:
        return self.getvalue().rpartition(last)[2]


def steps(said: Said, **last: str) -> dict[str, Any]:
    """Agents of which the last one ends only when all is said that is awaited."""

    def wait(agent: Agent) -> None:
        assert said.all_said.wait(PATIENCE_S)
        agent.write({"c.txt": last.get("c", "good\n")})

    quick = {slug: writes(**{f"{slug}__txt": "good\n"}) for slug in "ab"}
    return {**quick, "c": [wait, wait, wait]}


def together(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Command and tree of each run of the batch."""
    (shipment,) = report["shipped_repos"]
    return [(one["command"], one["tree"]) for one in shipment["integration"]["receipts"]]


def walled(folder: Path, config: str = CONFIG) -> Scene:
    needs(CLOSED_LEVELS[-1])
    return Scene(
        folder, FILES, config=config, environ={"TIDEGATE_SANDBOX_LEVEL": CLOSED_LEVELS[-1]}
    )


def tree_at(scene: Scene, commit: str) -> str:
    return scene.repo.git("rev-parse", f"{commit}^{{tree}}")


def test_a_batch_begins_while_an_agent_is_at_work_and_no_run_is_made_twice(tmp_path: Path) -> None:
    scene, said = walled(tmp_path), Said("batch: sh check.sh b")
    driver = Enclosed(steps(said), environ=scene.environ)
    report = scene.run(driver, ITEMS, progress=Progress(said))
    assert report["shipped"] == ["a", "b", "c"]
    trees = {slug: tree_at(scene, one["commit"]) for slug, one in built(report).items()}
    whole = [(f"sh check.sh {slug}", trees["c"]) for slug in "abc"]
    assert sorted(together(report)) == sorted([*whole, ("sh check.sh b", trees["b"])])
    assert said.getvalue().count("batch: ") == 4, said.getvalue()


def test_work_that_fails_at_the_end_leaves_only_runs_of_what_ships(tmp_path: Path) -> None:
    scene, said = walled(tmp_path), Said("batch: sh check.sh b")
    driver = Enclosed(steps(said, c="bad\n"), environ=scene.environ)
    report = scene.run(driver, ITEMS, progress=Progress(said))
    assert verdicts(report) == {"a": "verified", "b": "verified", "c": "failed"}
    last = tree_at(scene, report["sha"])
    assert sorted(together(report)) == [("sh check.sh a", last), ("sh check.sh b", last)]
    assert said.getvalue().count("batch: sh check.sh b: ") <= 2  # on this tree, and with c's work


def test_work_that_breaks_others_is_evicted_as_without_runs_ahead(tmp_path: Path) -> None:
    scene = walled(tmp_path)
    scene.repo.commit({"check.sh": "grep -q good $1.txt && ! grep -q evil *.txt || test $1 = c\n"})
    said = Said("batch: sh check.sh b")
    driver = Enclosed(steps(said, c="evil\n"), environ=scene.environ)
    report = scene.run(driver, ITEMS, progress=Progress(said))
    assert (verdicts(report)["c"], report["shipped"]) == ("failed", ["a", "b"])
    last = tree_at(scene, report["sha"])
    green = {(f"sh check.sh {slug}", last) for slug in "ab"}
    assert green <= {*together(report)}


def test_a_run_for_a_batch_that_will_not_be_ends_at_once(tmp_path: Path) -> None:
    scene, said = walled(tmp_path), Said("b: verified")
    nap = f"sleep 300.{os.getpid()}"
    scene.repo.commit({"check.sh": f"grep -q good $1.txt && {{ ! grep -q bad c.txt || {nap}; }}\n"})
    scripts = steps(said, c="bad\n")

    def wait(agent: Agent) -> None:
        assert eventually(lambda: runs(nap))
        agent.write({"c.txt": "bad\n"})

    scripts["c"][1:] = [wait]
    driver = Enclosed(scripts, environ=scene.environ)
    report = scene.run(driver, ITEMS, progress=Progress(said))
    assert verdicts(report) == {"a": "verified", "b": "verified", "c": "failed"}
    assert report["shipped"] == ["a", "b"]
    assert "killed" in said.getvalue()
    assert not runs(nap)


def runs(command: str) -> bool:
    """True if a process of this command line is at work."""
    told = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return command in told.stdout.splitlines()


def test_nothing_runs_ahead_where_agents_reach_the_checkouts_of_tests(tmp_path: Path) -> None:
    scene, said = Scene(tmp_path, FILES, config=CONFIG), Said("a: verified", "b: verified")
    driver = ScriptedDriver(steps(said), environ=scene.environ)
    report = scene.run(driver, ITEMS, progress=Progress(said))
    assert report["shipped"] == ["a", "b", "c"]
    assert said.after(": verified").count("batch: ") == said.getvalue().count("batch: ") == 4
