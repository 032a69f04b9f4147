"""The set of items a wave takes is the best one, whatever the instance."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from driver.backlog.packing import Packing, TooHardError
from driver.backlog.selection import select_disjoint

Masks = list[int]


def best_by_dynamic_programming(levels: Sequence[int], clashes: Masks, limit: int) -> list[int]:
    """The same question answered another way: item by item, keeping for each set of items that
    are still barred the best that can be done with every number of places."""
    depth = max(levels, default=0) + 1
    known: dict[tuple[int, int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def best(number: int, barred: int, room: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if number == len(levels) or not room:
            return (0,) * depth, ()
        # Only items still to come matter, so that many ways lead to one question.
        state = number, barred >> number, room
        if state not in known:
            known[state] = max(answers(number, barred, room), key=rank)
        return known[state]

    def answers(
        number: int, barred: int, room: int
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        yield best(number + 1, barred, room)
        if not barred >> number & 1:
            counts, chosen = best(number + 1, barred | clashes[number], room - 1)
            level = levels[number]
            counts = tuple(n + (at == level) for at, n in enumerate(counts))
            yield counts, (number, *chosen)

    def rank(answer: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Any, ...]:
        counts, chosen = answer
        return counts, tuple(-n for n in chosen)

    return list(best(0, 0, limit)[1])


def an_instance(rng: random.Random) -> tuple[list[dict[str, Any]], list[int], Masks]:
    """Items over few files, their levels in order, and who clashes with whom."""
    size, files = rng.randint(1, 40), rng.choice([6, 12, 20, 40, 80])
    owned = [rng.sample(range(files), rng.randint(1, 4)) for _ in range(size)]
    levels = sorted(rng.choice([1, 2, 3]) for _ in range(size))
    items = [
        {"id": f"i{n}", "priority": f"P{levels[n]}", "createdAt": n,
         "ownsFiles": [f"d/{file}.py" for file in owned[n]]}
        for n in range(size)
    ]  # fmt: skip
    clashes = [
        sum(1 << m for m in range(size) if m != n and set(owned[n]) & set(owned[m]))
        for n in range(size)
    ]
    return items, [level - 1 for level in levels], clashes


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.sweep)])
def test_random_backlogs_are_selected_as_an_independent_solver_would(count: int) -> None:
    rng = random.Random(20260131)
    for _ in range(count):
        items, levels, clashes = an_instance(rng)
        limit = rng.choice([1, 3, 5, 10, 40])
        rng.shuffle(items)
        selection = select_disjoint(items, limit)
        wanted = best_by_dynamic_programming(levels, clashes, limit)
        assert selection.exact
        assert [item["id"] for item in selection.selected] == [f"i{n}" for n in wanted]


def test_every_set_of_a_small_instance_is_no_better() -> None:
    rng = random.Random(7)
    for _ in range(60):
        size = rng.randint(1, 9)
        pairs = [(a, b) for a in range(size) for b in range(a) if rng.random() < 0.3]
        clashes = [0] * size
        for a, b in pairs:
            clashes[a] |= 1 << b
            clashes[b] |= 1 << a
        levels = sorted(rng.choice([0, 1, 2]) for _ in range(size))
        limit = rng.randint(1, size)
        free = [s for s in range(1 << size) if s.bit_count() <= limit and allowed(s, clashes)]
        best = max(free, key=lambda s: worth(s, levels))
        assert Packing(levels, clashes).best(limit) == numbers(best)


def allowed(members: int, clashes: Masks) -> bool:
    return not any(clashes[n] & members for n in numbers(members))


def worth(members: int, levels: Sequence[int]) -> tuple[Any, ...]:
    counts = [sum(levels[n] == level for n in numbers(members)) for level in range(3)]
    return counts, [-n for n in numbers(members)]


def numbers(members: int) -> tuple[int, ...]:
    return tuple(n for n in range(members.bit_length()) if members >> n & 1)


def test_a_search_that_takes_too_long_is_given_up() -> None:
    rng = random.Random(3)
    size = 40
    clashes = [0] * size
    for a in range(size):
        for b in range(a):
            if rng.random() < 0.2:
                clashes[a] |= 1 << b
                clashes[b] |= 1 << a
    with pytest.raises(TooHardError):
        Packing([0] * size, clashes, budget=5).best(size)


def test_forty_items_are_within_the_budget_however_they_clash() -> None:
    rng = random.Random(11)
    for density in (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9):
        for _ in range(8):
            clashes = [0] * 40
            for a in range(40):
                for b in range(a):
                    if rng.random() < density:
                        clashes[a] |= 1 << b
                        clashes[b] |= 1 << a
            Packing([0] * 40, clashes).best(40)
            Packing([0] * 40, clashes).best(7)


def test_a_long_backlog_of_clashing_items_is_taken_in_order_and_says_so() -> None:
    items = [
        {"id": f"i{n}", "createdAt": n, "ownsFiles": [f"{n // 2}.py", f"{(n + 1) // 2}.py"]}
        for n in range(200)
    ]
    began = time.process_time()
    selection = select_disjoint(items, 200)
    assert time.process_time() - began < 2
    assert not selection.exact
    assert selection.selected[0]["id"] == "i0"
