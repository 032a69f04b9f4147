"""Whole waves through `run_wave`: real repositories, real tests, agents that are functions."""

from __future__ import annotations

import copy
import dataclasses
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    AgentDriver,
    CommandResult,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.backends.command import CommandDriver
from driver.backends.recording import RecordingWriter
from driver.backends.replay import ReplayDriver
from driver.execution.cancellation import CancellationToken
from driver.wave_loop import run_wave
from tests.support import warm
from tests.support.beside import beside, beside_on
from tests.support.interpreter import IN_SHELL, PYTHON
from tests.support.processes import eventually
from tests.support.repos import frozen, make_repo
from tests.support.waves import (
    PATIENCE_S,
    Agent,
    Scene,
    ScriptedDriver,
    Step,
    built,
    item,
    verdicts,
    writes,
)
from tools import halt
from tools.settings.load import Settings
from tools.settings.schema import LimitsSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "c.txt": "base\n", "run.sh": "exit 0\n"}
A_GOOD, B_GOOD = "grep -q good a.txt", "grep -q good b.txt"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES)


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


def _one_at_a_time(scene: Scene) -> Settings:
    return dataclasses.replace(scene.settings, limits=LimitsSettings(max_workers=1))


# The way of an item that does what it should


@on_scene
def test_a_verified_item_is_one_commit_whose_trailers_say_what_was_proven(scene: Scene) -> None:
    title = "Make a good"
    report, driver = scene.play(
        {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n", new__txt="new\n")},
        [
            item("a", "a.txt", A_GOOD, id="ID-7", title=title),
            item("b", ["b.txt", "new.txt"], ["grep", "-q", "good", "b.txt"]),
        ],
    )
    assert (report["exit_code"], report["aborted"]) == (0, False)
    assert report["shipped"] == ["a", "b"]
    commits = scene.log(report["branch"])
    assert [scene.files_in(c) for c in commits] == [{"a.txt": "M"}, {"b.txt": "M", "new.txt": "A"}]
    assert scene.repo.git("show", "-s", "--format=%s", commits[0]) == title
    assert scene.repo.git("show", "-s", "--format=%s", commits[1]) == "b"
    for commit, (slug, item_id, test) in zip(
        commits, [("a", "ID-7", A_GOOD), ("b", "b", "grep -q good b.txt")], strict=True
    ):
        trailers = scene.trailers(commit)
        assert trailers.pop("State-Anchor").startswith("wave:w1@9:")
        assert len(trailers.pop("Item-Task")) == 16
        assert trailers.pop("Evidence") == "C"  # the exit code alone is known of grep
        assert trailers == {
            "Wave-Id": "w1",
            "Item-Id": item_id,
            "Item-Slug": slug,
            "Test-Command": test,
            "Proved-Tree": scene.repo.git("rev-parse", f"{commit}^{{tree}}"),
        }
    assert built(report)["b"]["commit"] == commits[1] == report["sha"]
    assert report["tokens"]["totalIn"] == 140
    assert len(driver.requests) == 2


@on_scene
def test_every_tree_that_is_committed_was_tested_with_its_item(scene: Scene) -> None:
    proven = scene.folder / "proven"
    names = ("a.txt", "b.txt", "c.txt")
    note = f"paste -d ' ' {' '.join(names)} >> {proven}-$0 && grep -q good $0.txt"
    report, _ = scene.play(
        {slug: writes(**{f"{slug}__txt": "good\n"}) for slug in "abc"},
        [item(slug, f"{slug}.txt", ["sh", "-c", note, slug]) for slug in "abc"],
    )
    shipped = [
        " ".join(scene.repo.git("show", f"{commit}:{name}") for name in names)
        for commit in scene.log(report["branch"])
    ]
    assert shipped == ["good base base", "good good base", "good good good"]
    seen = {slug: Path(f"{proven}-{slug}").read_text().splitlines() for slug in "abc"}
    assert [shipped[n] in seen[slug] for n, slug in enumerate("abc")] == [True] * 3
    assert all(shipped[-1] in trees for trees in seen.values())
    assert all(trees.pop(trees.index("base base base")) for trees in seen.values())
    assert [len(trees) for trees in seen.values()] == [2, 3, 2]


@on_scene
def test_a_red_item_is_repaired_with_all_that_is_known_of_its_failure(scene: Scene) -> None:
    command = "cat a.txt && echo to-stderr >&2 && grep -q good a.txt"
    report, driver = scene.play(
        {"a": [writes(a__txt="halfway\n"), writes(a__txt="good\n")]}, [item("a", "a.txt", command)]
    )
    assert report["shipped"] == ["a"]
    assert (report["repairsUsed"], built(report)["a"]["repairs"]) == (1, 1)
    assert [a["phase"] for a in built(report)["a"]["attempts"]] == ["build", "repair"]
    first, second = driver.rounds_of("a")
    assert first.workdir == second.workdir
    assert second.environment["TIDEGATE_PHASE"] == "repair"
    assert second.prompt.startswith(first.prompt.rstrip())
    for told in (command, "exit code 1", "halfway\nto-stderr", "-base\n+halfway"):
        assert told in second.prompt


@pytest.mark.more
@on_scene
def test_a_repair_starts_while_others_build_and_delays_none(scene: Scene) -> None:
    repairing = threading.Barrier(2)
    repaired = threading.Event()

    def slow(agent: Agent) -> None:
        assert repaired.wait(PATIENCE_S)
        agent.write({"c.txt": "good\n"})

    def good(name: str) -> Step:
        def act(agent: Agent) -> None:
            repairing.wait(PATIENCE_S)
            repaired.set()
            agent.write({name: "good\n"})

        return act

    report, _ = scene.play(
        {
            "a": [writes(a__txt="bad\n"), good("a.txt")],
            "b": [writes(b__txt="bad\n"), good("b.txt")],
            "c": slow,
        },
        [
            item("a", "a.txt", A_GOOD),
            item("b", "b.txt", B_GOOD),
            item("c", "c.txt", "grep -q good c.txt"),
        ],
    )
    assert report["shipped"] == ["a", "b", "c"]


@pytest.mark.more
@on_scene
def test_a_repair_round_stays_in_its_slot(scene: Scene) -> None:
    order: list[str] = []

    def noted(text: str, name: str) -> Step:
        def act(agent: Agent) -> None:
            order.append(agent.request.environment["TIDEGATE_ITEM"])
            agent.write({name: text})

        return act

    report, _ = scene.play(
        {
            "a": [noted("bad\n", "a.txt"), noted("good\n", "a.txt")],
            "b": noted("good\n", "b.txt"),
        },
        [item("a", "a.txt", A_GOOD), item("b", "b.txt", B_GOOD)],
        settings=_one_at_a_time(scene),
    )
    assert order == ["a", "a", "b"]
    assert report["exit_code"] == 0


@beside
def test_eight_items_run_at_once_and_none_is_in_the_way_of_another(folder: Path) -> None:
    slugs = [f"i{number}" for number in range(8)]
    scene = Scene(folder, {f"{slug}.txt": "base\n" for slug in slugs})
    together = threading.Barrier(8)

    def works(agent: Agent) -> None:
        together.wait(PATIENCE_S)
        agent.write({f"{agent.request.environment['TIDEGATE_ITEM']}.txt": "good\n"})

    items = [item(slug, f"{slug}.txt", f"grep -q good {slug}.txt") for slug in slugs]
    report, _ = scene.play(dict.fromkeys(slugs, works), items)
    assert report["shipped"] == slugs
    assert len(scene.log(report["branch"])) == 8


@pytest.mark.more
@beside
def test_one_item_s_syntax_error_touches_nobody_else(folder: Path) -> None:
    scene = Scene(folder, {"pkg/__init__.py": "", "pkg/a.py": "", "pkg/b.py": "", "t.py": ""})
    check = "import pkgutil, importlib, pkg\nfor m in pkgutil.iter_modules(pkg.__path__):"
    check += "\n    importlib.import_module('pkg.' + m.name)\n"
    scene.repo.commit({"t.py": check})
    test = f"{IN_SHELL} t.py"
    report, _ = scene.play(
        {
            "bad": [lambda agent: agent.write({"pkg/a.py": "def f(:\n"})] * 2,
            "good": lambda agent: agent.write({"pkg/b.py": "x = 1\n"}),
        },
        [item("bad", "pkg/a.py", test), item("good", "pkg/b.py", test)],
    )
    assert report["exit_code"] == 1
    assert verdicts(report) == {"bad": "failed", "good": "verified"}
    assert report["shipped"] == ["good"]
    assert [scene.files_in(c) for c in scene.log(report["branch"])] == [{"pkg/b.py": "M"}]
    patch = Path(built(report)["bad"]["savedWork"]).read_text()
    assert "+def f(:" in patch
    output = Path(built(report)["bad"]["attempts"][0]["test"]["outputFile"])
    assert "SyntaxError" in output.with_suffix(".err").read_text()


# Work that is not the item's own


def _commits_by_itself(agent: Agent) -> None:
    agent.write({"a.txt": "good\n"})
    who = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "core.hooksPath=/dev/null")
    subprocess.run(["git", *who, "commit", "-qam", "mine"], cwd=agent.folder, check=True)


def _nests(agent: Agent) -> None:
    subprocess.run(["git", "init", "-q", "a.dir"], cwd=agent.folder, check=True)
    agent.write({"a.txt": "good\n", "a.dir/x": "x\n"})


def _links_out(agent: Agent) -> None:
    (agent.folder / "a.txt").unlink()
    (agent.folder / "a.txt").symlink_to("/etc/passwd")


def _deletes(agent: Agent) -> None:
    agent.write({"a.txt": "good\n"})
    for name in ("b.txt", "c.txt"):
        (agent.folder / name).unlink()


def _chmods(agent: Agent) -> None:
    agent.write({"a.txt": "good\n"})
    (agent.folder / "run.sh").chmod(0o755)


def _renames(agent: Agent) -> None:
    (agent.folder / "b.txt").rename(agent.folder / "d.txt")


@pytest.mark.more
@pytest.mark.parametrize(
    ("act", "named"),
    [
        (writes(a__txt="good\n", b__txt="mine\n", new__txt="x\n"), ("b.txt", "new.txt")),
        # How each change on disk is named is in tests/attacks/test_agents_git.py.
        pytest.param(_deletes, ("b.txt", "c.txt"), marks=pytest.mark.sweep),
        pytest.param(_renames, ("b.txt", "d.txt"), marks=pytest.mark.sweep),
        pytest.param(_chmods, ("run.sh",), marks=pytest.mark.sweep),
        (_nests, ("nested", "a.dir")),
        (_links_out, ("links that leave", "a.txt")),
    ],
)
@on_scene
def test_foreign_work_is_refused_every_path_named_and_nothing_ships(
    scene: Scene, act: Step, named: tuple[str, ...]
) -> None:
    owned = ["a.txt", "a.dir"] if act is _nests else "a.txt"
    report, driver = scene.play({"a": [act, act]}, [item("a", owned, "true")])
    record = built(report)["a"]
    assert (record["verdict"], report["exit_code"]) == ("refused", 1)
    assert all(name in record["error"] for name in named)
    assert all(name in driver.rounds_of("a")[1].prompt for name in named)
    assert (report["shipped"], report["branch"]) == ([], None)
    assert scene.repo.git("branch", "--list", "--format=%(refname:short)") == "main"
    assert record["attempts"][0]["test"] is None


@pytest.mark.more
@on_scene
def test_what_an_agent_committed_by_itself_ships_as_a_commit_of_ours(scene: Scene) -> None:
    report, _ = scene.play({"a": _commits_by_itself}, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]
    [commit] = scene.log(report["branch"])
    assert scene.repo.git("show", "-s", "--format=%s", commit) == "a"


@pytest.mark.more
@on_scene
def test_an_agent_that_changed_nothing_has_no_green_whatever_it_says(scene: Scene) -> None:
    boast = WorkerResult("w", ok=True, text="ALL PASSED", verified=True, files_written=("a.txt",))
    report, driver = scene.play(
        {"a": [lambda agent: copy.copy(boast)] * 2}, [item("a", "a.txt", A_GOOD)]
    )
    record = built(report)["a"]
    assert (record["verdict"], record["filesWritten"]) == ("no_change", [])
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert len(driver.requests) == 2


# Items together


@pytest.mark.more
@beside
def test_two_items_green_alone_and_red_together_ship_one_and_say_why(folder: Path) -> None:
    scene = Scene(folder, {"a.txt": "old\n", "b.txt": "old\n"})
    test = "grep -q old a.txt b.txt"
    report, _ = scene.play(
        {"a": writes(a__txt="new\n"), "b": writes(b__txt="new\n"), "c": writes(c__txt="c\n")},
        [item("a", "a.txt", test), item("b", "b.txt", test), item("c", "c.txt", "test -e c.txt")],
    )
    assert report["shipped"] == ["a", "c"]
    assert report["exit_code"] == 1
    assert [*map(scene.files_in, scene.log(report["branch"]))] == [{"a.txt": "M"}, {"c.txt": "A"}]
    left_out = built(report)["b"]
    assert (left_out["verdict"], left_out["verified"]) == ("failed", False)
    assert "green alone, but together with a" in left_out["error"]
    assert "new" in Path(left_out["savedWork"]).read_text()


# What counts as green


NOT_GREEN = {
    "a": ("sed -i s/good/bad/ a.txt", "changed tracked files: a.txt"),
    "d": ("cp d.txt b.txt", "changed tracked files: b.txt"),
    "e": ("test -e e.txt && rm run.sh", "changed tracked files: run.sh"),
    "f": ("false | tail -1", "exit 1"),
    "g": ("kill -SEGV $$", "killed by SIGSEGV"),
    "h": ("exit 3", "exit 3"),
}


@pytest.mark.more
@on_scene
def test_only_exit_code_0_on_an_unchanged_tree_is_green(scene: Scene) -> None:
    report, _ = scene.play(
        {slug: writes(**{f"{slug}__txt": "good\n"}) for slug in NOT_GREEN},
        [item(s, f"{s}.txt", test, repairCap=0) for s, (test, _) in NOT_GREEN.items()],
    )
    records = built(report)
    for slug, (_, why) in NOT_GREEN.items():
        record = records.pop(slug)
        assert (record["verdict"], record["verified"]) == ("failed", False), slug
        assert why in record["error"]
    assert (records, report["shipped"]) == ({}, [])


@pytest.mark.more
@pytest.mark.parametrize(
    "test", ["echo more >> b.txt", "rm run.sh", "echo >> b.txt; test -e a.txt"]
)
@on_scene
def test_tracked_files_that_the_test_changes_on_the_base_as_well_cost_nothing(
    scene: Scene, test: str
) -> None:
    report, driver = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", test, repairCap=2)]
    )
    record = built(report)["a"]
    assert (record["verdict"], record["waitsForPerson"]) == ("undecided", True)
    assert "on the base as well" in record["error"]
    assert len(driver.requests) == 1


@pytest.mark.more
@on_scene
def test_a_test_that_someone_killed_costs_no_repair_round(scene: Scene) -> None:
    report, driver = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", "kill -9 $$", repairCap=2)]
    )
    record = built(report)["a"]
    assert (record["verdict"], record["verified"], len(driver.requests)) == ("undecided", False, 1)
    assert record["attempts"][0]["test"]["kind"] == "killed"
    assert "SIGKILL" in record["error"]


@pytest.mark.more
@on_scene
def test_a_test_that_cannot_be_run_costs_no_repair_round(scene: Scene) -> None:
    tests = {"a": "true && no-such-program", "d": ["env", "no-such-program"], "e": "./run.sh"}
    report, driver = scene.play(
        {slug: writes(**{f"{slug}__txt": "good\n"}) for slug in tests},
        [item(slug, f"{slug}.txt", test) for slug, test in tests.items()],
    )
    for record in built(report).values():
        assert (record["verdict"], record["repairs"]) == ("undecided", 0)
        assert "could not be run" in record["error"]
        assert "+good" in Path(record["savedWork"]).read_text()
    assert (len(driver.requests), report["exit_code"]) == (len(tests), 1)


@pytest.mark.more
@on_scene
def test_a_program_that_is_not_there_is_told_before_an_agent_is_paid(scene: Scene) -> None:
    tests = {"a": "no-such-program", "d": ["no-such-program"], "e": "./no-such.sh"}
    report, driver = scene.play({}, [item(s, f"{s}.txt", test) for s, test in tests.items()])
    for record in built(report).values():
        assert (record["verdict"], record["repairs"]) == ("undecided", 0)
        assert "could not be run" in record["error"]
    assert (len(driver.requests), report["exit_code"]) == (0, 1)


@pytest.mark.more
@on_scene
def test_a_test_may_ask_git_for_what_is_to_be_committed(scene: Scene) -> None:
    test = "git diff --cached --check && git show :a.txt && git write-tree"
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", test, repairCap=0)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@beside
def test_a_test_that_hangs_is_timed_out_and_red(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[verify]\ntimeout_s = 0.3\n")
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", "sleep 60", repairCap=0)]
    )
    record = built(report)["a"]
    assert (record["verdict"], record["testExit"]) == ("failed", None)
    assert "timed out" in record["error"]


@pytest.mark.more
@on_scene
def test_output_that_is_no_text_changes_no_verdict(scene: Scene) -> None:
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", r"printf '\377\000\033[31m'")]
    )
    assert report["shipped"] == ["a"]
    json.dumps(report)


@pytest.mark.more
@on_scene
def test_what_is_shipped_was_tested_although_a_left_behind_process_keeps_writing(
    scene: Scene,
) -> None:
    """The agent's child writes into the clone, the test's child into the proving tree."""
    writers: list[subprocess.Popen[bytes]] = []
    loop = "while :; do echo bad > a.txt; echo bad > b.txt; done 2>/dev/null"

    def leaves_a_writer(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        writer = subprocess.Popen(
            ["sh", "-c", f"read go; {loop}"], cwd=agent.folder, stdin=subprocess.PIPE
        )
        writers.append(writer)

    def starts_it(agent: Agent) -> None:
        agent.write({"c.txt": "good\n"})

    leaves_one_as_well = scene.folder / "leaves.sh"
    leaves_one_as_well.write_text(f"setsid sh -c '{loop}' >/dev/null 2>&1 &\n")
    test = f"{A_GOOD} && sh {leaves_one_as_well} && {A_GOOD}"
    try:
        report, _ = scene.play(
            {"a": [leaves_a_writer] * 2, "c": starts_it},
            [
                item("a", "a.txt", test),
                item("c", "c.txt", "grep -q good c.txt && grep -q base b.txt"),
            ],
        )
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            if writer.stdin:
                writer.stdin.close()
    assert "c" in report["shipped"]
    for commit in scene.log(report["branch"]):
        tree = scene.repo.git("rev-parse", f"{commit}^{{tree}}")
        assert scene.trailers(commit)["Proved-Tree"] == tree
        assert scene.repo.git("show", f"{commit}:b.txt") == "base"
        assert "bad" not in scene.repo.git("show", f"{commit}:a.txt")


# Agents that do not do their part


def _ends(failure: str, error: str) -> Step:
    return lambda agent: WorkerResult("", ok=False, error=error, failure=failure)


def _raises(agent: Agent) -> WorkerResult:
    raise RuntimeError("the backend broke")


ENDS_BADLY: dict[str, tuple[Step, str, int, str]] = {
    "a": (_ends(FAILURE_AGENT, "it crashed"), "failed", 2, "it crashed"),
    "d": (_ends(FAILURE_TIMED_OUT, "too slow"), "failed", 2, "too slow"),
    "e": (_ends(FAILURE_COULD_NOT_RUN, "not there"), "undecided", 1, "not there"),
    "f": (_ends("", "out-of-scope: b.txt"), "refused", 2, "b.txt"),
    "g": (_raises, "undecided", 1, "the backend broke"),
}


@pytest.mark.more
@on_scene
def test_an_agent_that_ends_badly_has_its_verdict_and_the_others_ship(scene: Scene) -> None:
    bad = {slug: [act] * 2 for slug, (act, *_) in ENDS_BADLY.items()}
    report, driver = scene.play(
        {**bad, "b": writes(b__txt="good\n")},
        [*(item(slug, f"{slug}.txt", "true") for slug in bad), item("b", "b.txt", B_GOOD)],
    )
    told = {slug: verdict for slug, (_, verdict, _, _) in ENDS_BADLY.items()}
    assert verdicts(report) == {**told, "b": "verified"}
    for slug, (_, _, rounds, why) in ENDS_BADLY.items():
        record = built(report)[slug]
        assert (record["dispatched"], len(driver.rounds_of(slug))) == (True, rounds), slug
        assert why in record["error"]
    assert (report["shipped"], report["exit_code"]) == (["b"], 1)


@pytest.mark.more
@on_scene
def test_work_of_an_agent_that_crashed_is_kept(scene: Scene) -> None:
    def crashes(agent: Agent) -> WorkerResult:
        agent.write({"a.txt": "hours of work\n"})
        return WorkerResult("", ok=False, error="crash", failure=FAILURE_AGENT)

    report, _ = scene.play({"a": crashes}, [item("a", "a.txt", "true", repairCap=0)])
    assert "+hours of work" in Path(built(report)["a"]["savedWork"]).read_text()


@pytest.mark.more
@beside
def test_a_proving_tree_that_cannot_be_set_up_is_undecided_and_keeps_the_work(
    folder: Path,
) -> None:
    setup = "case $PWD in */proving/*) echo no room >&2; exit 5;; esac"
    scene = Scene(folder, FILES, config=f"[workspace]\nsetup = ['{setup}']\n")
    report, driver = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", A_GOOD)])
    record = built(report)["a"]
    assert (record["verdict"], record["dispatched"]) == ("undecided", True)
    assert "no room" in record["error"]
    assert record["usage"]["totalTokens"] == report["tokens"]["total"] == 100
    assert "+good" in Path(record["savedWork"]).read_text()
    assert len(driver.requests) == 1


@pytest.mark.more
@beside
def test_a_workspace_that_cannot_be_set_up_dispatches_nobody(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[workspace]\nsetup = ['exit 5']\n")
    report, driver = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", A_GOOD)])
    assert (verdicts(report), built(report)["a"]["dispatched"]) == ({"a": "undecided"}, False)
    assert built(report)["a"]["error"] == "set-up command 'exit 5' failed: it ended with exit 5"
    assert driver.requests == []


# Policy


@pytest.mark.more
@pytest.mark.parametrize("tier", [2, 3, 4])
@on_scene
def test_without_a_word_of_the_reviewer_nothing_of_these_tiers_ships(
    scene: Scene, tier: int
) -> None:
    silent = [writes(a__txt="good\n"), lambda _: None]
    driver = ScriptedDriver({"a": silent}, tier=tier, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", A_GOOD)])
    assert verdicts(report) == {"a": "undecided"}
    assert "review undecided" in built(report)["a"]["error"]
    assert report["adversarial_review"] == "undecided"
    assert (report["shipped"], report["exit_code"]) == ([], 1)


@pytest.mark.more
@beside
def test_with_review_off_it_ships_and_the_report_says_off(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[review]\nmode = "off"\n')
    driver = ScriptedDriver({"a": writes(a__txt="good\n")}, tier=4, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]
    assert report["adversarial_review"] == built(report)["a"]["adversarial_review"] == "off"


@pytest.mark.more
@on_scene
def test_the_fields_of_an_item_win_over_the_table_of_its_backend(scene: Scene) -> None:
    driver = ScriptedDriver(
        {
            "a": [writes(a__txt="1\n"), writes(a__txt="2\n"), writes(a__txt="good\n")],
            "b": [writes(b__txt="good\n"), lambda _: None],
        },
        tier=4,
        environ=scene.environ,
    )
    fields = {"requireAdversarialReview": False, "repairCap": 2, "verificationTier": 3}
    report = scene.run(driver, [item("a", "a.txt", A_GOOD, **fields), item("b", "b.txt", B_GOOD)])
    assert verdicts(report) == {"a": "verified", "b": "undecided"}
    assert (built(report)["a"]["repairs"], built(report)["a"]["verificationTier"]) == (2, 3)
    assert report["policy"]["repair_cap"] == 3


@pytest.mark.more
def test_a_recording_tells_why_a_dispatch_failed_so_that_a_replay_judges_alike(
    scene: Scene, tmp_path: Path
) -> None:
    def is_down(agent: Agent) -> WorkerResult:
        return WorkerResult("", error="no network", failure=FAILURE_COULD_NOT_RUN)

    recording = RecordingWriter(tmp_path / "wave.jsonl")
    items = [item("a", "a.txt", A_GOOD)]
    lived = scene.run(
        ScriptedDriver({"a": is_down}, environ=scene.environ), items, recording=recording
    )
    replayed = scene.run(ReplayDriver(recording.path, tier=1, environ=scene.environ), items)
    assert verdicts(replayed) == verdicts(lived) == {"a": "undecided"}
    assert built(replayed)["a"]["error"] == built(lived)["a"]["error"]


@pytest.mark.more
@pytest.mark.parametrize("manifest", [[], None, "items", {"items": 3}])
@on_scene
def test_a_manifest_of_any_shape_is_answered_and_never_raises(scene: Scene, manifest: Any) -> None:
    driver = ScriptedDriver({}, environ=scene.environ)
    report = run_wave(driver, manifest, options=scene.options())
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_manifest", 2)


@pytest.mark.more
@on_scene
def test_a_callers_dicts_are_left_as_they_are(scene: Scene) -> None:
    manifest = {"items": [item("a", "a.txt", A_GOOD), item("b", ["b.txt"], [*B_GOOD.split()])]}
    git = {"expectTopLevel": str(scene.repo.path), "mode": "branch"}
    before = copy.deepcopy((manifest, git))
    run_wave(
        ScriptedDriver(
            {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}, environ=scene.environ
        ),
        manifest,
        git=git,
        options=scene.options(),
    )
    assert (manifest, git) == before


# Foreign backends


class Five(AgentDriver):
    """A backend written to the documented operations and nothing more."""

    name = "five"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def probe_capabilities(self) -> DriverCapabilities:
        return DriverCapabilities("five", recommended_verification_tier=1)

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        (Path(request.workdir) / "a.txt").write_text("good\n", encoding="utf-8")
        return WorkerResult("five-1", status="done", ok=True, tokens_spent=42)

    def worker_status(self, worker_id: str) -> WorkerStatus:
        return WorkerStatus(worker_id)

    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        self.calls.append((command, cwd, shell))
        done = subprocess.run(command, cwd=cwd, shell=isinstance(command, str), check=False)
        return CommandResult(done.returncode)

    def resolve_model(self, role: str) -> str:
        return "m"


class Duck:
    """The same without the base class, and with results of its own types."""

    def __init__(self) -> None:
        self.inner = Five()
        self.calls = self.inner.calls

    def probe_capabilities(self) -> Any:
        return SimpleNamespace(name="duck", recommended_verification_tier=1)

    def dispatch_worker(self, request: WorkerRequest) -> Any:
        self.inner.dispatch_worker(request)
        return SimpleNamespace(worker_id="duck-1", ok=True, tokens_spent=42, error=None)

    def worker_status(self, worker_id: str) -> Any:
        return SimpleNamespace(worker_id=worker_id, state="unknown")

    def run_command(self, command: Any, cwd: str | None = None, shell: bool | None = None) -> Any:
        return SimpleNamespace(exit_code=self.inner.run_command(command, cwd, shell).exit_code)

    def resolve_model(self, role: str) -> str:
        return "m"


@pytest.mark.more
@pytest.mark.parametrize("kind", [Five, Duck])
@on_scene
def test_a_backend_with_the_five_operations_only_works(
    scene: Scene, kind: Callable[[], Five | Duck]
) -> None:
    driver = kind()
    report = scene.run(driver, [item("a", "a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]
    assert report["tokens"]["total"] == 42
    assert len(driver.calls) == 2  # on the base, and with the work
    for command, cwd, shell in driver.calls:
        assert (command, shell) == (A_GOOD, None)
        assert not Path(cwd).is_relative_to(scene.repo.path)


@pytest.mark.more
@on_scene
def test_a_backend_whose_run_command_breaks_is_undecided_and_keeps_the_work(scene: Scene) -> None:
    class Broken(Five):
        def run_command(self, *args: Any, **named: Any) -> CommandResult:
            raise OSError("no shell here")

    report = scene.run(Broken(), [item("a", "a.txt", A_GOOD)])
    record = built(report)["a"]
    assert (record["verdict"], record["dispatched"], record["repairs"]) == ("undecided", True, 0)
    assert "no shell here" in record["error"]
    assert "+good" in Path(record["savedWork"]).read_text()


# A folder in no repository


@pytest.mark.more
@beside
def test_a_folder_in_no_repository_is_worked_on_in_place_and_never_shipped(folder: Path) -> None:
    scene = Scene(folder, FILES)
    plain = folder / "plain"
    plain.mkdir()
    report = run_wave(
        ScriptedDriver({"a": writes(a__txt="good\n")}, environ=scene.environ),
        {"items": [item("a", "a.txt", A_GOOD)]},
        options=scene.options(repo=plain),
    )
    record = built(report)["a"]
    assert (record["verdict"], record["isolation"]) == ("verified", "in_place")
    assert (plain / "a.txt").read_text() == "good\n"
    assert (report["exit_code"], report["shipped"], record["commit"]) == (0, None, None)


# Gates


def _halts(scene: Scene, name: str, text: str) -> Step:
    def act(agent: Agent) -> None:
        agent.write({name: text})
        halt.halt("enough", scene.state)

    return act


@pytest.mark.more
@on_scene
def test_a_halt_that_is_there_before_stops_the_wave_before_anyone_starts(scene: Scene) -> None:
    halt.halt("enough", scene.state)
    report, driver = scene.play({}, [item("a", "a.txt", "true")])
    assert (report["abort_reason"], report["exit_code"]) == ("halted", 3)
    assert (report["aborted"], report["preflight_ok"]) == (True, True)
    assert "enough" in report["error"]
    assert driver.requests == []


@pytest.mark.more
@on_scene
def test_a_halt_during_a_build_lets_no_later_agent_or_repair_start(scene: Scene) -> None:
    report, driver = scene.play(
        {"a": _halts(scene, "a.txt", "bad\n")},
        [item("a", "a.txt", A_GOOD), item("b", "b.txt", B_GOOD)],
        settings=_one_at_a_time(scene),
    )
    assert (report["abort_reason"], report["exit_code"]) == ("halted", 3)
    assert verdicts(report) == {"a": "halted", "b": "halted"}
    assert [r.environment["TIDEGATE_ITEM"] for r in driver.requests] == ["a"]
    assert built(report)["a"]["repairs"] == 0
    assert "+bad" in Path(built(report)["a"]["savedWork"]).read_text()
    assert (report["shipped"], report["branch"]) == ([], None)


@pytest.mark.more
@on_scene
def test_a_halt_during_the_last_test_ships_nothing_and_keeps_the_work(scene: Scene) -> None:
    test = f"{A_GOOD} && mkdir -p {scene.state} && echo '{{}}' > {scene.state}/.HALT"
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", test)])
    assert (report["abort_reason"], report["exit_code"]) == ("halted", 3)
    record = built(report)["a"]
    assert (record["verdict"], record["commit"]) == ("verified", None)
    assert "halted" in record["ship_error"]
    assert "+good" in Path(record["savedWork"]).read_text()
    assert report["shipped"] == []
    assert scene.repo.git("branch", "--list", "--format=%(refname:short)") == "main"


def _spends(tokens: int, step: Step) -> Step:
    def act(agent: Agent) -> WorkerResult:
        step(agent)
        return WorkerResult("", ok=True, usage=Usage(tokens, 0))

    return act


@pytest.mark.more
@beside
def test_a_ceiling_reached_in_a_build_lets_no_repair_start(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[limits]\nmax_wave_tokens = 500\n")
    report, driver = scene.play(
        {"a": _spends(500, writes(a__txt="bad\n"))}, [item("a", "a.txt", A_GOOD)]
    )
    assert report["abort_reason"] == "cost_ceiling_exceeded_in_repair"
    assert (report["exit_code"], verdicts(report)) == (3, {"a": "over_budget"})
    assert (report["ceiling"]["ceiling"], report["ceiling"]["spent"]) == (500, 500)
    assert len(driver.requests) == 1
    assert "+bad" in Path(built(report)["a"]["savedWork"]).read_text()
    assert halt.is_halted(scene.state)


@pytest.mark.more
@beside
def test_what_was_paid_for_is_shipped_also_at_the_ceiling(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[limits]\nmax_wave_tokens = 500\n")
    report, _ = scene.play(
        {"a": _spends(500, writes(a__txt="good\n"))}, [item("a", "a.txt", A_GOOD)]
    )
    assert (report["abort_reason"], report["exit_code"]) == (None, 0)
    assert (verdicts(report), report["shipped"]) == ({"a": "verified"}, ["a"])
    assert (report["ceiling"]["exceeded"], report["ceiling"]["tripped"]) == (True, False)
    assert not halt.is_halted(scene.state)


@pytest.mark.more
@beside
def test_a_gate_that_cannot_be_asked_stops_the_wave(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[limits]\nmax_daily_tokens = 500\n")
    ledger = scene.state / "ledger" / "OUTCOMES-LEDGER.md"
    ledger.mkdir(parents=True)  # a folder in its place cannot be read
    report, driver = scene.play({}, [item("a", "a.txt", "true")])
    assert (report["abort_reason"], report["exit_code"]) == ("gate_unavailable", 3)
    assert (driver.requests, report["shipped"]) == ([], None)


# Interrupts (signals to the program are in tests/faults)


@pytest.mark.more
@on_scene
def test_a_backend_that_does_not_come_back_holds_up_no_interrupted_wave(scene: Scene) -> None:
    stop, release = CancellationToken(), threading.Event()

    def hangs(agent: Agent) -> None:
        stop.set(signal.SIGTERM)
        release.wait(PATIENCE_S)

    report, _ = scene.play(
        {"a": [writes(a__txt="bad\n"), hangs]}, [item("a", "a.txt", A_GOOD)], stop=stop
    )
    release.set()
    record = built(report)["a"]
    assert (report["abort_reason"], report["exit_code"]) == ("interrupted", 143)
    assert (record["verdict"], record["dispatched"], record["repairs"]) == ("halted", True, 1)
    assert [a["verdict"] for a in record["attempts"]] == ["failed", "halted"]
    assert report["tokens"]["unmetered"] == 1
    assert "+bad" in Path(record["savedWork"]).read_text()


@pytest.mark.more
@on_scene
def test_an_interrupt_before_anything_was_begun_has_the_signals_exit_code(scene: Scene) -> None:
    stop = CancellationToken()
    stop.set(signal.SIGINT)
    report, driver = scene.play({}, [item("a", "a.txt", A_GOOD)], stop=stop)
    assert (report["abort_reason"], report["exit_code"]) == ("interrupted", 130)
    assert driver.requests == []


@pytest.mark.more
@on_scene
def test_an_interrupt_while_items_are_proven_together_ships_nothing(scene: Scene) -> None:
    stop, together = CancellationToken(), scene.folder / "together"
    both = "grep -q good a.txt && grep -q good b.txt"
    test = f"if {both}; then touch {together} && sleep 60; fi"
    watcher = threading.Thread(
        target=lambda: eventually(together.exists, PATIENCE_S) and stop.set(signal.SIGINT)
    )
    watcher.start()
    report, _ = scene.play(
        {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")},
        [item("a", "a.txt", test), item("b", "b.txt", test)],
        stop=stop,
    )
    watcher.join()
    assert (report["abort_reason"], report["exit_code"]) == ("interrupted", 130)
    assert (verdicts(report), report["shipped"]) == ({"a": "verified", "b": "verified"}, [])
    assert all(Path(record["savedWork"]).exists() for record in report["built"])
    assert scene.repo.git("branch", "--list", "--format=%(refname:short)") == "main"


@pytest.mark.more
def test_a_config_that_cannot_be_understood_stops_the_wave(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scene.repo.path / "tidegate.toml").write_text('[limits]\nmax_wave_tokens = "5 million"\n')
    monkeypatch.setenv("HOME", scene.environ["HOME"])
    driver = ScriptedDriver({}, environ=scene.environ)
    report = run_wave(
        driver,
        {"items": [item("a", "a.txt", "true")]},
        state_dir=scene.state,
        git={"expectTopLevel": str(scene.repo.path)},
    )
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_input", 2)
    assert "max_wave_tokens" in report["error"]
    assert driver.requests == []


@pytest.mark.more
@on_scene
def test_a_backend_that_is_missing_is_told_before_anything_is_made(scene: Scene) -> None:
    driver = CommandDriver(["no-such-agent"], tier=1, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", "true")])
    assert (report["abort_reason"], report["exit_code"]) == ("backend_not_ready", 4)
    assert "no-such-agent" in report["error"]
    assert not scene.state.exists()


@pytest.mark.more
@on_scene
def test_a_dispatch_that_cannot_be_noted_is_not_made(scene: Scene) -> None:
    (scene.state / "journal" / "a.json").mkdir(parents=True)  # in the way
    report, driver = scene.play({}, [item("a", "a.txt", "true")])
    assert (verdicts(report), driver.requests) == ({"a": "undecided"}, [])
    assert "journal" in built(report)["a"]["error"]


@pytest.mark.more
@on_scene
def test_what_cannot_be_announced_in_the_journal_is_not_shipped(scene: Scene) -> None:
    journal = scene.state / "journal"
    breaks_together = f"""
        grep -q good a.txt && grep -q good b.txt || exit 0
        mv {journal} {scene.state}/gone && echo in the way > {journal}
    """
    scene.repo.commit({"t.sh": breaks_together})
    items = [item(slug, f"{slug}.txt", ["sh", "t.sh"]) for slug in "ab"]
    report, _ = scene.play({"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}, items)
    assert report["shipped"] == []
    assert report["exit_code"] == 1
    assert "journal" in built(report)["a"]["ship_error"]
    assert Path(built(report)["a"]["savedWork"]).exists()


# Secrets and surroundings


@pytest.mark.more
@beside
def test_a_key_of_the_parent_reaches_neither_agent_nor_test_unless_named(folder: Path) -> None:
    secrets = {"GH_TOKEN": "canary-1", "NAMED_KEY": "canary-2", "TEST_KEY": "canary-3"}
    scene = Scene(folder, FILES, config='[verify]\nenv = ["TEST_KEY"]\n', environ=secrets)
    agent = "date > a.txt; env | grep -o 'canary-.' | cut -d- -f2 | sort > seen.txt"
    driver = CommandDriver(["sh", "-c", agent], tier=1, env=["NAMED_KEY"], environ=scene.environ)
    report = scene.run(driver, [item("a", ["a.txt", "seen.txt"], f"env > {folder}/test-env")])
    assert report["shipped"] == ["a"]
    assert scene.repo.git("show", f"{report['sha']}:seen.txt") == "2"
    seen_by_test = (folder / "test-env").read_text()
    assert "canary-3" in seen_by_test
    assert "canary-1" not in seen_by_test
    assert "canary-2" not in seen_by_test


@pytest.mark.more
@beside
def test_git_variables_of_the_parent_point_nothing_elsewhere(folder: Path) -> None:
    scene = Scene(folder, FILES)
    decoy = make_repo(folder / "decoy", scene.environ, {"a.txt": "decoy\n"})
    agent = folder / "agent.sh"
    agent.write_text("#!/bin/sh\ngit rev-parse --show-toplevel > a.txt\n")
    agent.chmod(0o755)
    (folder / "tidegate.toml").write_text(
        f'[backend]\nname = "command"\ncommand = ["{agent}"]\ntier = 1\n'
    )
    (folder / "m.json").write_text(
        json.dumps({"items": [item("a", "a.txt", "git diff --quiet && ! grep decoy a.txt")]})
    )
    before = frozen(decoy.path), frozen(scene.repo.path)
    pointing = {
        "GIT_DIR": str(decoy.path / ".git"),
        "GIT_WORK_TREE": str(decoy.path),
        "GIT_INDEX_FILE": str(decoy.path / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(decoy.path / ".git" / "objects"),
        "GIT_CEILING_DIRECTORIES": str(folder),
    }
    program = Path(__file__).resolve().parents[2] / "driver" / "wave_loop.py"
    files = ("--manifest", "../m.json", "--config", "../tidegate.toml", "--state-dir", "../state")
    done = warm.run(
        [*PYTHON, program, "--git", *files],
        cwd=scene.repo.path,
        env={**scene.environ, **pointing, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert frozen(decoy.path) == before[0]
    changed = {name for name, _ in frozen(scene.repo.path).items() ^ before[1].items()}
    ref = f"refs/heads/{report['branch']}"
    assert changed == {f".git/{ref}", f".git/logs/{ref}"}
    assert str(decoy.path) not in scene.repo.git("show", f"{report['branch']}:a.txt")
