"""Signals to a running `wave_loop.py`: everything it started ends, and the next run works."""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.beside import beside_on
from tests.support.processes import eventually, patient
from tests.support.repos import frozen
from tests.support.stage import HANGS, WAITING_S, Stage
from tests.support.warm import Program
from tests.support.waves import built

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
GONE_WITHIN_S = 2.0
HANGING = ("plain", "deaf", "forks")
SLUGS = (*HANGING, "tested")


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    # All bases are tested at once, too, and hang.
    made = Stage(folder, "[limits]\nmax_parallel_tests = 8\n")
    made.plan(dict.fromkeys(SLUGS, HANGS))
    try:
        yield made
    finally:
        made.marked.end()


on_a_stage = beside_on(staged)


@contextmanager
def running(stage: Stage, *under: str) -> Iterator[Program]:
    """The program, at the moment when all agents and tests hang."""
    with stage.started(under=under) as program:
        assert stage.hang(HANGING, tests=SLUGS), stage.said()
        # What hangs for `tested` may be its base's test, while its agent is still at work.
        assert eventually(lambda: any(stage.state.glob("runs/*/tested/work.patch")), WAITING_S)
        yield program


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGHUP, 143, marks=pytest.mark.sweep),
    ],
)
@on_a_stage
def test_a_signal_ends_every_process_keeps_and_tells_what_was_and_the_next_run_works(
    stage: Stage, number: int, code: int
) -> None:
    before = frozen(stage.scene.repo.path)
    with running(stage) as program:
        sent = time.monotonic()
        program.send_signal(number)
        out, _ = program.communicate(timeout=60)
        took = time.monotonic() - sent
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert program.returncode == code, stage.said()
    assert took < patient(10)
    report = json.loads(out)
    assert (report["abort_reason"], report["exit_code"]) == ("interrupted", code)
    assert signal.Signals(number).name in report["error"]
    assert {record["verdict"] for record in report["built"]} == {"halted"}
    saved = built(report)["tested"]["savedWork"]
    assert saved, report
    assert "+good" in Path(saved).read_text(encoding="utf-8")
    assert (report["shipped"], report["branch"]) == ([], None)
    assert "Traceback" not in stage.said()
    assert frozen(stage.scene.repo.path) == before
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)


@pytest.mark.more
@on_a_stage
def test_below_nohup_a_hangup_ends_nothing(stage: Stage) -> None:
    with running(stage, "nohup") as program:
        program.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=60)
    assert program.returncode == 143
    assert json.loads(out)["error"] == "interrupted by SIGTERM"


@pytest.mark.more
@on_a_stage
def test_a_signal_while_the_report_is_written_leaves_it_whole(stage: Stage) -> None:
    wrong = [{"slug": f"wrong item {number}"} for number in range(300)]
    (stage.folder / "m.json").write_text(json.dumps({"items": wrong}), encoding="utf-8")
    with stage.started() as program:
        assert program.stdout
        pipe = program.stdout.fileno()
        room = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        assert eventually(lambda: _waiting_in(pipe) >= room, 30.0)
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=60)
    assert json.loads(out)["exit_code"] == program.returncode == 2, stage.said()


def _waiting_in(pipe: int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(answer, sys.byteorder)


@pytest.mark.more
@on_a_stage
def test_a_second_signal_leaves_at_once_and_still_leaves_nobody_behind(stage: Stage) -> None:
    with running(stage) as program:
        program.send_signal(signal.SIGTERM)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=60)
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert program.returncode in (130, 143)
    assert out == ""
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)


@pytest.mark.more
@on_a_stage
def test_when_the_orchestrator_is_killed_nobody_is_left_and_the_next_run_works(
    stage: Stage,
) -> None:
    with running(stage) as program:
        program.kill()
        program.communicate(timeout=60)
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)
