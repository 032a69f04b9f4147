"""The three-way merge: edits of people and of the machine survive, and only true conflicts stop."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from state_store.tracker.merge import (
    ABSENT,
    FILE,
    STORE,
    Change,
    Merge,
    MergeConflict,
    agreed,
    merge,
    merge_item,
    same,
)
from tests.support.two_writers import TwoWriters

Items = dict[str, dict[str, Any]]
NOTHING = Merge((), (), {}, {}, (), ())


def applied(found: Merge, store: Items, file: Items) -> tuple[Items, Items]:
    """Both sides after the merge, as `ingest` makes them."""
    store = {n: found.to_store.get(n, Change()).applied(item) for n, item in store.items()}
    for name in found.archived:
        store[name] = store[name] | {"status": "archived"}
    file = {n: found.to_file.get(n, Change()).applied(item) for n, item in file.items()}
    store |= {item["id"]: dict(item) for item in found.created}
    file |= {item["id"]: dict(item) for item in found.added_to_file}
    return store, file


@pytest.mark.parametrize(
    ("base", "store", "file", "to_store", "to_file"),
    [
        ({"p": 1}, {"p": 1}, {"p": 1}, Change(), Change()),
        ({"p": 1}, {"p": 1}, {"p": 2}, Change({"p": 2}), Change()),
        ({"p": 1}, {"p": 2}, {"p": 1}, Change(), Change({"p": 2})),
        ({"p": 1}, {"p": 2}, {"p": 2}, Change(), Change()),
        ({"p": 1, "q": 1}, {"p": 2, "q": 1}, {"p": 1, "q": 2}, Change({"q": 2}), Change({"p": 2})),
        ({"p": 1}, {"p": 1}, {}, Change(removed=("p",)), Change()),
        ({"p": 1}, {}, {"p": 1}, Change(), Change(removed=("p",))),
        ({}, {}, {"p": None}, Change({"p": None}), Change()),
        ({"p": 1}, {"p": 1}, {"p": True}, Change({"p": True}), Change()),
        ({"p": [1]}, {"p": [1]}, {"p": [1.0]}, Change({"p": [1.0]}), Change()),
        (None, {"p": 1}, {"q": 2}, Change({"q": 2}), Change({"p": 1})),
        ({}, {"id": "7"}, {"id": 7}, Change(), Change()),
    ],
)
def test_a_field_that_one_side_changed_goes_to_the_other(
    base: Any, store: Any, file: Any, to_store: Change, to_file: Change
) -> None:
    found = merge_item("x", base, store, file)
    assert (found.to_store, found.to_file, found.conflicts) == (to_store, to_file, ())


@pytest.mark.parametrize(
    ("base", "store", "file"),
    [
        ({"p": 1}, {"p": 2}, {"p": 3}),
        ({"p": 1}, {"p": 2}, {}),
        ({}, {"p": 2}, {"p": 3}),
        (None, {"p": 2}, {"p": 3}),
        ({"p": 0}, {"p": 1}, {"p": True}),
    ],
)
def test_a_field_changed_on_both_sides_is_reported_and_changed_on_neither(
    base: Any, store: Any, file: Any
) -> None:
    found = merge_item("x", base, {**store, "q": 1}, {**file, "q": 1})
    before = (base or {}).get("p", ABSENT)
    told = MergeConflict("x", "p", before, store.get("p", ABSENT), file.get("p", ABSENT))
    assert found.conflicts == (told,)
    assert not found.to_store
    assert not found.to_file


def test_a_conflict_holds_back_its_own_field_only() -> None:
    base, store, file = {"p": 1, "q": 1, "r": 1}, {"p": 2, "q": 2, "r": 1}, {"p": 3, "q": 1, "r": 2}
    found = merge_item("x", base, store, file)
    assert [conflict.field for conflict in found.conflicts] == ["p"]
    assert (found.to_store, found.to_file) == (Change({"r": 2}), Change({"q": 2}))


def test_a_conflict_stays_until_it_is_settled() -> None:
    base, store, file = {"x": {"p": 1}}, {"x": {"p": 2}}, {"x": {"p": 3}}
    again = merge(agreed(base, store, file), store, file)
    assert [conflict.base for conflict in again.conflicts] == [1]


@pytest.mark.parametrize(("side", "value"), [(FILE, 3), (STORE, 2)])
def test_a_preferred_side_settles_the_conflicts_of_its_item_only(side: str, value: int) -> None:
    base, store, file = ({n: {"p": v} for n in "xy"} for v in (1, 2, 3))
    found = merge(base, store, file, {"x": side})
    store_after, file_after = applied(found, store, file)
    assert store_after["x"]["p"] == file_after["x"]["p"] == value
    assert [conflict.item_id for conflict in found.conflicts] == ["y"]


@pytest.mark.parametrize(
    ("base", "store", "file", "value"),
    [
        ("", " [wave 1]", "mine", "mine [wave 1]"),
        ("ab", "ab [wave 1]", "xy", "xy [wave 1]"),
        ("ab", "ab [wave 1]", "abc", "abc [wave 1]"),
        ("ab", "ab [wave 1]", "a", "a [wave 1]"),
        ("ab", "xy [wave 1]", "xy", "xy [wave 1]"),
        ("", "mine [wave 1]", "mine", "mine [wave 1]"),
    ],
)
def test_what_we_add_to_notes_goes_behind_what_people_wrote(
    base: str, store: str, file: str, value: str
) -> None:
    found = merge_item("x", {"notes": base}, {"notes": store}, {"notes": file})
    assert found.conflicts == ()
    assert found.to_store.set.get("notes", store) == value
    assert found.to_file.set.get("notes", file) == value


def test_notes_that_both_rewrote_are_a_conflict() -> None:
    assert merge_item("x", {"notes": "a"}, {"notes": "b"}, {"notes": "c"}).conflicts


def an_item(**fields: Any) -> dict[str, Any]:
    return {"id": "x", "status": "todo", **fields}


@pytest.mark.parametrize(
    ("base", "store", "file", "expected"),
    [
        ({}, None, an_item(), "created"),
        (None, None, an_item(), "created"),
        ({}, an_item(), None, "added_to_file"),
        (None, an_item(), None, "added_to_file"),
        (an_item(), an_item(), None, "archived"),
        (an_item(), an_item(status="in_progress"), None, "archived"),
        (an_item(), an_item(status="archived"), None, None),
        ({}, an_item(status="archived"), None, None),
        (None, an_item(status="archived"), None, None),
        (an_item(), None, an_item(), "created"),
    ],
)
def test_an_item_that_one_side_has(base: Any, store: Any, file: Any, expected: str | None) -> None:
    known = None if base is None else {"x": base} if base else {}
    sides = [{} if item is None else {"x": item} for item in (store, file)]
    found = merge(known, *sides)
    done = {n for n in ("created", "added_to_file", "archived") if getattr(found, n)}
    assert done == ({expected} if expected else set())
    assert (found.to_store, found.to_file, found.conflicts) == ({}, {}, ())


def test_an_item_written_anew_after_its_deletion_is_the_persons() -> None:
    store = {"x": an_item(status="archived", completed_at="then")}
    found = merge({}, store, {"x": an_item(prompt="new")})
    assert applied(found, store, {})[0]["x"] == an_item(prompt="new")


def test_values_are_compared_as_json() -> None:
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same(1, True)
    assert not same([0], [False])
    assert not same(ABSENT, None)


def cut_off(chance: random.Random, merged: Items, before: Items) -> Items:
    """A side that a dying process has written, or has not come to."""
    return {n: dict(i) for n, i in (merged if chance.random() < 0.5 else before).items()}


def interleave(seed: int) -> None:
    chance = random.Random(seed)
    writers = TwoWriters(chance)
    base: Items | None = None
    for _ in range(chance.randrange(2, 8)):
        for _ in range(chance.randrange(6)):
            writers.human_edits() if chance.random() < 0.5 else writers.machine_edits()
        store = {n: {**item, "id": n} for n, item in writers.store.items()}
        file = {n: {**item, "id": n} for n, item in writers.file.items()}
        while chance.random() < 0.3:  # killed after the store, or after store and file
            store, merged_file = applied(merge(base, store, file), store, file)
            file = cut_off(chance, merged_file, file)
        found = merge(base, store, file)
        store, file = applied(found, store, file)
        base = agreed(base, store, file)
        again = merge(base, store, file)
        assert again == replace(NOTHING, conflicts=found.conflicts)
        writers.check(file, store, {(c.item_id, c.field) for c in found.conflicts})
        base = agreed(base, writers.store, writers.file)  # people accepted what the store has


@pytest.mark.parametrize("block", range(3))
def test_in_any_order_both_edits_survive(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        interleave(seed)


@pytest.mark.sweep
def test_in_any_order_both_edits_survive_sweep() -> None:
    for seed in range(1000, 21000):
        interleave(seed)
