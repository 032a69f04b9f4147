"""What keeps one item out of a ship and leaves the others alone: secrets, ignored files, hooks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.repos import frozen
from tests.support.secrets import github, noise
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n"}
A_GOOD, B_GOOD = "grep -q good a.txt", "grep -q good b.txt"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES, remote=True)


def everything(folder: Path) -> bytes:
    """All that a wave wrote down for people: reports are the callers', so not among it."""
    return b"".join(path.read_bytes() for path in folder.rglob("*.json"))


# Secrets


def test_a_secret_keeps_its_item_back_and_the_others_ship(scene: Scene) -> None:
    secret = github()
    report, _ = scene.play(
        {"a": writes(a__txt=f"good\nuse {secret}\n"), "b": writes(b__txt="good\n")},
        [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD)],
    )
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "refused")
    reason = built(report)["a"]["error"]
    assert "secret found" in reason
    assert "a.txt:2 github_token" in reason
    assert secret not in str(report) + scene.said.getvalue()
    assert secret.encode() not in everything(scene.state)
    assert scene.remote is not None
    assert "good" not in scene.remote.git("show", f"{report['branch']}:a.txt")


def test_the_agent_is_told_of_the_secret_and_may_take_it_out(scene: Scene) -> None:
    report, driver = scene.play(
        {"a": [writes(a__txt=f"good {github()}\n"), writes(a__txt="good\n")]},
        [item("a", "a.txt", A_GOOD, repairCap=1)],
    )
    assert report["shipped"] == ["a"]
    assert "secret found" in driver.rounds_of("a")[1].prompt


def test_a_secret_of_this_machine_is_known_by_its_value(tmp_path: Path) -> None:
    value = "plain words nobody suspects"
    scene = Scene(tmp_path, FILES, environ={"MY_SERVICE_TOKEN": value})
    report, _ = scene.play(
        {"a": writes(a__txt=f"good {value}\n")}, [item("a", "a.txt", A_GOOD, repairCap=0)]
    )
    assert verdicts(report) == {"a": "refused"}
    assert "MY_SERVICE_TOKEN" in built(report)["a"]["error"]
    assert value not in str(report)


def test_what_the_base_has_published_already_is_nobodys_secret(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": f"{github()}\n", "b.txt": "base\n"})
    report, _ = scene.play(
        {"a": writes(a__txt=f"good\n{github()}\n")}, [item("a", "a.txt", A_GOOD)]
    )
    assert report["shipped"] == ["a"]


def test_work_of_an_earlier_run_is_looked_through_too(tmp_path: Path) -> None:
    value = noise(24)
    scene = Scene(tmp_path, FILES)
    (scene.folder / "tidegate.toml").write_text("")
    work = [item("a", "a.txt", A_GOOD, repairCap=0)]
    first, _ = scene.play({"a": writes(a__txt=f"good {value}\n")}, work, git={"mode": "none"})
    assert verdicts(first) == {"a": "verified"}
    scene.environ["NEW_API_KEY"] = value
    second, _ = scene.play({"a": writes(a__txt="good\n")}, work, wave_id="w2")
    assert second["shipped"] == ["a"]
    assert value not in scene.repo.git("show", f"{second['branch']}:a.txt")


# Files that git ignores


def test_an_ignored_file_keeps_its_item_back_before_anything_is_spent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {**FILES, ".gitignore": "*.log\nmade/\n"}, remote=True)
    before = frozen(scene.repo.path)
    owned = ["a.txt", "own.log"]
    report, driver = scene.play(
        {"b": writes(b__txt="good\n")},
        [
            item("a", owned, A_GOOD),
            item("c", ["made/"], "true"),
            item("b", "b.txt", B_GOOD),
        ],
    )
    assert report["shipped"] == ["b"]
    assert verdicts(report) == {"a": "refused", "c": "refused", "b": "verified"}
    assert "own.log (.gitignore:1 *.log)" in built(report)["a"]["error"]
    assert "take them out of ownsFiles" in built(report)["a"]["error"]
    assert "made/ (.gitignore:2 made/)" in built(report)["c"]["error"]
    assert not driver.rounds_of("a")
    after = frozen(scene.repo.path)
    assert {k: v for k, v in after.items() if "refs/heads/wave" not in k} == before


def test_an_ignored_file_that_an_agents_own_rules_hide_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES)
    hides = writes(a__txt="good\n", new__log="x\n", __gitignore="*.log\n")
    report, _ = scene.play(
        {"a": hides},
        [item("a", ["a.txt", "new.log", ".gitignore"], A_GOOD, repairCap=0)],
    )
    assert verdicts(report) == {"a": "refused"}
    assert "new.log (.gitignore:1 *.log)" in built(report)["a"]["error"]


def test_what_is_ignored_within_a_folder_of_ones_own_is_left_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"src/a.txt": "base\n", ".gitignore": "*.pyc\n"})

    def act(agent: Agent) -> None:
        agent.write({"src/a.txt": "good\n", "src/made.pyc": "compiled\n"})

    report, _ = scene.play({"a": act}, [item("a", ["src/"], "grep -q good src/a.txt")])
    assert report["shipped"] == ["a"]
    assert scene.files_in(report["sha"]) == {"src/a.txt": "M"}
