"""What agents do with git in their clones is no offence; changes that are no plain files are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside_on
from tests.support.repos import Checkout, make_repo
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


def _made_anew(clone: Checkout) -> None:
    shutil.rmtree(clone.path / ".git")
    clone.git("init", "-q")
    clone.git("add", "-A")
    clone.git("commit", "-q", "-m", "all of it")


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
    "a commit": (
        lambda c: c.git("commit", "-q", "--allow-empty", "-m", "x"),
        "it committed (HEAD is ",
    ),
    "another branch": (lambda c: c.git("switch", "-qc", "mine"), "it switched to mine"),
    "no branch": (lambda c: c.git("switch", "-q", "--detach"), "it switched to no branch"),
    "another git dir": (
        lambda c: c.git("init", "-q", "--separate-git-dir", "../swapped"),
        "removed or replaced its .git",
    ),
    "no git dir": (lambda c: shutil.rmtree(c.path / ".git"), "removed or replaced its .git"),
    "no HEAD": (lambda c: (c.path / ".git/HEAD").unlink(), "removed or replaced its .git"),
    "no objects": (lambda c: shutil.rmtree(c.path / ".git/objects"), "removed or replaced"),
    "a new repository": (_made_anew, "removed or replaced its .git"),
}


def played_at_once(
    folder: Path,
    table: Mapping[str, tuple[Callable[[Any], object], str]],
    place: Callable[..., Any],
) -> tuple[dict[str, Any], list[str]]:
    """One wave, in which the agent of `i0`, `i1` ... does what the table's row says: the records by
    row, and the rows that were shipped."""
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
    shipped = [name for name, slug in slugs.items() if slug in report["shipped"]]
    return {name: built(report)[slug] for name, slug in slugs.items()}, shipped


Played = tuple[dict[str, Any], list[str]]


@pytest.fixture(scope="module")
def left_in_git(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_at_once(tmp_path_factory.mktemp("in-git"), IN_GIT, lambda clone: clone)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", IN_GIT)
def test_what_an_agent_left_in_its_git_dir_is_noted_and_its_files_ship(
    left_in_git: Played, name: str
) -> None:
    records, shipped = left_in_git
    assert name in shipped
    [note] = records[name]["attempts"][-1]["notes"]
    assert note.startswith("its work is what is on disk; dropped from its own git: ")
    assert IN_GIT[name][1] in note


@pytest.mark.sampled(1)
@pytest.mark.parametrize("branch", ["main", "mine"])
@on_scene
def test_work_that_its_agent_committed_ships(scene: Scene, branch: str) -> None:
    def agent(agent: Agent) -> None:
        clone = Checkout(agent.folder, scene.environ)
        clone.git("checkout", "-q", "-B", branch)
        clone.commit({"a.txt": "good\n"})

    report, driver = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD)])
    assert (report["shipped"], len(driver.rounds_of("a"))) == (["a"], 1)


@on_scene
def test_a_foreign_file_in_an_agents_commit_is_refused(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        Checkout(agent.folder, scene.environ).commit({"a.txt": "good\n", "b.txt": "foreign\n"})

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert built(report)["a"]["error"] == "changed outside its files: b.txt"


def _work_on_a_branch(clone: Checkout) -> None:
    clone.git("switch", "-qc", "mine")
    clone.commit({"a.txt": "good\n"})
    clone.git("switch", "-q", "main")


def _work_in_a_stash(clone: Checkout) -> None:
    clone.write({"a.txt": "good\n"})
    clone.git("stash", "-q")


@pytest.mark.more
@pytest.mark.parametrize(
    ("hide", "named", "bring_back"),
    [
        (_work_on_a_branch, "branch mine", ("checkout", "mine", "--", ".")),
        (_work_in_a_stash, "a stash", ("stash", "pop", "-q")),
    ],
)
@on_scene
def test_work_that_is_only_in_git_is_named_and_can_be_brought_back(
    scene: Scene, hide: Callable[[Checkout], None], named: str, bring_back: Sequence[str]
) -> None:
    rounds = [
        lambda agent: hide(Checkout(agent.folder, scene.environ)),
        lambda agent: Checkout(agent.folder, scene.environ).git(*bring_back) and None,
    ]
    # Green on the base: without a word about the branch, the item would count as done.
    green_on_base = item("a", "a.txt", "true", repairCap=1, baseline="green")
    report, driver = scene.play({"a": rounds}, [green_on_base])
    first, last = built(report)["a"]["attempts"]
    assert (first["verdict"], last["verdict"]) == ("no_change", "verified")
    assert f"{named}" in first["reason"]
    assert f"{named}" in driver.rounds_of("a")[1].prompt
    assert report["shipped"] == ["a"]


@pytest.mark.more
@pytest.mark.parametrize("test", ["true", A_GOOD])
@on_scene
def test_a_git_dir_that_an_agent_removed_is_put_back_before_the_repair(
    scene: Scene, test: str
) -> None:
    def removes(agent: Agent) -> None:
        shutil.rmtree(agent.folder / ".git")
        agent.write({"a.txt": "bad\n", "b.txt": "foreign\n"})

    def mends(agent: Agent) -> None:
        clone = Checkout(agent.folder, scene.environ)
        clone.git("checkout", "HEAD", "--", "b.txt")
        agent.write({"a.txt": "good\n"})
        clone.git("add", "-A")

    items = [item("a", "a.txt", test, repairCap=1, baseline="green" if test == "true" else None)]
    report, _ = scene.play({"a": [removes, mends]}, items)
    assert [one["verdict"] for one in built(report)["a"]["attempts"]] == ["refused", "verified"]
    assert built(report)["a"]["attempts"][1]["notes"] == []
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_a_lock_that_a_killed_git_left_is_gone_before_the_repair(scene: Scene) -> None:
    def locks(agent: Agent) -> None:
        (agent.folder / ".git/index.lock").touch()
        agent.write({"a.txt": "bad\n"})

    def adds(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        Checkout(agent.folder, scene.environ).git("add", "-A")

    report, _ = scene.play({"a": [locks, adds]}, [item("a", "a.txt", A_GOOD, repairCap=1)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_a_stash_that_was_taken_back_is_no_fault(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        clone = Checkout(agent.folder, scene.environ)
        agent.write({"a.txt": "good\n"})
        clone.git("stash", "-q")
        clone.git("stash", "pop", "-q")

    report, _ = scene.play({"a": agent}, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_what_was_noted_once_is_not_noted_again_in_the_repair_round(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "bad\n"})
        Checkout(agent.folder, scene.environ).git("tag", "v1")

    def mends(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})

    items = [item("a", "a.txt", A_GOOD, repairCap=1)]
    report, _ = scene.play({"a": [agent, mends]}, items)
    first, last = built(report)["a"]["attempts"]
    assert ("tag v1" in first["notes"][0], last["notes"]) == (True, [])
    assert scene.said.getvalue().count("tag v1") == 1
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
def left_on_disk(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_at_once(tmp_path_factory.mktemp("on-disk"), ON_DISK, lambda clone: clone.path)


@pytest.mark.more
@pytest.mark.parametrize("name", ON_DISK)
def test_what_is_not_the_items_own_is_refused_and_named(left_on_disk: Played, name: str) -> None:
    records, shipped = left_on_disk
    assert (records[name]["verdict"], shipped) == ("refused", [])
    assert f"changed outside its files: {ON_DISK[name][1]}" in records[name]["error"]


def _file_for_submodule(folder: Path) -> None:
    (folder / "vendored").rmdir()
    (folder / "vendored").write_text("x\n")


@pytest.mark.more
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


def a_library(scene: Scene) -> tuple[Checkout, list[str]]:
    """A repository with two commits, the first of which is a submodule of the scene's."""
    library = make_repo(scene.folder / "library", scene.environ, {"x": "1\n"})
    commits = [library.git("rev-parse", "HEAD"), library.commit({"x": "2\n"})]
    scene.repo.write({".gitmodules": f'[submodule "lib"]\npath = lib\nurl = {library.path}\n'})
    scene.repo.git("update-index", "--add", "--cacheinfo", f"160000,{commits[0]},lib")
    scene.repo.git("add", ".gitmodules")
    scene.repo.git("commit", "-q", "-m", "a library")
    return library, commits


LOCAL = ("-c", "protocol.file.allow=always")


def _checks_out(clone: Checkout, commit: str) -> None:
    clone.git(*LOCAL, "submodule", "update", "-q", "--init", "lib")
    Checkout(clone.path / "lib", clone.environ).git("checkout", "-q", commit)


def _checks_out_and_commits(clone: Checkout, commit: str) -> None:
    _checks_out(clone, commit)
    clone.git("commit", "-qam", "moved")


def _sets_the_entry(clone: Checkout, commit: str) -> None:
    clone.git("update-index", "--cacheinfo", f"160000,{commit},lib")


def _clones_it(clone: Checkout, commit: str) -> None:
    (clone.path / "lib").rmdir()
    url = clone.git("config", "--file", ".gitmodules", "submodule.lib.url")
    clone.git(*LOCAL, "clone", "-q", url, "lib")
    Checkout(clone.path / "lib", clone.environ).git("checkout", "-q", commit)


@pytest.mark.more
@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    "move", [_checks_out, _checks_out_and_commits, _sets_the_entry, _clones_it]
)
@pytest.mark.parametrize("checked_out", [True, False])
@on_scene
def test_an_item_may_move_a_submodule_that_it_names(
    scene: Scene, move: Callable[[Checkout, str], None], newest: bool, checked_out: bool
) -> None:
    library, (_, second) = a_library(scene)
    if not newest:
        library.commit({"x": "3\n"})
    if checked_out:
        scene.repo.git(*LOCAL, "submodule", "update", "-q", "--init", "lib")

    def agent(agent: Agent) -> None:
        move(Checkout(agent.folder, scene.environ), second)

    test = f"test $(git ls-files -s lib | cut -d' ' -f2) = {second}"
    report, _ = scene.play({"a": agent}, [item("a", "lib", test, repairCap=0)])
    assert report["shipped"] == ["a"], built(report)["a"]["error"]
    assert scene.repo.git("rev-parse", f"{report['sha']}:lib") == second
    notes = built(report)["a"]["attempts"][0]["notes"]
    assert f"lib to {second[:12]}" in notes[-1]


@pytest.mark.more
@on_scene
def test_a_submodule_at_a_commit_that_nobody_else_has_is_refused(scene: Scene) -> None:
    a_library(scene)

    def agent(agent: Agent) -> None:
        clone = Checkout(agent.folder, scene.environ)
        clone.git(*LOCAL, "submodule", "update", "-q", "--init", "lib")
        Checkout(agent.folder / "lib", scene.environ).commit({"x": "mine\n"})
        clone.git("add", "lib")

    report, _ = scene.play({"a": agent}, [item("a", "lib", "true", repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "a nested repository: lib" in built(report)["a"]["error"]


@pytest.mark.more
@pytest.mark.parametrize("owned", [["a.txt"], ["a.txt", "li/"]])
@on_scene
def test_a_submodule_that_the_item_does_not_name_stays_where_it_is(
    scene: Scene, owned: list[str]
) -> None:
    _, (_, second) = a_library(scene)

    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        _checks_out(Checkout(agent.folder, scene.environ), second)

    report, _ = scene.play({"a": agent}, [item("a", owned, A_GOOD, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "changed outside its files: lib" in built(report)["a"]["error"]


@pytest.mark.more
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
