"""What a tracker of 100,000 items costs, beside parsing and hashing its bytes."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driver.cycle_context import Cycle
from driver.intake import taken
from driver.survey import Survey
from driver.tracker import TrackerReader
from driver.wanted import Wanted
from state_store.api import StateAPI
from state_store.ingest import sync_tracker
from state_store.tracker_file import read_tracker_file

pytestmark = pytest.mark.bench
ITEMS = 100_000


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tracker") / "tracker.json"
    items = [
        {
            "id": f"T-{n}",
            "slug": f"item-{n}",
            "title": f"the title of item {n}",
            "status": "todo" if n % 10 == 0 else "done",
            "priority": f"P{n % 3 + 1}",
            "createdAt": f"2026-01-{n % 28 + 1:02}T09:00:00Z",
            "prompt": "Round once, when the total is printed. " * 4,
            "ownsFiles": [f"src/f{n}.py", f"tests/test_f{n}.py"],
            "testCmd": "python -m pytest -q",
        }
        for n in range(ITEMS)
    ]
    path.write_text(json.dumps({"version": 1, "items": items}, indent=2), encoding="utf-8")
    return path


def side_by_side(times: int, *works: Callable[[], object]) -> list[float]:
    """The median milliseconds of each, in turns."""
    took: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, found in zip(works, took, strict=True):
            began = time.perf_counter()
            work()
            found.append((time.perf_counter() - began) * 1e3)
    return [median(found) for found in took]


def a_cycle(tracker: Path) -> Cycle:
    asked: Any = SimpleNamespace(
        tracker=tracker, max_items=5, wanted=Wanted(), repo=tracker.parent, options=None,
        state_dir=tracker.parent / "state",
        survey=Survey({}), environ={}, reader=TrackerReader(),
    )  # fmt: skip
    return cast("Cycle", asked)


def test_intake(tracker: Path) -> None:
    cycle = a_cycle(tracker)

    def anew() -> None:
        cycle.reader.forget()
        taken(cycle, {})

    parse, read, take, again = side_by_side(
        5,
        lambda: json.loads(tracker.read_bytes()),
        lambda: read_tracker_file(tracker),
        anew,
        lambda: taken(cycle, {}),
    )
    print(
        f"\n{ITEMS:,} items, {tracker.stat().st_size / 2**20:.0f} MiB: parsing {parse:.0f} ms, "
        f"reading {read:.0f} ms ({read / parse:.2f} x), choosing too {take:.0f} ms "
        f"({take / parse:.2f} x), again in the same cycle {again:.0f} ms"
    )


def test_unchanged(tracker: Path, tmp_path: Path) -> None:
    with StateAPI(tmp_path / "a.db") as api:
        began = time.perf_counter()
        sync_tracker(api, tracker)
        first = time.perf_counter() - began
        digest, again = side_by_side(
            9,
            lambda: hashlib.sha256(tracker.read_bytes()).hexdigest(),
            lambda: sync_tracker(api, tracker),
        )
    print(
        f"\nfirst sync {first:.1f} s; unchanged: hashing {digest:.1f} ms, sync {again:.1f} ms "
        f"({again / digest:.2f} x)"
    )
