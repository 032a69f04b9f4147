"""The columns of a block are what each item says by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from driver.backlog.plain_items import faults_in
from driver.backlog.tracker_index import IndexBuilder
from state_store.values.columns import Block, column

FIELDS = ("id", "status", "dependsOn", "priority")


def blocks() -> list[list[dict[str, Any]]]:
    """Blocks of items that have the same fields, in one order or in several, and other fields."""
    chance = random.Random(1)
    alike = [{name: chance.randrange(3) for name in FIELDS} for _ in range(5)]
    turned = [dict(reversed(one.items())) if n % 2 else one for n, one in enumerate(alike)]
    mixed = [{k: v for k, v in one.items() if chance.random() < 0.7} for one in alike]
    return [alike, turned, mixed, [*alike, {}], [{}], [{}, {}]]


@pytest.mark.parametrize("items", blocks())
def test_a_column_has_the_value_of_each_item(items: list[dict[str, Any]]) -> None:
    block = Block(items)
    assert list(block) == items
    assert block.fields == {name for one in items for name in one}
    for name in (*FIELDS, "none"):
        wanted = [one.get(name) for one in items]
        assert list(column(block, name)) == list(column(items, name)) == wanted


def open_items(change: dict[str, Any], at: int) -> Sequence[dict[str, Any]]:
    made = [
        {
            "id": f"I{n}",
            "slug": f"i{n}",
            "status": "todo",
            "prompt": "p",
            "testCmd": "t",
            "ownsFiles": [f"f{n}"],
        }
        for n in range(4)
    ]
    made[at] |= change
    return made


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"id": 7},
        {"id": ""},
        {"slug": None},
        {"ownsFiles": []},
        {"ownsFiles": "f"},
        {"repo": "/r"},
        {"dependsOn": ["I1"]},
        {"nextAttemptAt": "2026-01-01T00:00:00Z"},
        {"createdAt": 5, "priority": "P1"},
        {"status": "done"},
        {"status": "claimed"},
    ],
)
def test_an_index_is_the_same_by_blocks_and_one_by_one(change: dict[str, Any], at: int) -> None:
    items = open_items(change, at)
    ids = [f"I{n}" for n in range(4)]
    together, single = IndexBuilder(), IndexBuilder()
    together.add(0, Block(items))
    for number, item in enumerate(items):
        single.add(number, Block([item]))
    assert together.index("", items, ids, ()) == single.index("", items, ids, ())
    one_by_one = [(n, why) for n, item in enumerate(items) for _, why in faults_in([item])]
    assert list(faults_in(Block(items))) == one_by_one
