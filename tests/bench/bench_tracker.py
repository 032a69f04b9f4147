"""What a tracker of 100,000 items costs a person's cron: each number is a fresh process's.

Beside each stands what the same bytes cost to parse or to hash in a process that does nothing
else. Processor time, without the start of the program, medians, taken in turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from tests.bench.cycles import Cycles, Spent

pytestmark = pytest.mark.bench
ITEMS = 100_000
FEW = 5
PROGRAM = Path(__file__).with_name("tracker_work.py")
Run = tuple[float, float, float]  # milliseconds of processor, of wall time, MiB


def a_tracker(path: Path, open_items: int) -> Path:
    every = ITEMS // open_items
    items = [
        {
            "id": f"T-{n}",
            "slug": f"item-{n}",
            "title": f"the title of item {n}",
            "status": "done" if n % every else "todo",
            "priority": f"P{n % 3 + 1}",
            "createdAt": (datetime(2026, 1, 1) + timedelta(seconds=97 * n)).isoformat() + "Z",
            "prompt": "Round once, when the total is printed. " * 4,
            "ownsFiles": [f"src/f{n}.py", f"tests/test_f{n}.py"],
            "testCmd": f"python -m pytest -q tests/test_f{n}.py",
        }
        for n in range(ITEMS)
    ]
    path.write_text(json.dumps({"version": 1, "items": items}, indent=2), encoding="utf-8")
    return path


def measured(work: str, tracker: Path, state: Path) -> Run:
    """One process of `tracker_work`."""
    command = [sys.executable, str(PROGRAM), work, str(tracker), str(state)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu, wall, memory = map(float, done.stdout.split())
    return cpu, wall, memory


def told(name: str, runs: list[Run], of: float | None = None) -> float:
    cpu, wall, memory = (median(column) for column in zip(*runs, strict=True))
    ratio = "" if of is None else f", {cpu / of:.2f} x"
    print(f"  {name}: {cpu:.0f} ms of processor ({wall:.0f} ms){ratio}, {memory:.0f} MiB")
    return cpu


def in_turns(rounds: int, tracker: Path, works: dict[str, str]) -> dict[str, list[Run]]:
    """Each of the works, by what it is called, in each round with a state folder of its own."""
    runs: dict[str, list[Run]] = {called: [] for called in works}
    for number in range(rounds):
        state = tracker.parent / f"state{number}"
        state.mkdir()
        for called, work in works.items():
            runs[called].append(measured(work, tracker, state))
    return runs


@pytest.mark.parametrize("open_items", [1_000, 10_000, 100_000])
def test_intake(tmp_path: Path, open_items: int) -> None:
    tracker = a_tracker(tmp_path / "tracker.json", open_items)
    runs = in_turns(7, tracker, {"the program": "imports", "parsing": "parse", "first": "intake",
                                 "kept": "keep", "hashing": "digest",
                                 "unchanged": "intake"})  # fmt: skip
    size = tracker.stat().st_size / 2**20
    print(f"\nintake, {ITEMS:,} items, {open_items:,} of them open, {size:.0f} MiB")
    told("the program", runs["the program"])
    told("first", runs["first"], told("parsing", runs["parsing"]))
    told("read and kept for the next", runs["kept"])
    told("unchanged", runs["unchanged"], told("hashing", runs["hashing"]))


def test_sync(tmp_path: Path) -> None:
    tracker = a_tracker(tmp_path / "tracker.json", 10_000)
    runs = in_turns(3, tracker, {"parsing": "parse", "first": "sync", "hashing": "digest",
                                 "unchanged": "sync"})  # fmt: skip
    print(f"\nsync with the store, {ITEMS:,} items")
    told("first", runs["first"], told("parsing", runs["parsing"]))
    told("unchanged", runs["unchanged"], told("hashing", runs["hashing"]))


def test_cycle(tmp_path: Path) -> None:
    """Whole cycles with all open items: processor time of the program and of all it starts. The
    same run with five items stands beside it, for agents, tests and git cost what they cost."""
    runs: dict[str, list[Spent]] = {}
    for number in range(3):
        long, short = (Cycles(tmp_path / f"{number}-{count}", count) for count in (ITEMS, 3 * FEW))
        works: dict[str, Callable[[], Spent]] = {
            "parsing": long.parse,
            "dry run": partial(long.run, "--dry-run"),
            "execute, first": partial(long.run, "--execute", "--max-items", f"{FEW}"),
            "execute, next": partial(long.run, "--execute", "--max-items", f"{FEW}"),
            "a short tracker, first": partial(short.run, "--execute", "--max-items", f"{FEW}"),
            "a short tracker, next": partial(short.run, "--execute", "--max-items", f"{FEW}"),
        }
        for called, run in works.items():
            runs.setdefault(called, []).append(run())
    print(f"\ncycles, {ITEMS:,} open items, {FEW} of them taken")
    base = median(seconds for seconds, _ in runs["parsing"])
    for called, spent in runs.items():
        seconds, size = (median(column) for column in zip(*spent, strict=True))
        print(f"  {called}: {seconds:.2f} s of processor, {seconds / base:.2f} x, {size:.0f} MiB")


def test_a_change_of_status(tmp_path: Path) -> None:
    tracker = a_tracker(tmp_path / "tracker.json", ITEMS)
    (tmp_path / "state").mkdir()
    measured("sync", tracker, tmp_path / "state")
    runs: dict[str, list[Run]] = {"hashing": [], "writing": [], "a change": []}
    for _ in range(5):
        runs["hashing"].append(measured("digest", tracker, tmp_path / "state"))
        runs["writing"].append(measured("rewrite", tracker, tmp_path / "state"))
        runs["a change"].append(measured("change", tracker, tmp_path / "state"))
    print(f"\na change of status, {ITEMS:,} open items")
    told("hashing", runs["hashing"])
    told("a change", runs["a change"], told("writing", runs["writing"]))
