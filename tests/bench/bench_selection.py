"""How long it takes to choose a wave's items exactly."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Any

import pytest

from driver.backlog.selection import select_disjoint

pytestmark = pytest.mark.bench


def a_backlog(rng: random.Random, count: int, files: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"i{n}",
            "priority": rng.choice(["P1", "P2", "P3"]),
            "createdAt": rng.random(),
            "ownsFiles": [f"src/{f}.py" for f in rng.sample(range(files), rng.randint(1, 4))],
        }
        for n in range(count)
    ]


def timed(items: list[dict[str, Any]], limit: int) -> float:
    """In milliseconds."""
    began = time.perf_counter()
    select_disjoint(items, limit)
    return (time.perf_counter() - began) * 1_000


@pytest.mark.parametrize(
    ("count", "files", "limit"),
    [(40, 15, 5), (40, 30, 40), (60, 60, 60), (60, 60, 5), (200, 200, 8), (10_000, 10_000, 8)],
)
def test_selection(count: int, files: int, limit: int) -> None:
    rng = random.Random(1)
    took = []
    exact = 0
    for _ in range(50 if count < 1_000 else 3):
        items = a_backlog(rng, count, files)
        exact += select_disjoint(items, limit).exact
        took.append(min(timed(items, limit) for _ in range(3)))
    print(
        f"\n{count} items, {files} files, at most {limit}: median {median(took):.1f} ms,"
        f" slowest {max(took):.1f} ms, exact {exact} of {len(took)}"
    )
