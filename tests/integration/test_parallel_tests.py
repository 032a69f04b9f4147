"""Agents and tests are bounded apart, and tests for a whole wave."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from driver.wave_loop import run_wave
from tests.support.beside import beside
from tests.support.waves import PATIENCE_S, Agent, Scene, ScriptedDriver, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
SLUGS = ("a", "b", "c", "d")


@pytest.mark.parametrize("in_repository", [True, False])
@beside
def test_four_agents_work_at_once_and_their_tests_one_after_the_other(
    folder: Path, in_repository: bool
) -> None:
    config = "[limits]\nmax_workers = 4\nmax_parallel_tests = 1\n"
    scene = Scene(folder, {"README": "x"}, config=config)
    plain = folder / "plain"
    plain.mkdir()
    all_at_work = threading.Barrier(len(SLUGS))

    def works(agent: Agent) -> None:
        all_at_work.wait(PATIENCE_S)
        agent.write({f"{agent.request.environment['TIDEGATE_ITEM']}.txt": "good"})

    # Red where another one is at the same place at the same time.
    place = folder / "taken"
    test = f"mkdir {place} && sleep 0.1 && rmdir {place}"
    items = [item(slug, f"{slug}.txt", test, repairCap=0) for slug in SLUGS]
    report = run_wave(
        ScriptedDriver(dict.fromkeys(SLUGS, works), environ=scene.environ),
        {"items": items},
        state_dir=scene.state,  # or its patches, which nobody ships, would stay in /tmp
        options=scene.options(**({} if in_repository else {"repo": plain})),
    )
    assert verdicts(report) == dict.fromkeys(SLUGS, "verified")
