"""Work that could not be judged is proven again before another agent is paid."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside
from tests.support.repos import hook
from tests.support.waves import Scene, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n"}
A_GOOD = "grep -q good a.txt"
ITEMS = [item("a", "a.txt", A_GOOD)]
GOOD = {"a": writes(a__txt="good\n")}


def again(scene: Scene, items: list[dict[str, Any]], agents: Mapping[str, Any]) -> dict[str, Any]:
    """The report of the next cycle, and how many agents it asked as `asked`."""
    report, driver = scene.play(agents, items, wave_id="w2", resume=True)
    return {**report, "asked": len(driver.requests)}


class Mendable:
    """A scene whose test cannot be started before `mend`, on the base neither."""

    def __init__(self, folder: Path, repair_cap: int = 1) -> None:
        self._shell = folder / "shell"
        self.scene = Scene(folder, FILES)
        self.scene.repo.write({"check": f"#!{self._shell}\n{A_GOOD}\n"})
        (self.scene.repo.path / "check").chmod(0o755)
        self.scene.repo.git("add", "-A")
        self.scene.repo.git("commit", "-q", "-m", "a test")
        self.items = [item("a", "a.txt", ["./check"], repairCap=repair_cap)]
        report, driver = self.scene.play(GOOD, self.items)
        assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
        assert len(driver.requests) == 1

    def mend(self) -> None:
        self._shell.symlink_to("/bin/sh")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hooks", [("pre-commit",), ("commit-msg",)])
@beside
def test_work_that_a_broken_hook_kept_back_ships_without_an_agent(
    folder: Path, hooks: tuple[str]
) -> None:
    scene = Scene(folder, FILES)
    where = scene.repo.path / ".git" / "hooks"
    hook(where, hooks[0], "no-such-program-at-all")
    report, _ = scene.play(GOOD, ITEMS)
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    hook(where, hooks[0], "exit 0")
    report = again(scene, ITEMS, {})
    assert (report["shipped"], report["asked"]) == (["a"], 0)


@pytest.mark.more
@beside
def test_work_whose_test_could_not_run_is_proven_again_until_it_can(folder: Path) -> None:
    place = Mendable(folder)
    report = again(place.scene, place.items, {})
    assert (verdicts(report), report["asked"]) == ({"a": "undecided"}, 0)
    place.mend()
    report, driver = place.scene.play({}, place.items, wave_id="w3", resume=True)
    assert (report["shipped"], driver.requests) == (["a"], [])


@pytest.mark.more
@pytest.mark.parametrize("what", ["prompt", "base"])
@beside
def test_another_task_or_base_is_built_anew(folder: Path, what: str) -> None:
    place = Mendable(folder)
    place.mend()
    if what == "prompt":
        place.items[0]["prompt"] = "Do it otherwise."
    else:
        place.scene.repo.commit({"b.txt": "moved on\n"})
    report = again(place.scene, place.items, GOOD)
    assert (report["shipped"], report["asked"]) == (["a"], 1)


@pytest.mark.more
@beside
def test_work_that_is_lost_costs_no_attempt(folder: Path) -> None:
    place = Mendable(folder, repair_cap=0)
    for patch in (place.scene.state / "runs").rglob("*.patch"):
        patch.unlink()
    place.mend()
    report = again(place.scene, place.items, GOOD)
    assert (report["shipped"], report["asked"]) == (["a"], 1)


@pytest.mark.more
@beside
def test_work_kept_back_for_a_planted_program_is_not_taken_up_again(folder: Path) -> None:
    scene = Scene(folder, FILES)

    def plants(agent: Any) -> None:
        agent.write({"a.txt": "good\n"})
        scene.repo.git("config", "core.fsmonitor", "evil")

    report, _ = scene.play({"a": plants}, ITEMS)
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    report = again(scene, ITEMS, GOOD)
    assert report["asked"] == 1
