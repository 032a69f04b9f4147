"""A scheduler killed at random instants, while agents, tests and pushes take their time.

Named points cannot show what happens inside the programs that we start: a push that outlives us, an
agent that writes after its clone was given up. Each seed draws how slow everything is, how often
and when the scheduler is killed; a failure names it. The whole, as the sweep:
`TIDEGATE_TEST_SEEDS=1000 python -m pytest -m sweep -s tests/faults/test_random_kills.py`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.killing import Pace, Tally, Yard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
SAMPLE = range(2)
SEEDS = int(os.environ.get("TIDEGATE_TEST_SEEDS", "1000"))
FIRST_SEED = int(os.environ.get("TIDEGATE_TEST_FIRST_SEED", "0"))
AT_ONCE = 3
MOST_KILLS = 3
# What an undisturbed run takes beside the slowness that is drawn, with room for a busy machine.
USUAL_S = 0.8


def killed_after(yard: Yard, seconds: float) -> bool:
    """Kill the scheduler, and nothing else, after so long; False when it was done before."""
    with yard.running() as program:
        try:
            program.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            program.kill()
        program.communicate()
    return program.returncode == -signal.SIGKILL


def campaign_of(folder: Path, seed: int) -> Tally:
    """One seed: a few kills, restarts until all is shipped, and the look from outside."""
    draw, tally = random.Random(seed), Tally()
    pace = Pace(draw.uniform(0, 0.3), draw.uniform(0, 0.3), draw.uniform(0, 0.6))
    place = folder / str(seed)
    place.mkdir()
    yard = Yard(place, pace=pace)
    length = USUAL_S + 2 * pace.agent + 4 * pace.test + 2 * pace.push
    for _ in range(draw.randint(1, MOST_KILLS)):
        tally.runs += 1
        tally.kills += killed_after(yard, draw.uniform(0.1, length))
    restarts, undone = yard.run_until_done(restarts=4)
    tally.runs += restarts
    wrong = [*undone, *yard.wrong(clean_clone=seed % 10 == 0)]
    tally.violations = [f"seed {seed}, {pace}: {one}" for one in wrong]
    if not wrong:
        shutil.rmtree(place)
    return tally


def campaign(folder: Path, seeds: Iterable[int]) -> Tally:
    whole = Tally()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for tally in pool.map(lambda seed: campaign_of(folder, seed), seeds):
            whole.add(tally)
    return whole


def test_a_sample_of_random_kills_loses_and_doubles_nothing(tmp_path: Path) -> None:
    tally = campaign(tmp_path, SAMPLE)
    assert tally.violations == []
    assert tally.kills > 0


@pytest.mark.sweep
def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    tally = campaign(tmp_path, seeds)
    sys.stdout.write(tally.line("random-kills", seeds=f"{seeds.start}..{seeds.stop - 1}"))
    assert tally.violations == []
