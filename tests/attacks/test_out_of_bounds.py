"""Agents and tests that reach out of their place: into their own clone, or the user's checkout."""

from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.beside import beside, beside_on
from tests.support.repos import frozen
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, and a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", ".gitignore": "made*\n"}
A_GOOD = "grep -q good a.txt"


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["{clone}/made.txt", "../../items/a/made.txt"])
@on_scene
def test_a_link_that_only_works_in_the_agents_clone_is_refused(scene: Scene, target: str) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"made.txt": "good\n"})
        (agent.folder / "a.txt").unlink()
        (agent.folder / "a.txt").symlink_to(target.format(clone=agent.folder))

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "links that leave the repository: a.txt" in built(report)["a"]["error"]
    assert report["shipped"] == []


@pytest.mark.more
@on_scene
def test_what_is_read_from_the_agents_clone_proves_nothing(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"made.txt": "good\n", "a.txt": f"grep -q good {agent.folder}/made.txt\n"})

    repaired = writes(a__txt="true\n")
    report, _ = scene.play({"a": [agent, repaired]}, [item("a", "a.txt", "sh a.txt", repairCap=1)])
    assert [attempt["verdict"] for attempt in built(report)["a"]["attempts"]] == [
        "failed",
        "verified",
    ]


@pytest.mark.more
@pytest.mark.parametrize("name", [".git", ".git/refs", ".git/refs/heads"])
@on_scene
def test_a_repair_moves_no_branch_of_the_user(scene: Scene, name: str) -> None:
    mine: list[str] = []

    def agent(agent: Agent) -> None:
        shutil.rmtree(agent.folder / name)
        (agent.folder / name).symlink_to(scene.repo.path / name)
        agent.write({"a.txt": "bad\n"})
        mine.append(scene.repo.commit({"b.txt": "the user works on\n"}))

    report, _ = scene.play(
        {"a": [agent, writes(a__txt="good\n")]}, [item("a", "a.txt", A_GOOD, repairCap=1)]
    )
    assert scene.repo.git("rev-parse", "main") == mine[0]
    assert "HEAD" in report["shipped_repos"][0]["warning"]


@pytest.mark.more
@on_scene
def test_a_clone_replaced_by_the_users_checkout_is_refused_and_harms_nothing(scene: Scene) -> None:
    scene.repo.write({"a.txt": "good, not saved yet\n", "mine.txt": "mine\n"})
    before = frozen(scene.repo.path)

    def agent(agent: Agent) -> None:
        agent.folder.rename(agent.folder.with_name("elsewhere"))
        agent.folder.symlink_to(scene.repo.path)

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert frozen(scene.repo.path) == before


@pytest.mark.more
@on_scene
def test_a_proving_tree_replaced_by_the_users_checkout_harms_nothing(scene: Scene) -> None:
    scene.repo.write({"a.txt": "not saved yet\n", "mine.txt": "mine\n"})
    before = frozen(scene.repo.path)
    swap = f"""
        case $PWD in */repo) exit 1;; esac
        here=$PWD; cd ..; mv "$here" elsewhere; ln -s {scene.repo.path} "$here"; exit 1
    """
    twice = [writes(a__txt="bad\n"), writes(a__txt="good\n")]
    report, _ = scene.play({"a": twice}, [item("a", "a.txt", swap, repairCap=1)])
    assert verdicts(report) == {"a": "failed"}
    assert frozen(scene.repo.path) == before


@pytest.mark.more
@beside
def test_a_shipped_file_that_the_set_up_makes_too_cannot_be_rewritten_by_its_test(
    folder: Path,
) -> None:
    files = {name: text for name, text in FILES.items() if name != ".gitignore"}
    scene = Scene(folder, files, config='[workspace]\nsetup = ["echo made > made.txt"]\n')
    cheat = "echo good > made.txt; grep -q good made.txt"
    items = [item("a", "made.txt", cheat, repairCap=0)]
    report, _ = scene.play({"a": writes(made__txt="bad\n")}, items)
    assert verdicts(report) == {"a": "failed"}
    honest = [item("a", "made.txt", "grep -q good made.txt", repairCap=0)]
    report, _ = scene.play({"a": writes(made__txt="good\n")}, honest, wave_id="w2")
    assert report["shipped"] == ["a"]


@pytest.mark.more
@beside
def test_a_file_that_a_filter_would_encrypt_is_never_shipped_as_it_is(folder: Path) -> None:
    attributes = "*.key filter=git-crypt\n*.txt -filter\n"
    scene = Scene(folder, FILES | {".gitattributes": attributes})
    agents = {
        "a": lambda agent: agent.write({"new.key": "in plain text\n"}),
        "b": lambda agent: agent.write(
            {"big.key": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"}
        ),
        "c": writes(a__txt="good\n"),
    }
    items = [
        item("a", "new.key", "test -s new.key", repairCap=0),
        item("b", "big.key", "test -s big.key"),
        item("c", "a.txt", A_GOOD),
    ]
    report, _ = scene.play(agents, items)
    assert verdicts(report) == {"a": "refused", "b": "verified", "c": "verified"}
    assert "needs a git filter" in built(report)["a"]["error"]
