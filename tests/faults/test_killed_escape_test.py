"""A process that is killed in the middle of the escape test leaves none of its decoys running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driver.execution.process_table import is_zombie
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no walls")

STAGED = """
import sys, time
from driver.walls.stage import staged
with staged() as stage:
    print(stage.victim, flush=True)
    sys.stdin.read()
"""


def test_the_decoy_of_a_process_ends_with_the_killed_test() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    argv = [*PYTHON, "-c", STAGED]
    with subprocess.Popen(argv, text=True, **pipes) as running:  # type: ignore[call-overload]
        assert running.stdout is not None
        victim = int(running.stdout.readline())
        running.kill()
        running.communicate(timeout=60)
    assert eventually(lambda: not Path(f"/proc/{victim}").exists() or is_zombie(victim))
