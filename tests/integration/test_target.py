"""A wave for another branch than the one checked out: where it starts, and where it ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.repos import Checkout, frozen
from tests.support.waves import Agent, Scene, built, item, writes

INPUT = 2
GOOD = "grep -q good a.txt && test -e release.txt"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A user on a topic branch that has a commit of its own; `release` is another one."""
    made = Scene(tmp_path, {"a.txt": "base\n"}, remote=True)
    made.repo.git("checkout", "-qb", "release")
    made.repo.commit({"release.txt": "r\n"})
    made.repo.git("push", "-q", "origin", "release")
    made.repo.git("checkout", "-qb", "topic", "main")
    made.repo.commit({"topic.txt": "t\n"})
    return made


def onto(scene: Scene, target: str, mode: str = "branch") -> dict[str, Any]:
    return {"expectTopLevel": str(scene.repo.path), "mode": mode, "target": target}


def ship(scene: Scene, git: dict[str, Any], **more: Any) -> dict[str, Any]:
    steps = {"a": writes(a__txt="good\n")}
    report, driver = scene.play(steps, [item("a", "a.txt", GOOD)], git=git, **more)
    assert bool(driver.requests) == (not report["aborted"])
    return report


def at(place: Checkout, branch: str) -> str:
    return place.git("rev-parse", f"refs/heads/{branch}")


def test_the_wave_branch_is_made_from_the_target_and_the_checkout_stays_as_it_is(
    scene: Scene,
) -> None:
    before = frozen(scene.repo.path)
    report = ship(scene, onto(scene, "release"))
    assert (report["shipped"], report["exit_code"]) == (["a"], 0), scene.said.getvalue()
    assert scene.remote
    assert at(scene.remote, report["branch"]) == report["sha"]
    release = at(scene.repo, "release")
    assert scene.repo.git("rev-parse", f"{report['sha']}^") == release
    base = {"repo": str(scene.repo.path), "commit": release, "branch": "release"}
    assert report["base"] == [base]
    after = frozen(scene.repo.path)
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    ref = f"refs/heads/{report['branch']}"
    assert changed == {f".git/{ref}", f".git/logs/{ref}"}
    assert built(report)["a"]["ship_warning"] is None


@pytest.mark.more
def test_a_target_that_only_the_remote_has_is_started_from(scene: Scene) -> None:
    scene.repo.git("branch", "-qD", "release")
    scene.repo.git("update-ref", "-d", "refs/remotes/origin/release")
    report = ship(scene, onto(scene, "release"))
    assert (report["shipped"], report["exit_code"]) == (["a"], 0), scene.said.getvalue()
    assert scene.remote
    assert scene.repo.git("rev-parse", f"{report['sha']}^") == at(scene.remote, "release")


@pytest.mark.more
@pytest.mark.parametrize("mode", ["branch", "current"])
def test_a_target_that_is_further_on_the_remote_is_taken_from_there(
    scene: Scene, tmp_path: Path, mode: str
) -> None:
    others = Checkout(tmp_path / "others", scene.environ)
    assert scene.remote
    scene.repo.git("clone", "-q", "-b", "release", str(scene.remote.path), str(others.path))
    theirs = others.commit({"theirs.txt": "t\n"})
    others.git("push", "-q")
    report = ship(scene, onto(scene, "release", mode))
    assert (report["shipped"], report["exit_code"]) == (["a"], 0), scene.said.getvalue()
    assert scene.repo.git("rev-parse", f"{report['sha']}^") == theirs
    assert scene.repo.git("for-each-ref", "refs/tidegate") == ""
    scene.repo.git("fsck", "--connectivity-only")


def test_in_mode_current_the_target_moves_on_the_remote_and_here(scene: Scene) -> None:
    topic = at(scene.repo, "topic")
    report = ship(scene, onto(scene, "release", "current"))
    assert (report["shipped"], report["branch"]) == (["a"], "release"), scene.said.getvalue()
    assert scene.remote
    assert at(scene.remote, "release") == at(scene.repo, "release") == report["sha"]
    assert (at(scene.repo, "topic"), scene.repo.git("branch", "--show-current")) == (topic, "topic")
    assert (scene.repo.path / "a.txt").read_text() == "base\n"


@pytest.mark.more
def test_a_target_that_is_checked_out_elsewhere_stays_behind_and_is_told(
    scene: Scene, tmp_path: Path
) -> None:
    scene.repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "release")
    before = at(scene.repo, "release")
    report = ship(scene, onto(scene, "release", "current"))
    assert scene.remote
    assert at(scene.remote, "release") == report["sha"]
    assert at(scene.repo, "release") == before
    assert "is checked out in" in built(report)["a"]["ship_warning"]


@pytest.mark.more
@pytest.mark.parametrize("target", ["nowhere", "release~1", "-x", "a..b", "origin/release"])
def test_a_target_that_is_no_branch_is_told_in_a_sentence(scene: Scene, target: str) -> None:
    report = ship(scene, onto(scene, target))
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_input", INPUT)
    assert f"--target {target}: " in report["error"]
    assert len(report["error"].splitlines()) == 1


@pytest.mark.more
def test_work_on_a_target_is_resumed_and_pushed_there(scene: Scene) -> None:
    assert scene.remote
    away = scene.remote.path.rename(scene.folder / "moved.git")
    kept = ship(scene, onto(scene, "release", "current"))
    assert (kept["shipped"], kept["exit_code"]) == ([], 1)
    away.rename(scene.remote.path)
    items = [item("a", "a.txt", GOOD)]
    git = onto(scene, "release", "current")
    again, driver = scene.play({}, items, git=git, resume=True, wave_id="w2")
    assert (again["shipped"], again["exit_code"], driver.requests) == (["a"], 0, [])
    assert at(scene.remote, "release") == at(scene.repo, "release") == kept["sha"]


@pytest.mark.more
def test_what_an_agent_commits_in_the_users_checkout_is_nobodys_base(scene: Scene) -> None:
    topic = at(scene.repo, "topic")

    def rogue(agent: Agent) -> None:
        scene.repo.commit({"rogue.txt": "r\n"})
        agent.write({"a.txt": "good\n"})

    items = [item("a", "a.txt", "grep -q good a.txt"), item("b", "b.txt", "test -e b.txt")]
    git = {"expectTopLevel": str(scene.repo.path), "mode": "branch"}
    report, _ = scene.play({"a": rogue, "b": writes(b__txt="b\n")}, items, git=git)
    assert at(scene.repo, "topic") != topic
    for slug in report["shipped"]:
        assert scene.repo.git("merge-base", built(report)[slug]["commit"], "topic") == topic
