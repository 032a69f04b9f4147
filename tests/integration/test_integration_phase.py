"""Verified items together: who breaks whom, the commands on the last tree, a branch that moved."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside, beside_on
from tests.support.interpreter import IN_SHELL
from tests.support.repos import Checkout
from tests.support.waves import Agent, Scene, Step, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
EIGHT = "abcdefgh"
NONE_BESIDE_B = """
import os, unittest

class T(unittest.TestCase):
    def test(self): pass

def load_tests(loader, tests, pattern):
    return unittest.TestSuite() if os.path.exists("b.txt") else tests
"""


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, {"base.txt": "base\n"})))


on_pushing = beside_on(
    lambda folder: nullcontext(
        Scene(folder, {"base.txt": "base\n", ".gitignore": "made\n"}, remote=True)
    )
)


def configured(tmp_path: Path, config: str, **more: Any) -> Scene:
    return Scene(tmp_path, {"base.txt": "base\n"}, config=config, **more)


def wave_of(
    scene: Scene, tests: dict[str, Any], steps: dict[str, Step] | None = None, **more: Any
) -> dict[str, Any]:
    """A wave of items that each add `<slug>.txt`, in this order, with these tests."""
    scripts = {slug: writes(**{f"{slug}__txt": "x\n"}) for slug in tests} | (steps or {})
    items = [item(slug, f"{slug}.txt", test) for slug, test in tests.items()]
    report, _ = scene.play(scripts, items, **more)
    return report


def dislikes(slug: str, other: str) -> str:
    """A test of `slug` that is red beside `other`."""
    return f"test -e {slug}.txt -a ! -e {other}.txt"


def integration(report: dict[str, Any]) -> dict[str, Any]:
    [repo] = report["shipped_repos"]
    found = repo["integration"]
    assert all(receipt["purpose"] == "integration" for receipt in found["receipts"])
    return dict(found)


def subjects(scene: Scene, report: dict[str, Any]) -> list[str]:
    return [scene.repo.git("show", "-s", "--format=%s", c) for c in scene.log(report["branch"])]


# Who breaks whom


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("victim", "culprit"), [("a", "b"), ("b", "a")])
@on_scene
def test_of_two_that_break_together_the_first_ships_and_the_report_says_who_breaks_what(
    scene: Scene, victim: str, culprit: str
) -> None:
    tests = {slug: f"test -e {slug}.txt" for slug in "abc"}
    tests[victim] = dislikes(victim, culprit)
    report = wave_of(scene, tests)
    assert (report["shipped"], report["exit_code"]) == (["a", "c"], 1)
    assert subjects(scene, report) == ["a", "c"]
    record = built(report)["b"]
    assert (record["verdict"], record["commit"]) == ("failed", None)
    assert f"{culprit} breaks {victim}'s test `{tests[victim]}`: test failed" in record["error"]
    assert "+x" in Path(record["savedWork"]).read_text()
    [red] = record["together"]
    assert (red["kind"], red["command"]) == ("red", tests[victim])


@pytest.mark.more
@on_scene
def test_of_eight_items_with_two_guilty_pairs_the_innocent_six_ship_within_twelve_runs(
    scene: Scene,
) -> None:
    tests = {slug: f"test -e {slug}.txt" for slug in EIGHT}
    tests |= {"b": dislikes("b", "g"), "f": dislikes("f", "d")}
    report = wave_of(scene, tests)
    assert report["shipped"] == ["a", "b", "c", "d", "e", "h"]
    errors = {slug: record["error"] for slug, record in built(report).items() if record["error"]}
    assert "g breaks b's test" in errors["g"]
    assert "d breaks f's test" in errors["f"]
    found = integration(report)
    assert 6 < found["runs"] <= 12
    for commit in scene.log(report["branch"]):
        tree = scene.repo.git("rev-parse", f"{commit}^{{tree}}")
        assert scene.trailers(commit)["Proved-Tree"] == tree


@on_scene
def test_each_commit_s_tree_was_proven_with_its_own_test_and_the_last_with_all(
    scene: Scene,
) -> None:
    report = wave_of(scene, {slug: f"test -e {slug}.txt" for slug in "abcd"})
    trees = [scene.repo.git("rev-parse", f"{c}^{{tree}}") for c in scene.log(report["branch"])]
    for slug, tree in zip("abcd", trees, strict=True):
        receipts = built(report)[slug]["together"]
        assert [r["tree"] for r in receipts] == [*dict.fromkeys((tree, trees[-1]))]
        assert {r["exit"] for r in receipts} == {0}
    assert integration(report)["runs"] == 3  # two commits in between, and the last


@pytest.mark.more
@on_scene
def test_one_that_breaks_everybody_goes_alone_although_it_comes_first(scene: Scene) -> None:
    report = wave_of(
        scene, {"a": "test -e a.txt"} | {slug: dislikes(slug, "a") for slug in "bcdef"}
    )
    assert report["shipped"] == ["b", "c", "d", "e", "f"]
    assert "a breaks " in built(report)["a"]["error"]


@pytest.mark.more
@on_scene
def test_a_command_that_all_items_have_blames_only_those_that_break_it(scene: Scene) -> None:
    report = wave_of(scene, dict.fromkeys("abcdef", "test ! -e b.txt -o ! -e e.txt"))
    assert report["shipped"] == ["a", "b", "c", "d", "f"]
    assert "together with b: e breaks b's test" in built(report)["e"]["error"]


@pytest.mark.more
@beside
def test_a_run_in_which_no_test_ran_is_not_green_together_either(folder: Path) -> None:
    scene = Scene(folder, {"suite/test_t.py": NONE_BESIDE_B})
    suite = f"{IN_SHELL} -m unittest discover -s suite"
    report = wave_of(scene, {"a": suite, "b": "test -e b.txt"})
    assert report["shipped"] == ["a"]
    assert f"b breaks a's test `{suite}`: " in built(report)["b"]["error"]


# The commands of [verify] integration


@pytest.mark.more
@beside
def test_a_command_for_all_is_run_on_the_last_tree_and_who_breaks_it_stays_out(
    folder: Path,
) -> None:
    scene = configured(folder, "[verify]\nintegration = ['test ! -e b.txt', ['ls', 'a.txt']]\n")
    report = wave_of(scene, {slug: f"test -e {slug}.txt" for slug in "abc"})
    assert report["shipped"] == ["a", "c"]
    assert "b breaks the integration command `test ! -e b.txt`" in built(report)["b"]["error"]
    tip = scene.repo.git("rev-parse", f"{report['sha']}^{{tree}}")
    ran = {r["command"] for r in integration(report)["receipts"] if r["tree"] == tip}
    assert ran >= {"test ! -e b.txt", "ls a.txt"}


@pytest.mark.more
@beside
def test_a_single_item_meets_the_commands_for_all_too(folder: Path) -> None:
    scene = configured(folder, "[verify]\nintegration = ['false']\n")
    report = wave_of(scene, {"a": "test -e a.txt"})
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert report["shipped_repos"][0]["error"] == "nothing_green_together"


@pytest.mark.more
@pytest.mark.parametrize("command", ["test -e nowhere.txt", "no-such-program"])
@beside
def test_a_command_that_is_no_item_s_fault_costs_nobody_an_attempt(
    folder: Path, command: str
) -> None:
    scene = configured(folder, f"[verify]\nintegration = ['{command}']\n")
    report = wave_of(scene, {slug: f"test -e {slug}.txt" for slug in "ab"})
    assert report["shipped"] == []
    assert verdicts(report) == {"a": "undecided", "b": "undecided"}
    assert command in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_a_command_for_all_that_could_hide_red_is_refused_at_the_start(folder: Path) -> None:
    scene = configured(folder, "[verify]\nintegration = ['make lint || true']\n")
    report = wave_of(scene, {"a": "test -e a.txt"})
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_input", 2)
    assert "[verify] integration: `make lint || true`" in report["error"]


# Doubt


@pytest.mark.more
@on_scene
def test_a_test_that_cannot_be_run_together_leaves_its_item_undecided_and_blames_nobody(
    scene: Scene,
) -> None:
    stuck = "if test -e b.txt; then no-such-program; else test -e a.txt; fi"
    report = wave_of(scene, {"a": stuck, "b": "test -e b.txt", "c": "test -e c.txt"})
    assert report["shipped"] == ["b", "c"]
    assert verdicts(report)["a"] == "undecided"


@pytest.mark.more
@pytest.mark.parametrize("policy", ["refuse", "allow"])
@beside
def test_red_then_green_on_one_tree_is_flaky_and_shipped_only_by_policy(
    folder: Path, policy: str
) -> None:
    scene = configured(folder, f"[verify]\nflake_policy = '{policy}'\n")
    script, once = folder / "flaky.sh", folder / "once"
    script.write_text(f"test ! -e b.txt -o -e {once} || {{ touch {once}; exit 1; }}\n")
    flaky = f"sh {script}"
    report = wave_of(scene, {"a": flaky, "b": "test -e b.txt"})
    assert report["shipped"] == (["b"] if policy == "refuse" else ["a", "b"])
    assert verdicts(report)["a"] == ("flaky" if policy == "refuse" else "verified")
    kinds = [r["kind"] for r in integration(report)["receipts"] if r["command"] == flaky]
    assert kinds[:2] == ["red", "green"]
    told = built(report)["b"]["ship_warning"]
    assert ("flaky, but allowed" in told) == (policy == "allow")


# A branch that moved on meanwhile


def others(scene: Scene) -> Checkout:
    """Somebody else's clone of the remote."""
    place = scene.folder / "other"
    if not place.exists():
        assert scene.remote
        scene.repo.git("clone", "-q", str(scene.remote.path), str(place))
    return Checkout(place, scene.environ)


def advance(scene: Scene, files: dict[str, str]) -> str:
    commit = others(scene).commit(files)
    others(scene).git("push", "-q")
    return commit


def advancing(scene: Scene, files: dict[str, str], mine: dict[str, str]) -> Step:
    """An agent that does its work while somebody else pushes."""

    def act(agent: Agent) -> None:
        advance(scene, files)
        agent.write(mine)

    return act


def head_of(scene: Scene) -> str:
    assert scene.remote
    return scene.remote.git("rev-parse", "main")


@pytest.mark.more
@pytest.mark.parametrize("mode", ["branch", "current"])
@on_pushing
def test_items_are_proven_again_on_a_branch_that_moved_on_and_ship_there(
    pushing: Scene, mode: str
) -> None:
    steps = {"a": advancing(pushing, {"theirs.txt": "t\n"}, {"a.txt": "x\n"})}
    git = {"expectTopLevel": str(pushing.repo.path), "mode": mode}
    base = pushing.repo.git("rev-parse", "HEAD")
    report = wave_of(pushing, {s: f"test -e {s}.txt" for s in "ab"}, steps, git=git)
    assert (report["shipped"], report["exit_code"]) == (["a", "b"], 0)
    assert pushing.remote
    line = pushing.remote.git("rev-list", "--reverse", f"{base}..{report['branch']}").split()
    theirs = others(pushing).git("rev-parse", "HEAD")
    assert line[0] == theirs == report["shipped_repos"][0]["onto"]
    assert [pushing.files_in(commit) for commit in line] == [
        {"theirs.txt": "A"},
        {"a.txt": "A"},
        {"b.txt": "A"},
    ]
    for commit in line[1:]:
        tree = pushing.repo.git("rev-parse", f"{commit}^{{tree}}")
        assert pushing.trailers(commit)["Proved-Tree"] == tree
    tip = pushing.repo.git("rev-parse", f"{line[-1]}^{{tree}}")
    proven = {r["command"] for r in integration(report)["receipts"] if r["tree"] == tip}
    assert proven == {"test -e a.txt", "test -e b.txt"}
    assert (pushing.repo.path / "theirs.txt").exists() == (mode == "current")


@pytest.mark.more
@on_pushing
def test_who_changed_what_others_changed_meanwhile_starts_anew_and_the_rest_ships(
    pushing: Scene,
) -> None:
    steps = {"a": advancing(pushing, {"a.txt": "theirs\n"}, {"a.txt": "mine\n"})}
    report = wave_of(pushing, {s: f"test -e {s}.txt" for s in "ab"}, steps)
    assert report["shipped"] == ["b"]
    record = built(report)["a"]
    assert record["verdict"] == "undecided"
    assert "main moved on meanwhile" in record["error"]
    assert "a.txt" in record["error"]


@pytest.mark.more
@on_pushing
def test_work_that_came_from_elsewhere_meanwhile_makes_no_empty_commit(pushing: Scene) -> None:
    steps = {"a": advancing(pushing, {"a.txt": "same\n"}, {"a.txt": "same\n"})}
    report = wave_of(pushing, {s: f"test -e {s}.txt" for s in "ab"}, steps)
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "undecided")
    assert "has these very changes already" in built(report)["a"]["error"]


@pytest.mark.more
@on_pushing
def test_who_is_red_on_what_came_meanwhile_is_left_out_and_pays_no_attempt(
    pushing: Scene,
) -> None:
    steps = {"a": advancing(pushing, {"theirs.txt": "t\n"}, {"a.txt": "x\n"})}
    report = wave_of(pushing, {"a": dislikes("a", "theirs"), "b": "test -e b.txt"}, steps)
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "undecided")
    assert "not on the target branch" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_places_are_set_up_again_on_the_branch_that_moved_on(folder: Path) -> None:
    files = {"base.txt": "base\n", ".gitignore": "made\n"}
    config = "[workspace]\nsetup = ['cp base.txt made']\n"
    scene = Scene(folder, files, remote=True, config=config)
    steps = {"a": advancing(scene, {"base.txt": "newer\n"}, {"a.txt": "x\n"})}
    report = wave_of(scene, {"a": "cmp base.txt made"}, steps)
    assert (report["shipped"], built(report)["a"]["error"]) == (["a"], None)


@pytest.mark.more
@on_pushing
def test_a_branch_that_moves_on_while_items_are_proven_together_is_followed_once(
    pushing: Scene,
) -> None:
    tests = {"a": f"test -e a.txt && {push_when(pushing, 'b.txt', limit=1)}", "b": "test -e b.txt"}
    report = wave_of(pushing, tests)
    assert report["shipped"] == ["a", "b"]
    assert report["shipped_repos"][0]["onto"] == head_of(pushing)
    assert pushing.files_in(head_of(pushing)) == {"pushed-1": "A"}


@pytest.mark.more
@on_pushing
def test_a_branch_that_moves_on_twice_stops_the_ship_clearly_and_keeps_the_work(
    pushing: Scene,
) -> None:
    tests = {"a": f"test -e a.txt && {push_when(pushing, 'b.txt', limit=9)}", "b": "test -e b.txt"}
    report = wave_of(pushing, tests)
    [repo] = report["shipped_repos"]
    assert (report["shipped"], repo["error"], report["exit_code"]) == ([], "target_advanced", 1)
    assert "moved on twice" in repo["error_detail"]
    assert set(verdicts(report).values()) == {"verified"}
    assert all(Path(record["savedWork"]).exists() for record in report["built"])
    assert pushing.repo.git("rev-parse", report["branch"]) == report["sha"] == repo["sha"]
    assert pushing.remote
    assert pushing.remote.git("branch", "--list", "--format=%(refname:short)") == "main"


def push_when(scene: Scene, present: str, *, limit: int) -> str:
    """A piece of a test that, where `present` is there, pushes one commit, `limit` times at most,
    and once a tree."""
    clone = others(scene).path
    script = scene.folder / "push.sh"
    script.write_text(
        f"test -e {present} || exit 0\n"
        "seen=$(ls | cksum | tr -d ' ')\n"
        f"cd {clone}\n"
        "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE\n"
        f"test -e .git/$seen && exit 0\n"
        f"touch .git/$seen\n"
        "n=$(($(ls | grep -c pushed) + 1))\n"
        f"test $n -le {limit} || exit 0\n"
        "touch pushed-$n && git add pushed-$n\n"
        "git -c user.name=o -c user.email=o@localhost commit -qm pushed && git push -q\n"
    )
    return f"sh {script}"


@pytest.mark.more
@on_pushing
def test_a_remote_that_cannot_be_asked_is_told_and_does_not_stop_the_wave_from_proving(
    pushing: Scene,
) -> None:
    def act(agent: Agent) -> None:
        assert pushing.remote
        pushing.remote.path.rename(pushing.folder / "moved.git")
        agent.write({"a.txt": "x\n"})

    report = wave_of(pushing, {"a": "test -e a.txt"}, {"a": act})
    assert "Tidegate could not check if main moved on" in pushing.said.getvalue()
    assert report["shipped_repos"][0]["error"] == "git_push_failed"


@pytest.mark.more
@on_pushing
def test_without_a_branch_there_is_nothing_to_follow(pushing: Scene) -> None:
    pushing.repo.git("checkout", "-q", "--detach")
    base = pushing.repo.git("rev-parse", "HEAD")
    steps = {"a": advancing(pushing, {"theirs.txt": "t\n"}, {"a.txt": "x\n"})}
    report = wave_of(pushing, {"a": "test -e a.txt"}, steps)
    assert (report["shipped"], report["shipped_repos"][0]["onto"]) == (["a"], base)


@pytest.mark.more
@on_pushing
def test_commits_that_are_not_pushed_yet_are_no_reason_to_go_back(pushing: Scene) -> None:
    mine = pushing.repo.commit({"mine.txt": "m\n"})
    report = wave_of(pushing, {"a": "test -e a.txt"})
    assert (report["shipped"], report["shipped_repos"][0]["onto"]) == (["a"], mine)


@pytest.mark.more
@on_pushing
def test_histories_that_went_apart_are_told(pushing: Scene) -> None:
    mine = pushing.repo.commit({"mine.txt": "m\n"})
    steps = {"a": advancing(pushing, {"theirs.txt": "t\n"}, {"a.txt": "x\n"})}
    report = wave_of(pushing, {"a": "test -e a.txt"}, steps)
    assert (report["shipped"], report["shipped_repos"][0]["onto"]) == (["a"], mine)
    assert "have diverged" in built(report)["a"]["ship_warning"]
