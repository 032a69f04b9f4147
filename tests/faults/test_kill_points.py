"""A scheduler killed at any of its points, and started again, ships every item exactly once.

The points are listed by a first run; the sweep kills at each of them (a few hundred), the default
run at a few spread over it: `python -m pytest -m sweep -s tests/faults/test_kill_points.py`.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driver.execution.command import child_environment
from driver.git.command import user_environment
from tests.support.beside import beside
from tests.support.killing import Tally, Yard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
KILLED = -signal.SIGKILL
SAMPLE = 3
AT_ONCE = 2
TRIES = 4  # what threads write at once is joined: one run has more points than another
EXPECTED = {
    *("store.before_commit", "store.after_commit", "file.write", "file.before_replace"),
    *("file.after_replace", "process.before_start", "process.after_finish", "git.before_push"),
    *("git.after_push", "git.before_update-ref", "git.after_update-ref", "git.before_index-pack"),
}


def points(folder: Path) -> list[str]:
    """The points that an undisturbed run passes, in order."""
    folder.mkdir()
    yard = Yard(folder)
    done = yard.run(f"*=trace:{folder / 'trace'}")
    assert done.code == 0, done.err
    assert done.report["failpoints"] == "active"
    assert yard.wrong(clean_clone=True) == []
    return (folder / "trace").read_text().split()


def killed_at(folder: Path, point: int, *, clean_clone: bool) -> tuple[int, Tally]:
    """Kill at one point, restart until all is done, and look; how many points the first run
    passed, which are fewer where it had not so many."""
    folder.mkdir()
    yard, tally = Yard(folder), Tally()
    code = yard.run(f"*=trace:{folder / 'trace'};#{point}=kill").code
    # A thread that was about to write when the process was killed is not in the trace.
    passed = point if code == KILLED else len((folder / "trace").read_text().split())
    restarts, undone = yard.run_until_done()
    tally.runs, tally.kills = 1 + restarts, int(code == KILLED)
    wrong = [*undone, *yard.wrong(clean_clone=clean_clone)]
    if code != (KILLED if passed >= point else 0):
        wrong.append(f"the run that passed {passed} points ended with {code}")
    tally.violations = [f"point {point}: {one}" for one in wrong]
    if not wrong:
        shutil.rmtree(folder)
    return passed, tally


def campaign(folder: Path, numbers: Sequence[int], *, every: int) -> tuple[Tally, list[int]]:
    """All of `numbers`, with a clean clone for each `every`-th; the numbers that no run had."""

    def one(number: int) -> tuple[int, bool, Tally]:
        whole = Tally()
        for go in range(TRIES):
            place = folder / f"{number}-{go}"
            passed, tally = killed_at(place, number, clean_clone=number % every == 0)
            whole.add(tally)
            if passed >= number:
                return number, True, whole
        return number, False, whole

    whole, missed = Tally(), []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, hit, tally in pool.map(one, numbers):
            whole.add(tally)
            missed += [] if hit else [number]
    return whole, missed


@pytest.mark.more
@beside
def test_a_sample_of_kills_loses_and_doubles_nothing(folder: Path) -> None:
    trace = points(folder / "trace")
    assert set(trace) >= EXPECTED
    # The last points are those after which a kill costs most: the ship and the tracker.
    last = len(trace) - len(trace) // 20
    numbers = [1 + number * (last - 1) // (SAMPLE - 1) for number in range(SAMPLE)]
    tally, missed = campaign(folder, numbers, every=5)
    assert tally.violations == []
    assert missed == []


@pytest.mark.sweep
def test_a_kill_at_any_point_loses_and_doubles_nothing(tmp_path: Path) -> None:
    trace = points(tmp_path / "trace")
    tally, missed = campaign(tmp_path, range(1, len(trace) + 1), every=10)
    hit = len(trace) - len(missed)
    sys.stdout.write(tally.line("kill-points", points=len(trace), hit=hit, not_there=missed))
    # That a run passed a point and lived on is a violation; so all points there are were hit.
    assert tally.violations == [], tally.violations
    assert all(number > 0.9 * len(trace) for number in missed)


@pytest.mark.parametrize("armed", ["TIDEGATE_FAIL"])
def test_no_child_is_told_to_die(armed: str) -> None:
    told = {armed: "*=kill", "PATH": "/bin"}
    assert child_environment(told, (armed, "TIDEGATE_*")) == {"PATH": "/bin"}
    assert armed not in user_environment(told)


@pytest.mark.more
@beside
def test_with_points_armed_nothing_is_pushed_but_to_a_folder(folder: Path) -> None:
    yard = Yard(folder, slugs=("a",))
    yard.repo.git("remote", "set-url", "origin", "https://127.0.0.1:9/x.git")
    done = yard.run("nothing=kill")
    assert done.code == 1, done.err
    assert "TIDEGATE_FAIL is set" in json.dumps(done.report)
    assert "127.0.0.1" not in json.dumps(done.report)
    assert yard.commits() == {}


@pytest.mark.more
@beside
def test_the_report_of_an_ordinary_run_does_not_speak_of_points(folder: Path) -> None:
    assert "failpoints" not in Yard(folder, slugs=("a",)).run().report
