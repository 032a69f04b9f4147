"""What walls cost: the start of a test, and a wave of eight items whose tests work for a second.

`python -m pytest -m bench -s tests/bench/bench_walls.py`

The goals are a start at most 60 ms after a bare one, and a wave with at most 1.1 times the
processor time of a bare one. Rounds are interleaved.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from driver.execution.command import Command
from driver.execution.processes import Processes
from driver.walls.roles import Places
from driver.walls.wall import Role
from driver.walls.wave_walls import Walls, walls_of
from state_store.values.lazy_dataclass import replace
from tests.support.interpreter import IN_SHELL
from tests.support.waves import Scene, item, writes
from tools.settings.load import load

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(sys.platform != "linux", reason="walls are made by Linux"),
]
LEVELS = ("none", "limits", "landlock", "bwrap")
LEVELS_OF_WAVES = ("none", "landlock", "bwrap")
STARTS, WAVES = 25, 3
_SET_CHILD_SUBREAPER = 36
WORK = """
import sys, time
while time.process_time() < 1:
    sum(range(1000))
assert open(sys.argv[1]).read() == "good\\n"
"""
ITEMS = tuple("abcdefgh")


def walls_at(level: str) -> Walls:
    settings = load(environ={**os.environ, "TIDEGATE_SANDBOX_LEVEL": level})
    return replace(walls_of(settings, None, (), Processes()), has_homes=True)


def test_a_test_in_walls_starts_soon(tmp_path: Path) -> None:
    processes, took = Processes(), {level: list[float]() for level in LEVELS}
    walls = {level: walls_at(level) for level in LEVELS}
    command = Command(("/bin/true",), tmp_path, {"PATH": os.defpath}, 30)
    for _ in range(STARTS):
        for level in LEVELS:
            began = time.monotonic()
            done = walls[level].around(Role.TEST, Places(tmp_path)).run(processes, command)
            took[level].append(time.monotonic() - began)
            assert done.exit_code == 0, done
    bare = statistics.median(took["none"])
    print(f"\nmedian of {STARTS} starts: bare {bare * 1000:.1f} ms")
    for level in LEVELS[1:]:
        more = statistics.median(took[level]) - bare
        print(f"{level:<10} + {more * 1000:5.1f} ms")
        assert more < 0.060, level


def test_a_wave_in_walls_costs_little_more(tmp_path: Path) -> None:
    used: dict[str, list[float]] = {level: [] for level in LEVELS_OF_WAVES}
    took: dict[str, list[float]] = {level: [] for level in LEVELS_OF_WAVES}
    for number in range(WAVES):
        for level in LEVELS_OF_WAVES:
            folder = tmp_path / f"{level}-{number}"
            folder.mkdir()
            began = time.monotonic()
            used[level].append(spent_by(partial(play, folder, level)))
            took[level].append(time.monotonic() - began)
    bare, bare_took = (statistics.median(one["none"]) for one in (used, took))
    print(f"\nmedian of {WAVES} waves of 8: bare {bare:.2f} s processor time, {bare_took:.2f} s")
    for level in LEVELS_OF_WAVES[1:]:
        ratio = statistics.median(used[level]) / bare
        print(f"{level:<10} x {ratio:.3f}, {statistics.median(took[level]):.2f} s")
        assert ratio < 1.1, level


def play(folder: Path, level: str) -> None:
    files = {"work.py": WORK, **{f"{name}.txt": "base\n" for name in ITEMS}}
    scene = Scene(folder, files, environ={"TIDEGATE_SANDBOX_LEVEL": level})
    items = [item(n, f"{n}.txt", f"{IN_SHELL} work.py {n}.txt") for n in ITEMS]
    scripts = {n: writes(**{f"{n}__txt": "good\n"}) for n in ITEMS}
    report, _ = scene.play(scripts, items)
    assert len(report["shipped"]) == len(ITEMS)


def spent_by(work: Callable[[], None]) -> float:
    """The processor time of some work in a process of its own, and of all that this starts. What
    outlives that process becomes a child of this one, or its time would be lost."""
    assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
