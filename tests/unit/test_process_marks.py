"""A mark looks like any other variable; only the holder of the key knows it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from driver.execution.process_marks import carrying_mark, new_key, new_mark
from tests.support.interpreter import PYTHON


def test_no_two_marks_have_a_name_or_a_value_in_common() -> None:
    key = new_key()
    marks = [next(iter(new_mark(key).items())) for _ in range(200)]
    names, values = (set(column) for column in zip(*marks, strict=True))
    assert (len(names), len(values)) == (200, 200)
    assert not names & {*os.environ}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="marks are read from /proc")
def test_processes_are_found_by_the_key_of_their_run_alone() -> None:
    mine, theirs = new_key(), new_key()
    sleep = [*PYTHON, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleep, env={**os.environ, **new_mark(mine)})
    try:
        assert carrying_mark(mine) == (child.pid,)
        assert carrying_mark(theirs) == carrying_mark("") == ()
    finally:
        child.kill()
        child.wait()
