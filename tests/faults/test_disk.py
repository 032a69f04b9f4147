"""Disks that are full, places nobody may write in: one sentence each, and no work is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interpreter import PYTHON
from tests.support.programs import Project, make_template
from tests.support.programs import item as tracked
from tests.support.waves import Agent, Scene, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and limits of POSIX")
ordinary_user = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may read and write everything"
)
A_GOOD = "grep -q good a.txt"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"a.txt": "base\n", "sub/b.txt": "base\n"})


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    project = Project(tmp_path, make_template(tmp_path / "template"))
    project.track(tracked("a"))
    few_bytes = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PYTHON, "-B")
    program = Path(__file__).resolve().parents[2] / "driver" / "wave_scheduler.py"
    flags = ("--execute", "--tracker", project.tracker, *project.places())
    done = subprocess.run(
        [*few_bytes, program, *flags],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert project.item_now("A")["status"] == "todo"
    assert project.branches() == []


@pytest.mark.more
def test_a_place_for_workspaces_that_cannot_be_made_is_told(scene: Scene) -> None:
    (scene.folder / "home" / ".cache").write_text("not a folder")
    report, driver = scene.play({}, [item("a", "a.txt", A_GOOD)])
    assert (report["abort_reason"], report["exit_code"]) == ("cannot_run_here", 4)
    assert "no workspaces can be made in" in report["error"]
    assert driver.requests == []


@pytest.mark.more
def test_a_state_folder_lost_on_the_way_costs_the_work_but_not_the_report(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        shutil.rmtree(scene.state)
        scene.state.write_text("not a folder")

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD)])
    # Without a state folder nobody can say that no halt was asked for, so the run may stop first.
    assert verdicts(report)["a"] in ("undecided", "halted")
    assert report["shipped"] == []
    assert "Traceback" not in scene.said.getvalue()


@pytest.mark.more
def test_a_database_lost_on_the_way_ships_nothing_and_what_was_spent_is_told(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        for file in scene.state.glob("tracker_events.db*"):
            file.unlink()

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD)])
    assert verdicts(report) == {"a": "undecided"}
    assert report["shipped"] == []
    assert "removed or replaced" in report["built"][0]["error"]
    assert Path(report["built"][0]["savedWork"]).exists()
    assert report["tokens"]["total"] == 100
    assert "Traceback" not in scene.said.getvalue()


@pytest.mark.more
def test_a_set_up_that_takes_the_git_dir_away_is_told(tmp_path: Path) -> None:
    config = '[workspace]\nsetup = ["rm -rf .git"]\n'
    scene = Scene(tmp_path, {"a.txt": "base\n"}, config=config)
    report, driver = scene.play({}, [item("a", "a.txt", A_GOOD)])
    assert verdicts(report) == {"a": "undecided"}
    assert "setup removes .git" in built(report)["a"]["error"]
    assert driver.requests == []
    assert "Traceback" not in scene.said.getvalue()


@ordinary_user
def test_a_folder_nobody_may_read_is_told_and_the_dispatch_is_counted(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        (agent.folder / "sub").chmod(0)

    report, _ = scene.play({"a": agent}, [item("a", ["a.txt", "sub/"], A_GOOD)])
    assert verdicts(report) == {"a": "undecided"}
    assert report["tokens"]["total"] == 100
    assert "Traceback" not in scene.said.getvalue()
