"""An item waits until what it depends on is shipped or done."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backlog.dependencies import waiting
from state_store.documents.errors import InputError


def an_item(name: str, status: str = "todo", **more: Any) -> dict[str, Any]:
    return {"id": name, "slug": f"slug-{name}", "status": status, **more}


def told(*items: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {name: (left.reason, left.clash) for name, left in waiting(items).items()}


@pytest.mark.parametrize("status", ["done", "in_progress", "archived"])
def test_what_is_shipped_or_done_holds_nobody_up(status: str) -> None:
    assert told(an_item("a", status), an_item("b", dependsOn=["a"])) == {}


@pytest.mark.parametrize("status", ["todo", "blocked", "claimed", "proposed", None])
@pytest.mark.parametrize("named", [["a"], "a", ["slug-a"]])
def test_what_is_neither_holds_its_dependants_up(status: str, named: Any) -> None:
    clash = named if isinstance(named, str) else named[0]
    items = an_item("a", status), an_item("b", dependsOn=named)
    assert told(*items) == {"b": ("waits_for_dependency", clash)}


def test_a_number_names_an_item_too() -> None:
    items = [{"id": 7, "slug": "x", "status": "todo"}, an_item("b", dependsOn=7)]
    assert waiting(items)["b"].detail == "waits for '7', whose status is 'todo'"


def test_a_dependency_nobody_knows_is_named_and_stops_only_its_dependant() -> None:
    items = [an_item("a"), an_item("b", dependsOn=["a", "gone"]), an_item("c", dependsOn="gone")]
    assert told(*items) == {
        "b": ("waits_for_dependency", "a"),
        "c": ("unknown_dependency", "gone"),
    }
    assert "'gone'" in waiting(items)["c"].detail


def test_whoever_waits_for_an_item_that_waits_is_held_up_as_well() -> None:
    items = an_item("a"), an_item("b", dependsOn="a"), an_item("c", dependsOn="b")
    assert told(*items).keys() == {"b", "c"}


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        ({"a": "a"}, "a -> a"),
        ({"a": "b", "b": "a"}, None),
        ({"a": "b", "b": "c", "c": "a", "d": "a"}, None),
        ({"a": "slug-b", "b": "a"}, None),
    ],
)
def test_a_circle_is_an_error_that_names_its_members(
    edges: dict[str, str], circle: str | None
) -> None:
    with pytest.raises(InputError, match="has a cycle") as caught:
        waiting([an_item(name, dependsOn=other) for name, other in edges.items()])
    assert circle is None or circle in str(caught.value)
    assert "'d'" not in str(caught.value)


def test_a_circle_of_finished_items_matters_to_nobody() -> None:
    assert told(an_item("a", "done", dependsOn="b"), an_item("b", dependsOn="a")) == {}


@pytest.mark.parametrize("value", [{}, [1.5], [None], [[]], True, ""])
@pytest.mark.parametrize("status", ["todo", "blocked"])
def test_a_depends_on_that_names_nothing_stops_its_own_item_only(value: Any, status: str) -> None:
    items = an_item("a", status, dependsOn=value), an_item("b"), an_item("c", dependsOn="a")
    mine = {"a": ("invalid_dependsOn", None)} if status == "todo" else {}
    assert told(*items) == {**mine, "c": ("waits_for_dependency", "a")}


@pytest.mark.parametrize("value", [None, []])
def test_no_dependency_is_none(value: Any) -> None:
    assert told(an_item("a", dependsOn=value)) == {}


def test_what_is_finished_and_not_where_waves_start_from_is_waited_for() -> None:
    items = [an_item("a", "in_progress"), an_item("b", dependsOn="a")]
    left = waiting(items, absent={"a": "which is in no commit"})["b"]
    assert (left.clash, left.detail) == ("a", "waits for 'a', which is in no commit")
