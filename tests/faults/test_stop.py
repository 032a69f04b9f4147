"""Signals to a running `wave_loop.py`: everything it started ends, and the next run works."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import MARKER, Marked, eventually
from tests.support.repos import frozen
from tests.support.waves import Scene, built, item

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
PROGRAM = Path(__file__).resolve().parents[2] / "driver" / "wave_loop.py"
GONE_WITHIN_S = 2.0

# Works at once where the folder says `quick`; else it hangs in the way of its item.
AGENT = """
echo good > $TIDEGATE_ITEM.txt
[ -e FOLDER/quick ] && exit 0
case $TIDEGATE_ITEM in
    tested) exit 0;;
    deaf) trap '' TERM INT HUP; setsid sh -c "trap '' TERM INT HUP; while :; do sleep 60; done" &;;
    forks) sleep 60 & (setsid sleep 60 &);;
esac
touch FOLDER/started-$TIDEGATE_ITEM
while :; do sleep 60; done
"""
TEST = "if [ ! -e FOLDER/quick ]; then trap '' TERM INT && touch FOLDER/testing-{0} && sleep 60; fi"
SLUGS = ("plain", "deaf", "forks", "tested")


class Stage:
    """A repository with a manifest whose agents and test hang until `quick` is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scene = Scene(folder, {"base.txt": "base\n"})
        self.marked = Marked(folder)
        agent = folder / "agent.sh"
        agent.write_text(AGENT.replace("FOLDER", str(folder)), encoding="utf-8")
        (folder / "tidegate.toml").write_text(
            f'[backend]\nname = "command"\ncommand = ["sh", "{agent}"]\ntier = 1\n'
            f'env = ["{MARKER}"]\n[verify]\nenv = ["{MARKER}"]\n'
            # All bases are tested at once, too, and hang.
            "[limits]\nmax_parallel_tests = 8\n",
            encoding="utf-8",
        )
        test = TEST.replace("FOLDER", str(folder))
        items = [item(slug, f"{slug}.txt", test.format(slug)) for slug in SLUGS]
        (folder / "m.json").write_text(json.dumps({"items": items}), encoding="utf-8")

    def start(self, *under: str) -> subprocess.Popen[str]:
        flags = ("--manifest", "m.json", "--config", "tidegate.toml", "--state-dir", "state")
        return subprocess.Popen(
            [*under, sys.executable, PROGRAM, "--git", "--repo", "repo", *flags],
            cwd=self.folder,
            env={**self.scene.environ, MARKER: self.marked.marker, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def running(self, *under: str) -> Iterator[subprocess.Popen[str]]:
        """The program, at the moment when all agents and a test hang."""
        with self.start(*under) as program:
            try:
                started = [self.folder / f"testing-{slug}" for slug in SLUGS]
                started += [self.folder / f"started-{slug}" for slug in SLUGS if slug != "tested"]
                assert eventually(lambda: all(p.exists() for p in started), 30.0)
                yield program
            finally:
                program.kill()

    def next_run(self) -> dict[str, Any]:
        (self.folder / "quick").touch()
        with self.start() as program:
            out, err = program.communicate(timeout=60)
        assert program.returncode == 0, err
        report: dict[str, Any] = json.loads(out)
        return report


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        made.marked.end()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)]
)
def test_a_signal_ends_every_process_tells_what_was_and_the_next_run_works(
    stage: Stage, number: int, code: int
) -> None:
    before = frozen(stage.scene.repo.path)
    with stage.running() as program:
        sent = time.monotonic()
        program.send_signal(number)
        out, err = program.communicate(timeout=20)
        took = time.monotonic() - sent
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert program.returncode == code, err
    assert took < 10
    report = json.loads(out)
    assert (report["abort_reason"], report["exit_code"]) == ("interrupted", code)
    assert signal.Signals(number).name in report["error"]
    assert {record["verdict"] for record in report["built"]} == {"halted"}
    assert (report["shipped"], report["branch"]) == ([], None)
    assert "Traceback" not in err
    assert frozen(stage.scene.repo.path) == before
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)


def test_below_nohup_a_hangup_ends_nothing(stage: Stage) -> None:
    with stage.running("nohup") as program:
        program.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=20)
    assert program.returncode == 143
    assert json.loads(out)["error"] == "interrupted by SIGTERM"


def test_a_signal_while_the_report_is_written_leaves_it_whole(stage: Stage) -> None:
    wrong = [{"slug": f"wrong item {number}"} for number in range(300)]
    (stage.folder / "m.json").write_text(json.dumps({"items": wrong}), encoding="utf-8")
    with stage.start() as program:
        try:
            assert program.stdout
            pipe = program.stdout.fileno()
            room = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
            assert eventually(lambda: _waiting_in(pipe) >= room, 30.0)
            program.send_signal(signal.SIGTERM)
            out, err = program.communicate(timeout=20)
        finally:
            program.kill()
    assert json.loads(out)["exit_code"] == program.returncode == 2, err


def _waiting_in(pipe: int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(answer, sys.byteorder)


def test_work_that_a_signal_cut_short_is_kept(stage: Stage) -> None:
    with stage.running() as program:
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=20)
    record = built(json.loads(out))["tested"]
    assert record["savedWork"], record
    assert "+good" in Path(record["savedWork"]).read_text(encoding="utf-8")


def test_a_second_signal_leaves_at_once_and_still_leaves_nobody_behind(stage: Stage) -> None:
    with stage.running() as program:
        program.send_signal(signal.SIGTERM)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=20)
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert program.returncode in (130, 143)
    assert out == ""
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)


def test_when_the_orchestrator_is_killed_nobody_is_left_and_the_next_run_works(
    stage: Stage,
) -> None:
    with stage.running() as program:
        program.kill()
        program.communicate(timeout=20)
    assert eventually(lambda: not stage.marked.alive(), GONE_WITHIN_S)
    assert sorted(stage.next_run()["shipped"]) == sorted(SLUGS)
