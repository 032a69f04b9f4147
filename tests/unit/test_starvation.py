"""No stream of small items keeps a large urgent one from its turn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from driver.backlog.selection import select_disjoint


def nights(seed: int) -> None:
    """Each night brings small items, most of which want a file of the large one; what is taken is
    gone. The large one is the oldest of all, and nothing more urgent is there."""
    chance = random.Random(seed)
    wide = [f"src/f{n}.py" for n in range(chance.choice((3, 40, 300)))]
    large: dict[str, Any] = {"id": "large", "priority": "P1", "createdAt": 1, "ownsFiles": wide}
    backlog: list[dict[str, Any]] = []
    for night in range(30):
        for n in range(chance.randrange(12)):
            file = chance.choice(wide) if chance.random() < 0.8 else f"other/{night}-{n}.py"
            priority = chance.choice(("P3", "P3", "P2", None))
            backlog.append({"id": f"{night}-{n}", "priority": priority, "createdAt": night + 2,
                            "ownsFiles": [file]})  # fmt: skip
        offered = [*backlog, large]
        chance.shuffle(offered)
        taken = select_disjoint(offered, chance.randint(1, 8)).selected
        assert taken[0] is large
        backlog = [item for item in backlog if item not in taken]


def test_the_oldest_urgent_item_is_taken_every_night_it_is_there() -> None:
    for seed in range(10):
        nights(seed)


@pytest.mark.sweep
def test_the_oldest_urgent_item_is_taken_every_night_it_is_there_sweep() -> None:
    for seed in range(1000, 2000):
        nights(seed)
