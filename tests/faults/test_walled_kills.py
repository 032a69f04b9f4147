"""A scheduler killed at random instants while its agents and tests run inside of walls.

Nothing may be left of it: no process, no mount, no control group, no temporary folder; and the run
that goes on ships each item once. The whole, as the sweep:
`python -m pytest -m sweep -s tests/faults/test_walled_kills.py`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from driver.walls.groups import group_for
from driver.walls.wall import Level, Limits
from tests.faults.test_random_kills import killed_after
from tests.support.killing import Pace, Tally, Yard
from tests.support.walls import CLOSED_LEVELS, needs

pytestmark = [pytest.mark.in_walls, pytest.mark.skipif(sys.platform != "linux", reason="no walls")]
SWEEP = range(40)
# What an undisturbed run takes beside the slowness that is drawn, with room for a busy machine.
USUAL_S = 3.0
# Leaves something behind by itself, too.
AGENT = """\
setsid sleep 300 &
{slow}
case $TIDEGATE_ITEM$TIDEGATE_ATTEMPT in
b1) echo bad > "$TIDEGATE_ITEM.txt" ;;
*) echo good > "$TIDEGATE_ITEM.txt" ;;
esac
"""


def walled(folder: Path, level: Level, pace: Pace) -> Yard:
    agent = folder / "agent.sh"
    config = f'[sandbox]\nlevel = "{level}"\n[sandbox.agent]\nreadable = ["{agent}"]\n'
    return Yard(folder, pace=pace, config=config, agent=AGENT)


def groups_of_the_dead() -> set[Path]:
    """The groups that a run of which the process is gone has left."""
    with group_for(Limits(memory=1 << 40, processes=10_000)) as group:
        parents = {folder.parent for _, folder, _ in group.held}
    found = {one for parent in parents for one in parent.glob("tidegate-*-*-*")}
    return {one for one in found if not Path("/proc", one.name.split("-")[2]).exists()}


def left(yard: Yard, groups: set[Path]) -> list[str]:
    """What is left of a wave that was killed, beside what was there before."""
    temporary = Path(yard.environ["TMPDIR"])
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        *(
            f"temporary: {path.name}"
            for path in (*temporary.glob("tidegate-*"), *temporary.glob("tg-*"))
        ),
        *(f"mount: {line}" for line in mounts if str(yard.folder) in line),
        *(f"group: {one}" for one in groups_of_the_dead() - groups),
    ]


def campaign(folder: Path, level: Level, seed: int) -> Tally:
    """One seed: a few kills, restarts until all is shipped, and the look from outside."""
    draw, tally = random.Random(seed), Tally()
    pace = Pace(draw.uniform(0, 0.3), draw.uniform(0, 0.3), draw.uniform(0, 0.3))
    yard = walled(folder, level, pace)
    groups = groups_of_the_dead()
    for _ in range(draw.randint(1, 3)):
        tally.runs += 1
        tally.kills += killed_after(yard, draw.uniform(0.2, USUAL_S + 4 * pace.test))
    restarts, undone = yard.run_until_done(restarts=4)
    tally.runs += restarts
    wrong = [*undone, *yard.wrong(), *left(yard, groups)]
    tally.violations = [f"seed {seed}, {level}, {pace}: {one}" for one in wrong]
    return tally


@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_nothing_is_left_of_a_killed_run_inside_of_walls(level: Level, tmp_path: Path) -> None:
    needs(level)
    tally = campaign(tmp_path, level, seed=7)
    assert tally.violations == []


@pytest.mark.sweep
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_kills_leave_nothing_and_ship_once(level: Level, tmp_path: Path) -> None:
    needs(level)
    whole = Tally()
    for seed in SWEEP:
        place = tmp_path / str(seed)
        place.mkdir()
        whole.add(campaign(place, level, seed))
    sys.stdout.write(whole.line("walled-kills", level=level, seeds=len(SWEEP)))
    assert whole.violations == []
    assert whole.kills > 0
