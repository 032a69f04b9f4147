"""The halt switch set while a real `wave_loop.py` works: all of it ends, and clearing goes on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.write_api import STATE_DB_FILENAME
from tests.support import warm
from tests.support.beside import beside_on
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually, is_stopped
from tests.support.programs import LOOP
from tests.support.repos import frozen, hook
from tests.support.stage import HANGS, PASSES, WAITING_S, Stage
from tests.support.waves import built, verdicts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
GRACE_S = 5.0
DONE = ("done1", "done2")
AGENTS = ("plain1", "plain2", "plain3", "deaf1", "deaf2", "forks1", "forks2")
WORKING = (*AGENTS, "tested1")
QUEUED = ("later1", "later2", "later3", "later4")
WORKERS = 8
EIGHT_AT_ONCE = f"""red_first = "off"
canary = false
[limits]
max_workers = {WORKERS}
max_parallel_tests = 2
"""


class Halted(Stage):
    """A stage with a remote, and what is seen of a wave while a halt ends it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, EIGHT_AT_ONCE, remote=True)

    def plan_for(self, *slugs: str) -> None:
        tests = {slug: HANGS if slug.startswith("tested") else PASSES for slug in slugs}
        # Without a repair round an attempt that was counted would be the last one.
        self.plan(tests, repairCap=0)

    def agents(self) -> list[int]:
        """Who is at work for the wave; not the program itself."""
        return [pid for pid in self.marked.alive() if not _is_program(pid)]

    def remote_branches(self) -> list[str]:
        assert self.scene.remote
        return self.scene.remote.git("branch", "--list", "--format=%(refname:short)").split()

    def typed(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a command that was printed, from a folder far away."""
        words = shlex.split(line)
        argv = [*PYTHON, *words[1:]]
        return warm.run(argv, cwd="/", capture_output=True, text=True, check=True, timeout=60)

    def go_on(self) -> dict[str, Any]:
        return self.next_run("--resume")


@contextmanager
def staged(folder: Path) -> Iterator[Halted]:
    made = Halted(folder)
    try:
        yield made
    finally:
        made.marked.end()


on_a_stage = beside_on(staged)


@on_a_stage
def test_a_halt_ends_eight_workers_in_five_seconds_and_after_it_nothing_is_done_twice(
    stage: Halted,
) -> None:
    stage.plan_for(*DONE, *WORKING, *QUEUED)
    before = frozen(stage.scene.repo.path)
    with stage.started() as program:
        assert stage.hang(AGENTS, tests=("tested1",)), stage.said()
        assert len(stage.agents()) >= len(WORKING)
        stop = stage.said().splitlines()[0].partition("or anywhere: ")[2]
        stage.typed(stop.replace("REASON", "'too dear'"))
        assert eventually(lambda: not stage.agents(), GRACE_S)
        out, _ = program.communicate(timeout=WAITING_S)
    report = json.loads(out)
    assert (program.returncode, report["abort_reason"], report["exit_code"]) == (3, "halted", 3)
    assert "too dear" in report["error"]
    told = verdicts(report)
    assert {told[slug] for slug in DONE} == {"verified"}
    assert {told[slug] for slug in (*WORKING, *QUEUED)} == {"halted"}
    assert "too dear" in built(report)["plain1"]["error"]
    assert (report["shipped"], stage.remote_branches()) == ([], ["main"])
    assert frozen(stage.scene.repo.path) == before
    assert stage.begun() == Counter([*DONE, *WORKING])
    assert "Traceback" not in stage.said()

    stage.typed(report["error"].partition("to go on: ")[2])
    report = stage.go_on()
    assert sorted(report["shipped"]) == sorted((*DONE, *WORKING, *QUEUED))
    # The agent of what was being tested had ended: its work is proven again, not built again.
    assert report["resume_stats"]["skipped_from_journal"] == len([*DONE, "tested1"])
    assert stage.begun() == Counter([*DONE, *WORKING, *AGENTS, *QUEUED])
    assert len(stage.scene.log(report["branch"])) == len(report["shipped"])
    assert sorted(stage.remote_branches()) == sorted(["main", report["branch"]])


@pytest.mark.more
@on_a_stage
def test_after_a_halt_no_agent_is_begun_however_quickly_they_follow_each_other(
    stage: Halted,
) -> None:
    (stage.folder / "quick").touch()
    slugs = [f"done{number}" for number in range(28)]
    stage.plan_for(*slugs)
    log = stage.folder / "begun.log"
    with stage.started() as program:
        assert eventually(lambda: log.exists() and len(stage.begun()) > 2 * WORKERS, WAITING_S)
        (stage.state / ".HALT").mkdir()
        set_at = time.time()
        out, _ = program.communicate(timeout=WAITING_S)
    report = json.loads(out)
    assert (program.returncode, report["shipped"]) == (3, []), stage.said()
    with StateAPI(stage.state / STATE_DB_FILENAME) as api:
        told = [e for e in api.store.read_all() if e["type"] == "attempt_started"]
    # Those that had asked just before may have come to their agent.
    assert sum(event["ts"] > set_at for event in told) <= WORKERS
    assert len(told) < len(slugs)
    (stage.state / ".HALT").rmdir()
    assert sorted(stage.go_on()["shipped"]) == sorted(slugs)
    finished = [slug for slug, verdict in verdicts(report).items() if verdict == "verified"]
    assert {stage.begun()[slug] for slug in finished} == {1}


# How each of them is read is a table of its own; these are those that could keep a reader busy.
@pytest.mark.more
@pytest.mark.parametrize(
    "form",
    [
        *("fifo", "deep"),
        *(
            pytest.param(form, marks=pytest.mark.sweep)
            for form in ("folder", "loop", "nowhere", "garbage", "locked")
        ),
    ],
)
@on_a_stage
def test_whatever_lies_at_the_switch_ends_who_works(stage: Halted, form: str) -> None:
    stage.plan_for("plain1")
    with stage.started() as program:
        assert stage.hang(("plain1",)), stage.said()
        _lay(stage.state / ".HALT", form)
        assert eventually(lambda: not stage.agents(), GRACE_S)
        out, _ = program.communicate(timeout=WAITING_S)
    report = json.loads(out)
    assert (program.returncode, report["abort_reason"]) == (3, "halted"), stage.said()
    assert report["error"].startswith("halted: ")


def _lay(path: Path, form: str) -> None:
    match form:
        case "folder":
            path.mkdir()
            (path / "x").touch()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "nowhere":
            path.symlink_to("/nowhere/at/all")
        case "deep":
            path.write_text("[" * 60_000, encoding="utf-8")
        case "locked":
            path.write_text("{}", encoding="utf-8")
            path.chmod(0)
        case _:
            path.write_bytes(b"\xff\x00{")


@pytest.mark.more
@on_a_stage
def test_a_push_that_a_halt_finds_under_way_is_finished_and_told(stage: Halted) -> None:
    assert stage.scene.remote
    pushing = stage.folder / "pushing"
    hooks = stage.scene.remote.path / "hooks"
    hook(hooks, "pre-receive", f"touch {pushing}; sleep 1")
    stage.plan_for(*DONE)
    with stage.started() as program:
        assert eventually(pushing.exists, WAITING_S), stage.said()
        (stage.state / ".HALT").write_text('{"reason": "enough"}', encoding="utf-8")
        out, _ = program.communicate(timeout=WAITING_S)
    report = json.loads(out)
    assert sorted(report["shipped"]) == sorted(DONE), stage.said()
    assert sorted(stage.remote_branches()) == sorted(["main", report["branch"]])
    assert (program.returncode, report["abort_reason"]) == (3, "halted")


@pytest.mark.more
@on_a_stage
def test_commits_that_a_halt_found_unpushed_are_pushed_by_the_next_run(stage: Halted) -> None:
    stage.plan_for(*DONE)
    with stage.started(fail="git.after_update-ref@2=stop") as program:
        assert eventually(lambda: is_stopped(program.pid), WAITING_S), stage.said()
        (stage.state / ".HALT").write_text('{"reason": "enough"}', encoding="utf-8")
        program.send_signal(signal.SIGCONT)
        out, _ = program.communicate(timeout=WAITING_S)
    report = json.loads(out)
    assert (program.returncode, report["shipped"]) == (3, []), stage.said()
    assert report["shipped_repos"][0]["error"] == "halted"
    tip = report["shipped_repos"][0]["sha"]
    assert stage.remote_branches() == ["main"]
    (stage.state / ".HALT").unlink()
    report = stage.go_on()
    assert sorted(report["shipped"]) == sorted(DONE)
    assert stage.scene.remote
    branch = next(name for name in stage.remote_branches() if name != "main")
    assert stage.scene.remote.git("rev-parse", branch).strip() == tip
    assert stage.begun() == Counter(DONE)


def _is_program(pid: int) -> bool:
    try:
        return str(LOOP).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone meanwhile
        return True
