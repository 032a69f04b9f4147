"""A process that is killed in the middle of the escape test leaves none of its decoys running."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
        # The decoy has stderr open as long as it lives.
        assert eventually(lambda: running.poll() is not None)
        running.communicate(timeout=10)
    assert victim > 1
