"""A program started warm is what it is started as usual, to who asks from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.interpreter import PYTHON

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.skipif(sys.platform != "linux", reason="programs start warm on Linux only"),
]
TOOLS = Path(__file__).resolve().parents[2] / "tools"
HALT, INTAKE = TOOLS / "halt.py", TOOLS / "intake.py"
ISSUES = ("github", "-", "--dry-run")


def outside(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [(HALT, "--status"), (HALT, "no such"), (HALT, "--help"), (HALT, "--state-dir", "a\xe9")],
)
def test_a_warm_program_tells_what_a_cold_one_does(tmp_path: Path, words: tuple[str, ...]) -> None:
    argv, env = [*PYTHON, *words], outside(tmp_path)
    ran = [
        start(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
        for start in (warm.run, subprocess.run)
    ]
    told = [(done.returncode, done.stdout, done.stderr) for done in ran]
    assert told[0] == told[1]
    assert told[0][1] + told[0][2]


def test_what_cannot_be_warm_is_started_as_usual(tmp_path: Path) -> None:
    env = outside(tmp_path)
    argv = [*PYTHON, str(HALT), "--status"]
    usual = [
        warm.start([sys.executable, "-c", ""], cwd=tmp_path, env=env),
        warm.start(argv, cwd=tmp_path, env=env, umask=0o77, stdout=subprocess.DEVNULL),
        warm.start(argv, cwd=tmp_path, env=env | {"PYTHONUTF8": "1"}, stdout=subprocess.DEVNULL),
    ]
    for program in usual:
        with program:
            assert isinstance(program, subprocess.Popen)
    assert [program.returncode for program in usual] == [0, 0, 0]
    with warm.start(argv, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL) as program:
        assert isinstance(program, warm.Forked)
    assert program.returncode == 0


def test_a_warm_program_that_hangs_is_waited_for_in_vain_and_can_be_killed(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    argv = [*PYTHON, str(INTAKE), "github", "-"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with warm.start(argv, cwd=tmp_path, env=outside(tmp_path), stdin=reading, **pipes) as program:
        os.close(reading)
        with pytest.raises(subprocess.TimeoutExpired):
            program.communicate(timeout=0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.01)
        assert program.poll() is None
        program.kill()
        assert program.communicate(timeout=60) == (b"", b"")
        assert program.communicate() == (b"", b"")
    os.close(writing)
    assert program.returncode == program.poll() == -signal.SIGKILL
