"""What belief costs: the demo with every check of a green, and with none of them.

python -m pytest -m bench -s tests/bench/bench_belief.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from driver.cli import demo
from tests.bench.arena import interleaved

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
SLOW_TEST_S = 1.0
NOTHING = {"TIDEGATE_VERIFY_RED_FIRST": "off", "TIDEGATE_VERIFY_CANARY": "false"}
Report = dict[str, Any]


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("slow", [False, True], ids=["its own tests", "slow tests"])
def test_belief_on_the_demo(tmp_path: Path, count: int, *, slow: bool) -> None:
    believed: list[Report] = []

    def run(checks: bool) -> Callable[[int], float]:
        def once(number: int) -> float:
            place = tmp_path / f"{'with' if checks else 'without'}-{number}"
            took, report = _demo(place, count, checks=checks, slow=slow)
            believed.extend([report] if checks else [])
            return took

        return once

    checked, unchecked = interleaved(ROUNDS, run(True), run(False))
    tests = [
        a["test"]["durationS"] for r in believed for item in r["built"] for a in item["attempts"]
    ]
    runs = sum(len(a["evidence"]["receipts"]) for i in believed[0]["built"] for a in i["attempts"])
    test = median(tests)
    print(
        f"\n{count} item(s), {os.cpu_count()} cores: {checked:.2f} s with all checks,"
        f" {unchecked:.2f} s with none, {checked - unchecked:+.2f} s;"
        f" one test takes {test:.2f} s, so that is {(checked - unchecked) / test:.1f} test runs"
        f" (goal: at most 1 where cores are free); {runs} test runs before integration"
    )


def _demo(place: Path, count: int, *, checks: bool, slow: bool) -> tuple[float, Report]:
    """Seconds, and the wave's report."""
    folder = demo.make(place)
    tracker = folder / "state" / "tracker.json"
    backlog = json.loads(tracker.read_text())
    backlog["items"] = backlog["items"][:count]
    for item in backlog["items"]:
        item["spotCheckFrac"] = 1 if checks else 0
        if slow:
            item["testCmd"] = [
                "sh",
                "-c",
                f'sleep {SLOW_TEST_S} && exec "$@"',
                "sh",
                *item["testCmd"],
            ]
    tracker.write_text(json.dumps(backlog))
    command = [
        *(sys.executable, str(ROOT / "driver" / "wave_scheduler.py"), "--execute"),
        *("--repo", str(folder / "repo"), "--config", str(folder / "tidegate.toml")),
        *("--state-dir", str(folder / "state"), "--tracker", str(tracker)),
        *("--max-items", str(count)),
    ]
    env = {**os.environ, **({} if checks else NOTHING)}
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    took = time.monotonic() - began
    report: Report = json.loads(done.stdout)["wave"]
    return took, report
