"""Who writes in the user's own checkout: an item is refused for it only on evidence, and what may
run a program later keeps it back. Users are in nobody's way."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside, beside_on
from tests.support.repos import Checkout, hook
from tests.support.waves import Agent, Scene, built, item, verdicts, writes
from tools.settings.load import Settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "c.txt": "base\n", ".gitignore": "ignored\n"}
A_GOOD, B_GOOD = "grep -q good a.txt", "grep -q good b.txt"
PATIENCE_S = 60.0


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


def a_good(*, then: Callable[[], object]) -> Callable[[Agent], None]:
    """An agent that does its work, and something else."""

    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        then()

    return agent


def _evil_hook(user: Checkout) -> None:
    hook(user.path / ".git" / "hooks", "pre-commit", "evil")


def _linked_hooks(user: Checkout) -> None:
    (user.path / ".git/hooks").mkdir(exist_ok=True)
    (user.path / ".git/hooks/pre-push").symlink_to("/tmp/evil")


PLAIN: dict[str, tuple[Callable[[Checkout], object], str]] = {
    "a tracked file": (lambda u: u.write({"c.txt": "stray\n"}), "file c.txt"),
    "a new file": (lambda u: u.write({"new/x": "stray\n"}), "file new/x"),
    "a deleted file": (lambda u: (u.path / "c.txt").unlink(), "file c.txt"),
    "a mode": (lambda u: (u.path / "c.txt").chmod(0o755), "file c.txt"),
    "the index": (lambda u: u.git("rm", "-q", "--cached", "c.txt"), "index"),
    "a commit": (lambda u: u.git("commit", "-q", "--allow-empty", "-m", "x"), "HEAD"),
    "another branch": (lambda u: u.git("checkout", "-qb", "other"), "branch"),
    "a branch": (lambda u: u.git("branch", "side"), "ref refs/heads/side"),
    "a worktree": (
        lambda u: u.git("worktree", "add", "-q", "--detach", "../beside"),
        "worktree beside",
    ),
    "a stash": (lambda u: u.git("update-ref", "refs/stash", "HEAD"), "stash"),
}
GRAVE: dict[str, tuple[Callable[[Checkout], object], str]] = {
    "config": (lambda u: u.git("config", "core.sshCommand", "evil"), "config core.sshcommand"),
    "a push elsewhere": (
        lambda u: u.git("config", "branch.main.pushRemote", "evil"),
        "config branch.main.pushremote",
    ),
    "a hook": (_evil_hook, "hooks"),
    "a link as hook": (_linked_hooks, "hooks"),
    "attributes": (lambda u: u.write({".git/info/attributes": "* filter=x\n"}), "info/attributes"),
    "grafts": (lambda u: u.write({".git/info/grafts": "\n"}), "info/grafts"),
    "borrowed objects": (
        lambda u: u.write({".git/objects/info/alternates": "/nowhere\n"}),
        "objects/info/alternates",
    ),
    "a replaced object": (
        lambda u: u.git("replace", "-f", "HEAD:a.txt", "HEAD:.gitignore"),
        "ref refs/replace/",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLAIN)
@on_scene
def test_what_the_user_may_have_done_costs_nothing_and_is_told(scene: Scene, name: str) -> None:
    act, named = PLAIN[name]
    edits = a_good(then=lambda: act(scene.repo))
    items = [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD)]
    report, driver = scene.play(
        {"a": edits, "b": writes(b__txt="good\n")}, items, settings=one_at_a_time(scene)
    )
    assert (report["shipped"], len(driver.requests)) == (["a", "b"], 2)
    assert named in report["shipped_repos"][0]["warning"]
    notes = built(report)["a"]["attempts"][0]["notes"]
    assert notes[0].startswith("not held against it: changed in your checkout meanwhile")
    assert named in notes[0]


@on_scene
def test_who_writes_its_work_into_the_users_checkout_is_refused(scene: Scene) -> None:
    strays = a_good(then=lambda: scene.repo.write({"a.txt": "good\n"}))
    report, _ = scene.play({"a": strays}, [item("a", "a.txt", A_GOOD, repairCap=0)])
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"]) == ("refused", [])
    assert record["error"].endswith(
        "only this item was at work: file a.txt; file a.txt: as in its work"
    )


@pytest.mark.more
@on_scene
def test_who_worked_in_the_users_checkout_in_place_of_its_own_is_told_so(scene: Scene) -> None:
    def lost(agent: Agent) -> None:
        scene.repo.write({"a.txt": "good\n"})

    rounds = [lost, writes(a__txt="good\n")]
    report, driver = scene.play({"a": rounds}, [item("a", "a.txt", A_GOOD, repairCap=1)])
    first, last = built(report)["a"]["attempts"]
    assert (first["verdict"], last["verdict"]) == ("no_change", "verified")
    assert "(at work: a): file a.txt" in driver.rounds_of("a")[1].prompt


def one_at_a_time(scene: Scene) -> Settings:
    limits = dataclasses.replace(scene.settings.limits, max_workers=1)
    return dataclasses.replace(scene.settings, limits=limits)


@pytest.mark.more
@pytest.mark.parametrize("name", GRAVE)
@on_scene
def test_what_can_run_a_program_later_keeps_the_item_back_and_charges_nobody(
    scene: Scene, name: str
) -> None:
    act, named = GRAVE[name]
    strays = a_good(then=lambda: act(scene.repo))
    report, driver = scene.play({"a": strays}, [item("a", "a.txt", A_GOOD, repairCap=3)])
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    assert named in built(report)["a"]["error"]
    assert len(driver.rounds_of("a")) == 1


@pytest.mark.more
@on_scene
def test_a_test_that_writes_in_the_users_checkout_is_refused(scene: Scene) -> None:
    agent = writes(a__txt=f"echo stray > {scene.repo.path}/c.txt\n")
    report, _ = scene.play({"a": agent}, [item("a", "a.txt", "sh a.txt", repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "file c.txt: a.txt of its work names your checkout" in built(report)["a"]["error"]


class Together:
    """Two agents that are both at work while the first of them, or the user, does something."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._both = threading.Barrier(2)

    def first(self, agent: Agent) -> None:
        self._both.wait(PATIENCE_S)
        agent.write({"a.txt": "good\n"})
        self._act()
        self._both.wait(PATIENCE_S)

    def second(self, agent: Agent) -> None:
        self._both.wait(PATIENCE_S)
        agent.write({"b.txt": "good\n"})
        self._both.wait(PATIENCE_S)


def play_together(scene: Scene, act: Callable[[], object]) -> dict[str, Any]:
    both = Together(act)
    items = [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD, repairCap=0)]
    return scene.play({"a": both.first, "b": both.second}, items)[0]


@pytest.mark.more
@on_scene
def test_of_several_at_work_the_owner_of_the_file_is_refused(scene: Scene) -> None:
    report = play_together(scene, lambda: scene.repo.write({"a.txt": "good\n"}))
    assert verdicts(report) == {"a": "refused", "b": "verified"}
    assert report["shipped"] == ["b"]


@pytest.mark.more
@pytest.mark.parametrize("first_done", [True, False])
@on_scene
def test_what_another_agent_wrote_into_a_workspace_is_not_held_against_it(
    scene: Scene, first_done: bool
) -> None:
    """The agent of b writes its work into the workspace of a as well."""
    both = threading.Barrier(2)
    place: list[Path] = []

    def victim(agent: Agent) -> None:
        place.append(agent.folder)
        agent.write({"a.txt": "good\n"})
        both.wait(PATIENCE_S)
        both.wait(PATIENCE_S)

    def writer(agent: Agent) -> None:
        both.wait(PATIENCE_S)
        agent.write({"b.txt": "good\n"})
        (place[0] / "b.txt").write_text("good\n" if first_done else "not good yet\n")
        both.wait(PATIENCE_S)

    items = [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD, repairCap=0)]
    report, _ = scene.play({"a": victim, "b": writer}, items)
    if not first_done:  # nothing shows that it is the work of b
        assert verdicts(report) == {"a": "refused", "b": "verified"}
        return
    assert report["shipped"] == ["a", "b"]
    notes = built(report)["a"]["attempts"][0]["notes"]
    assert "left out, as another item at work wrote it here: b.txt (of b)" in notes
    assert scene.files_in(scene.log(report["branch"])[0]) == {"a.txt": "M"}


@pytest.mark.more
@on_scene
def test_an_edit_of_the_user_stops_no_ship_and_is_told(scene: Scene) -> None:
    report = play_together(scene, lambda: scene.repo.write({"c.txt": "the user's\n"}))
    assert report["shipped"] == ["a", "b"]
    [shipped] = report["shipped_repos"]
    assert "(at work: a, b): file c.txt" in shipped["warning"]
    assert (scene.repo.path / "c.txt").read_text() == "the user's\n"


@pytest.mark.more
@on_scene
def test_a_grave_change_by_one_of_several_ships_none_of_them(scene: Scene) -> None:
    report = play_together(scene, lambda: scene.repo.git("config", "core.fsmonitor", "evil"))
    assert verdicts(report) == {"a": "undecided", "b": "undecided"}
    assert report["shipped"] == []


@pytest.mark.more
@pytest.mark.parametrize(
    "act",
    [
        lambda u: u.git("update-ref", "refs/remotes/origin/main", "HEAD"),
        lambda u: u.git("tag", "fetched"),
        lambda u: u.write({"ignored": "x\n"}),
        lambda u: u.git("status"),
        lambda u: u.git("config", "branch.main.vscode-merge-base", "origin/main"),
        lambda u: u.git("config", "remote.origin.gh-resolved", "base"),
        lambda u: u.git("config", "user.email", "me@there"),
    ],
)
@on_scene
def test_what_editors_do_in_the_background_blames_nobody(
    scene: Scene, act: Callable[[Checkout], object]
) -> None:
    strays = a_good(then=lambda: act(scene.repo))
    report, _ = scene.play({"a": strays}, [item("a", "a.txt", A_GOOD, repairCap=0)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_what_tests_of_all_items_together_plant_stops_the_ship(scene: Scene) -> None:
    plants = f"git -C {scene.repo.path} config core.fsmonitor evil"
    only_together = f"! grep -q good a.txt || ! grep -q good b.txt || {plants}\n"
    files = {"t.sh": only_together}
    scene.repo.commit(files)
    items = [item("a", "a.txt", ["sh", "t.sh"]), item("b", "b.txt", ["sh", "t.sh"])]
    agents = {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}
    report, _ = scene.play(agents, items)
    assert report["shipped"] == []
    assert report["shipped_repos"][0]["error"] == "checkout_changed"


@pytest.mark.more
@on_scene
def test_a_planted_program_never_runs_when_the_checkout_is_moved_ahead(scene: Scene) -> None:
    """In the mode that moves the user's own checkout, its git dir has to be the user's."""
    poison = lambda: scene.repo.git("config", "filter.x.smudge", "evil")  # noqa: E731
    strays, fine = a_good(then=poison), writes(b__txt="good\n")
    items = [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD)]
    here = {"expectTopLevel": str(scene.repo.path)}
    report, _ = scene.play({"a": strays, "b": fine}, items, git=here, settings=one_at_a_time(scene))
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided", "b": "verified"}, [])
    assert "may run programs: config filter.x.smudge" in built(report)["b"]["ship_error"]


@pytest.mark.more
@beside
def test_what_is_copied_into_proving_trees_may_not_change_meanwhile(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[workspace]\ncopy = ["ignored"]\n')
    scene.repo.write({"ignored": "needed by tests\n"})
    strays = a_good(then=lambda: scene.repo.write({"ignored": "forged\n"}))
    report, _ = scene.play({"a": strays}, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == []
    assert "[workspace] copy" in built(report)["a"]["ship_error"]


@pytest.mark.more
@pytest.mark.parametrize("gone", [False, True])
@on_scene
def test_an_altered_journal_keeps_its_item_back(scene: Scene, gone: bool) -> None:
    entry = scene.state / "journal" / "a.json"

    def forge() -> None:
        entry.unlink()
        if not gone:
            entry.write_text('{"slug": "a", "phase": "verified", "verified": true}')

    report, _ = scene.play({"a": a_good(then=forge)}, [item("a", "a.txt", A_GOOD)])
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    words = "the journal of this run changed while only this item was at work: state journal/a.json"
    assert words in built(report)["a"]["error"]


@pytest.mark.more
@pytest.mark.parametrize("hidden", [False, True])
@on_scene
def test_an_altered_journal_entry_of_another_item_is_put_back_and_holds_up_nobody(
    scene: Scene, hidden: bool
) -> None:
    """Of several at work nobody can tell the offender, and the journal is whole again."""
    entry = scene.state / "journal" / "b.json"

    def alter() -> None:
        before, text = entry.stat(), entry.read_text(encoding="utf-8")
        entry.write_text(text.replace('"slug": "b"', '"slug": "z"') if hidden else "{}")
        if hidden:  # of the same size, and with the time that it had
            os.utime(entry, ns=(before.st_atime_ns, before.st_mtime_ns))

    report = play_together(scene, alter)
    assert verdicts(report) == {"a": "verified", "b": "verified"}
    assert report["shipped"] == ["a", "b"]
    warning = report["shipped_repos"][0]["warning"]
    assert "changed in the journal of this run meanwhile (at work: a, b): state journal/b.json" in (
        warning
    )
    assert "checkout" not in warning
    assert json.loads(entry.read_text(encoding="utf-8"))["slug"] == "b"
