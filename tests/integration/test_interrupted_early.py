"""Ctrl-C before anything has begun, and a reader that goes away early: no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.interpreter import PYTHON
from tools.program import exit_code

pytestmark = pytest.mark.in_walls

ROOT = Path(__file__).parents[2]

# Stands in the way of a module that is loaded late, so that the signal comes while modules load.
INTERRUPTING = """
import importlib.abc, os, runpy, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "driver.cli.command_line":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.name == "nt", reason="no signals of this kind")
@pytest.mark.parametrize(
    "words",
    [("wave_scheduler.py",), ("wave_loop.py", "--manifest", "x"), ("tidegate.py", "run")],
    ids=str,
)
def test_an_interrupt_while_modules_load_is_no_traceback(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    program = str(ROOT / "driver" / words[0])
    done = subprocess.run(
        [*PYTHON, "-c", INTERRUPTING, program, *words[1:]],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.name == "nt", reason="no pipes of this kind")
@pytest.mark.parametrize(
    "words",
    [
        ("driver/tidegate.py",),
        ("driver/wave_scheduler.py", "--help"),
        ("tools/doctor.py", "--help"),
        ("tools/state.py", "--help"),
        ("tools/wave_templates.py", "validate", "--json"),
    ],
    ids=str,
)
def test_a_reader_that_closes_the_pipe_early_causes_no_traceback(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [*PYTHON, str(ROOT / words[0]), *words[1:]],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
        )
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


def test_an_interrupted_tool_says_no_more() -> None:
    def work() -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert exit_code("tool", work) == 130
    finally:
        signal.signal(signal.SIGINT, before)
