"""What a tracker of 100,000 items costs a person's cron: each number is a fresh process's.

Beside each stands what the same bytes cost to parse or to hash in a process that does nothing
else. Processor time, without the start of the program, medians, taken in turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import pytest

pytestmark = pytest.mark.bench
ITEMS = 100_000
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
