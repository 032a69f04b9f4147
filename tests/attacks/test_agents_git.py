"""What agents do with git in their clones, and changes that are no plain files: refused, named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside_on
from tests.support.repos import Checkout
from tests.support.waves import Agent, Scene, Step, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "run.sh": "#!/bin/sh\n", "line\nbreak": "x\n"}
A_GOOD = "grep -q good a.txt"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES)


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


@pytest.fixture
def submodule(scene: Scene) -> Scene:
    head = scene.repo.git("rev-parse", "HEAD")
    scene.repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    scene.repo.git("commit", "-q", "-m", "a submodule")
    (scene.repo.path / "vendored").mkdir()
    return scene


def _stash(clone: Checkout) -> None:
    clone.write({"a.txt": "stashed\n"})
    clone.git("stash", "-q")


def _packed(clone: Checkout) -> None:
    clone.git("branch", "hidden")
    clone.git("pack-refs", "--all")


def _linked_ref(clone: Checkout) -> None:
    (clone.path / ".git/refs/heads/hidden").symlink_to("/nowhere")


IN_GIT: dict[str, tuple[Callable[[Checkout], object], str]] = {
    "a branch": (lambda c: c.git("branch", "side"), "branch side"),
    "a branch with slashes": (lambda c: c.git("branch", "x/y/z"), "branch x/y/z"),
    "a packed branch": (_packed, "branch hidden"),
    "a ref that is a link": (_linked_ref, "branch hidden"),
    "a tag": (lambda c: c.git("tag", "v1"), "tag v1"),
    "a signed note": (lambda c: c.git("notes", "add", "-m", "x"), "ref refs/notes/commits"),
    "a replaced object": (
        lambda c: c.git("replace", "-f", "HEAD:a.txt", "HEAD:run.sh"),
        "ref refs/replace/",
    ),
    "a remote branch": (
        lambda c: c.git("update-ref", "refs/remotes/origin/main", "HEAD"),
        "ref refs/remotes/origin/main",
    ),
    "a stash": (_stash, "a stash"),
    "a worktree": (
        lambda c: c.git("worktree", "add", "-q", "--detach", "../beside"),
        "worktree beside",
    ),
    "a commit": (lambda c: c.commit({"a.txt": "good\n"}), "committed by itself"),
    "another branch": (lambda c: c.git("switch", "-qc", "mine"), "switched its workspace to mine"),
    "no branch": (lambda c: c.git("switch", "-q", "--detach"), "switched its workspace to"),
    "another git dir": (
        lambda c: c.git("init", "-q", "--separate-git-dir", "../swapped"),
        "replaced the .git",
    ),
}


def played_at_once(
    folder: Path,
    table: Mapping[str, tuple[Callable[[Any], object], str]],
    place: Callable[..., Any],
) -> dict[str, Any]:
    """One wave, in which the agent of `i0`, `i1` ... does what the table's row says: the records by
    row."""
    slugs = {name: f"i{number}" for number, name in enumerate(table)}
    scene = Scene(folder, {**FILES, **{f"{slug}.txt": "base\n" for slug in slugs.values()}})

    def agent_of(name: str) -> Step:
        def agent(agent: Agent) -> None:
            table[name][0](place(Checkout(agent.folder, scene.environ)))
            agent.write({f"{slugs[name]}.txt": "good\n"})

        return agent

    report, _ = scene.play(
        {slug: agent_of(name) for name, slug in slugs.items()},
        [item(s, f"{s}.txt", f"grep -q good {s}.txt", repairCap=0) for s in slugs.values()],
    )
    assert report["shipped"] == []
    return {name: built(report)[slug] for name, slug in slugs.items()}


@pytest.fixture(scope="module")
def left_in_git(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played_at_once(tmp_path_factory.mktemp("in-git"), IN_GIT, lambda clone: clone)


@pytest.mark.parametrize("name", IN_GIT)
def test_what_an_agent_left_in_its_git_dir_is_refused_and_named(
    left_in_git: dict[str, Any], name: str
) -> None:
    assert left_in_git[name]["verdict"] == "refused"
    assert IN_GIT[name][1] in left_in_git[name]["error"]


@on_scene
def test_a_stash_that_was_taken_back_is_no_fault(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        clone = Checkout(agent.folder, scene.environ)
        agent.write({"a.txt": "good\n"})
        clone.git("stash", "-q")
        clone.git("stash", "pop", "-q")

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]


@on_scene
def test_what_was_told_once_is_not_told_again_in_the_repair_round(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        Checkout(agent.folder, scene.environ).git("tag", "v1")

    rounds = [agent, lambda agent: None]
    report, driver = scene.play({"a": rounds}, [item("a", "a.txt", A_GOOD, repairCap=1)])
    assert "tag v1" in driver.rounds_of("a")[1].prompt
    assert report["shipped"] == ["a"]


def _to_link(folder: Path) -> None:
    (folder / "b.txt").unlink()
    (folder / "b.txt").symlink_to("a.txt")


def _to_folder(folder: Path) -> None:
    (folder / "b.txt").unlink()
    (folder / "b.txt").mkdir()
    (folder / "b.txt" / "x").write_text("x\n")


ON_DISK: dict[str, tuple[Callable[[Path], object], str]] = {
    "a rename names both sides": (lambda p: (p / "b.txt").rename(p / "c.txt"), "b.txt, c.txt"),
    "a rename onto an owned file": (lambda p: (p / "b.txt").rename(p / "i1.txt"), "b.txt"),
    "a deletion": (lambda p: (p / "b.txt").unlink(), "b.txt"),
    "a mode": (lambda p: (p / "run.sh").chmod(0o755), "run.sh"),
    "a link": (_to_link, "b.txt"),
    "a new link": (lambda p: (p / "new").symlink_to("a.txt"), "new"),
    "a folder for a file": (_to_folder, "b.txt, b.txt/x"),
    "a line break in a name": (lambda p: (p / "line\nbreak").write_text("y\n"), "line\nbreak"),
    "another case": (lambda p: (p / "I8.txt").write_text("y\n"), "I8.txt"),
}


@pytest.fixture(scope="module")
def left_on_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played_at_once(tmp_path_factory.mktemp("on-disk"), ON_DISK, lambda clone: clone.path)


@pytest.mark.parametrize("name", ON_DISK)
def test_what_is_not_the_items_own_is_refused_and_named(
    left_on_disk: dict[str, Any], name: str
) -> None:
    assert left_on_disk[name]["verdict"] == "refused"
    assert f"changed outside its files: {ON_DISK[name][1]}" in left_on_disk[name]["error"]


def _file_for_submodule(folder: Path) -> None:
    (folder / "vendored").rmdir()
    (folder / "vendored").write_text("x\n")


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda p: (p / "vendored").rmdir(), "a removed submodule: vendored"),
        (_file_for_submodule, "a removed submodule: vendored"),
    ],
)
def test_a_submodule_is_neither_taken_away_nor_replaced(
    submodule: Scene, act: Callable[[Path], object], named: str
) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        act(agent.folder)

    items = [item("a", ["a.txt", "vendored"], A_GOOD, repairCap=0)]
    report, _ = submodule.play({"a": agent}, items)
    assert verdicts(report) == {"a": "refused"}
    assert named in built(report)["a"]["error"]


def test_another_commit_in_a_submodule_is_refused(submodule: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        inner = Checkout(agent.folder / "vendored", submodule.environ)
        inner.git("init", "-q")
        inner.commit({"x": "x\n"})

    items = [item("a", ["a.txt", "vendored"], A_GOOD, repairCap=0)]
    report, _ = submodule.play({"a": agent}, items)
    assert verdicts(report) == {"a": "refused"}
    assert "a nested repository: vendored" in built(report)["a"]["error"]
