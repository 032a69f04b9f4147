"""What is kept of a shipment, how it is found again, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backlog.publication_status import (
    Merged,
    PublicationStatus,
    Shipped,
    is_shipped,
    published_items_in,
    settled_fields,
    status_of,
)

ONE = Shipped("wave-1", "c1", "wave/x", "main", "base")
OURS = "Fix it\n\nWave-Id: wave-1\nItem-Id: A\nItem-Slug: a\n"
SQUASHED = f"Both (#7)\n\n* {OURS}\n* Other\n\nWave-Id: wave-1\nItem-Id: B\n\nCo-authored-by: X"
INDENTED = "Squashed commit\n\ncommit c1\n\n    " + OURS.replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (OURS, [("wave-1", "A")]),
        (SQUASHED, [("wave-1", "A"), ("wave-1", "B")]),
        (INDENTED, [("wave-1", "A")]),
        (OURS.replace("\n", "\r\n"), [("wave-1", "A")]),
        ("Item-Id: A\n", []),
        ("about Wave-Id: wave-1 and Item-Id: A", []),
        ("", []),
    ],
)
def test_shipments_are_found_wherever_their_trailers_stand(
    message: str, found: list[tuple[str, str]]
) -> None:
    assert [(one.wave, one.item) for one in published_items_in(message)] == found


@pytest.mark.parametrize(
    ("item", "shipped", "found"),
    [
        ("A", ONE, "s1"),
        ("A", Shipped("other wave", "s1", "b"), "s1"),  # the very commit
        ("A", Shipped("wave-10", "c9"), ""),
        ("A", Shipped("wave"), "s1"),  # all that the notes have of a wave's id is its beginning
        ("A", Shipped(), ""),
        ("A", None, "s1"),
        ("B", ONE, ""),
    ],
)
def test_only_the_items_own_shipment_counts(item: str, shipped: Shipped | None, found: str) -> None:
    assert Merged.of(published_items_in(OURS, "s1")).find(item, shipped) == found


def test_an_id_is_compared_as_messages_spell_it() -> None:
    landed = Merged.of(published_items_in("x\n\nWave-Id: w\nItem-Id: a\\nb\n", "s1"))
    assert landed.find("a\nb", None) == "s1"


@pytest.mark.parametrize(
    ("branch", "merged", "is_kept", "whole", "end"),
    [
        ("b", "s1", True, True, PublicationStatus.MERGED),
        ("b", "s1", False, False, PublicationStatus.MERGED),
        ("b", "", True, True, PublicationStatus.WAITS),
        ("b", "", True, False, PublicationStatus.WAITS),
        ("", "", False, True, PublicationStatus.WAITS),
        ("b", "", False, True, PublicationStatus.DROPPED),
        ("b", "", False, False, PublicationStatus.UNKNOWN),
    ],
)
def test_work_is_dropped_only_where_all_can_be_seen(
    branch: str, merged: str, is_kept: bool, whole: bool, end: PublicationStatus
) -> None:
    assert status_of(Shipped("w", "c", branch), merged, is_kept=is_kept, whole=whole) is end


def test_what_is_merged_is_done_and_keeps_where() -> None:
    item = {"status": "in_progress", "shipped": ONE.to_json(), "notes": "n"}
    told = settled_fields(item, ONE, PublicationStatus.MERGED, "s1")
    assert told == {"status": "done", "shipped": {**ONE.to_json(), "merged": "s1"}}


def test_what_was_dropped_is_to_do_again_and_says_so() -> None:
    item = {"status": "in_progress", "shipped": ONE.to_json(), "notes": "n [wave wave-1]"}
    assert settled_fields(item, ONE, PublicationStatus.DROPPED) == {
        "status": "todo",
        "shipped": None,
        "notes": "n [wave wave-1] [wave wave-1: wave/x was deleted and not merged; to do again]",
    }


@pytest.mark.parametrize(
    "item",
    [
        {"status": "done", "shipped": ONE.to_json()},
        {"status": "in_progress", "shipped": {**ONE.to_json(), "wave": "a later one"}},
        {"status": "in_progress"},
    ],
)
def test_what_moved_on_meanwhile_is_left_alone(item: dict[str, Any]) -> None:
    assert (
        settled_fields(item, ONE, PublicationStatus.DROPPED)
        == settled_fields(item, ONE, PublicationStatus.MERGED, "s1")
        == {}
    )


def test_an_item_that_a_person_takes_up_again_is_no_longer_a_shipment() -> None:
    again = {"status": "in_progress", "shipped": {**ONE.to_json(), "merged": "s1"}}
    assert not is_shipped(again)
    assert is_shipped({"status": "in_progress", "shipped": ONE.to_json()})
    assert not is_shipped({"status": "done", "shipped": ONE.to_json()})
    assert not is_shipped({"status": "in_progress"})


@pytest.mark.parametrize(
    ("item", "shipped"),
    [
        ({"shipped": ONE.to_json()}, ONE),
        ({"shipped": {"wave": 7, "mine": "x"}}, Shipped()),
        ({"shipped": "last week", "notes": "[wave 01234567]"}, Shipped("01234567")),
        ({"notes": "a [wave one] b [wave two]"}, Shipped("two")),
        ({"notes": ["x"]}, None),
        ({}, None),
    ],
)
def test_a_shipment_is_known_by_its_record_else_by_the_notes(
    item: dict[str, Any], shipped: Shipped | None
) -> None:
    assert Shipped.of(item) == shipped
