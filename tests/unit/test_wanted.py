"""A run can be asked for a part of the backlog, and a slip in the asking is told."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backlog.item_filter import ItemFilter
from state_store.documents.errors import InputError

ITEMS: list[dict[str, Any]] = [
    {"id": 1, "slug": "a", "status": "todo", "labels": ["ui", "fast"], "lane": "web"},
    {"id": "T-2", "slug": "b", "status": "todo", "tags": ["ui"], "lane": "core"},
    {"id": "T-3", "slug": "c", "status": "todo", "label": "slow"},
    {"id": "T-4", "slug": "d", "status": "done", "labels": "ui"},
]


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (ItemFilter(), "abcd"),
        (ItemFilter(only=("a", "c")), "ac"),
        (ItemFilter(only=("1", "T-2")), "ab"),
        (ItemFilter(labels=("ui",)), "abd"),
        (ItemFilter(labels=("fast", "slow")), "ac"),
        (ItemFilter(lane="web"), "a"),
        (ItemFilter(labels=("ui",), lane="core"), "b"),
        (ItemFilter(only=("a",), lane="core"), ""),
    ],
)
def test_all_that_is_asked_for_must_hold(wanted: ItemFilter, taken: str) -> None:
    asked, others = wanted.split(ITEMS)
    assert "".join(ITEMS[number]["slug"] for number in asked) == taken
    assert len(asked) + len(others) == len(ITEMS)
    assert {left_out.reason for left_out in others} <= {"not_asked_for"}


def test_a_name_that_is_no_item_to_do_is_an_error_that_says_which() -> None:
    ItemFilter(only=("a", "T-2")).not_open(ITEMS)
    with pytest.raises(InputError) as caught:
        ItemFilter(only=("a", "x", "d")).not_open(ITEMS)
    assert caught.value.problems == (
        "--only x: the tracker has no item with this slug or id",
        "--only d: its status is 'done', not 'todo'",
    )


def test_open_items_run_beside_named_ones_that_are_not_open() -> None:
    (beside,) = ItemFilter(only=("a", "d")).not_open(ITEMS)
    assert (beside.id, beside.reason) == ("d", "not_open")
    assert beside.detail == "its status is 'done', not 'todo'"
    with pytest.raises(InputError):
        ItemFilter(only=("d",)).not_open(ITEMS)


def test_a_slug_that_was_used_before_is_still_one_to_do() -> None:
    again = {"id": "T-9", "slug": "d", "status": "todo"}
    assert ItemFilter(only=("d",)).not_open([again, *ITEMS]) == []
    assert ItemFilter(only=("d",)).not_open([*ITEMS, again]) == []
