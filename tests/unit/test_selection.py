"""The order of the backlog, and that no two items of a wave own one file."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from driver.backlog.order import filter_todo_items
from driver.backlog.selection import select_disjoint, select_disjoint_items


def an_item(name: str, *files: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "slug": name, "status": "todo", "ownsFiles": list(files or [name]), **more}


def ids(items: Any) -> list[str]:
    return [item["id"] for item in items]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": "P1"}, {"priority": "P2"}),
        ({"priority": "P2"}, {"priority": "P3"}),
        ({"priority": "P2"}, {}),
        ({"priority": "P2"}, {"priority": "urgent"}),
        ({"priority": "P2"}, {"priority": 1}),
        ({"priority": "P1", "createdAt": 9}, {"priority": "P2", "createdAt": 1}),
        ({"createdAt": "2026-01-01"}, {"createdAt": "2026-01-02"}),
        ({"created_at": "2026-01-01T00:00:00Z"}, {"createdAt": "2026-01-02T00:00:00Z"}),
        ({"createdAt": "2026-01-01T12:00:00+02:00"}, {"createdAt": "2026-01-01T11:00:00Z"}),
        ({"createdAt": 1_700_000_000}, {"createdAt": "2026-01-01"}),
        ({"createdAt": 1_700_000_000_000}, {"createdAt": "2026-01-01"}),
        ({"createdAt": "2026-01-01"}, {}),
        ({"createdAt": "2026-01-01"}, {"createdAt": "last week"}),
        ({"createdAt": "2026-01-01"}, {"createdAt": True}),
        ({"createdAt": "2026-01-01"}, {"createdAt": float("nan")}),
        ({"createdAt": "2026-01-01"}, {"createdAt": 10**400}),
        ({"ownsFiles": ["a"]}, {"ownsFiles": ["b", "c"]}),
        ({"priority": "P1", "ownsFiles": ["b", "c"]}, {"ownsFiles": ["a"]}),
        ({"createdAt": 1, "ownsFiles": ["b", "c"]}, {"createdAt": 2, "ownsFiles": ["a"]}),
    ],
)
def test_priority_goes_before_age_and_age_before_size(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    items = [{**second, "status": "todo"}, {**first, "status": "todo"}]
    assert filter_todo_items(items) == items[::-1]


def test_equals_keep_their_place_in_the_file() -> None:
    assert ids(filter_todo_items([an_item(name) for name in "cab"])) == ["c", "a", "b"]


def test_only_todo_items_are_taken() -> None:
    states = ["done", "in_progress", "archived", None, "todo", "Todo", "failed"]
    items = [an_item(str(n), status=state) for n, state in enumerate(states)]
    assert ids(filter_todo_items(items)) == ["4"]


def test_an_urgent_item_with_many_files_beats_a_small_one() -> None:
    small = an_item("small", "a.py", priority="P3")
    urgent = an_item("urgent", "a.py", "b.py", priority="P1")
    selection = select_disjoint([small, urgent], 1)
    assert ids(selection.selected) == ["urgent"]
    assert [(s.id, s.reason) for s in selection.skipped] == [("small", "max_items")]
    assert select_disjoint_items([small, urgent], 5) == ([urgent], ["small"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (an_item("a", "x.py"), an_item("b", "./x.py")),
        (an_item("a", "x.py"), an_item("b", "X.PY")),
        (an_item("a", "docs/"), an_item("b", "docs/x.md")),
        (an_item("a", "docs/x.md"), an_item("b", "docs/")),
        (an_item("a", "a.py", workDir="sub"), an_item("b", "sub/a.py")),
        (an_item("a", "a.py", repo="/r"), an_item("b", "a.py", repo="/r/")),
        (an_item("a", "a.py", repo="/r"), an_item("b", "a.py")),
        (an_item("a", "a.py", repo="/r"), an_item("b", "a.py", workDir="/r")),
        (an_item("a", "sub/a.py"), an_item("b", "a.py", workDir="/r/sub")),
        (an_item("a", "a.py", repo="C:\\r"), an_item("b", "a.py", repo="c:/r")),
    ],
)
def test_one_place_in_two_spellings_is_taken_once(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    selection = select_disjoint([one, other], 9, default_repo="/r")
    (left_out,) = selection.skipped
    assert ids(selection.selected) == ["a"]
    assert (left_out.id, left_out.reason, left_out.clash) == ("b", "overlap", "a")
    assert "'a'" in left_out.detail


def test_an_overlap_is_told_in_names_of_the_repository() -> None:
    wide = an_item("wide", "src/")
    one = an_item("one", "src/a.py")
    (left_out,) = select_disjoint([wide, one], 9, default_repo="/home/me/shop").skipped
    assert left_out.detail == "'src/a.py' of 'one' overlaps 'src' of 'wide'"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (an_item("a", "x.py", workDir="s1"), an_item("b", "x.py", workDir="s2")),
        (an_item("a", "x.py", repo="/r"), an_item("b", "x.py", repo="/s")),
        (an_item("a", "x.py", repo="/s"), an_item("b", "x.py")),
        (an_item("a", "docs/"), an_item("b", "docs2/x.md")),
    ],
)
def test_different_places_go_into_one_wave(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not select_disjoint([one, other], 9, default_repo="/r").skipped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ownsFiles": ["../x"]}, "invalid_path"),
        ({"ownsFiles": [3]}, "invalid_ownsFiles_entries"),
        ({"ownsFiles": []}, "no_file_ownership"),
        ({"ownsFiles": None}, "no_file_ownership"),
        ({"ownsFiles": {"a": 1}}, "no_file_ownership"),
        ({"workDir": 3}, "invalid_workDir"),
        ({"repo": 3}, "invalid_repo"),
    ],
)
def test_a_broken_item_is_left_out_with_its_reason_not_the_wave(
    changes: dict[str, Any], reason: str
) -> None:
    selection = select_disjoint([an_item("bad", **changes), an_item("good")], 9)
    assert ids(selection.selected) == ["good"]
    assert [(s.id, s.reason) for s in selection.skipped] == [("bad", reason)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_selects_nothing(limit: int) -> None:
    assert [s.reason for s in select_disjoint([an_item("a")], limit).skipped] == ["max_items"]


def test_every_item_is_either_taken_or_told_why_not() -> None:
    names = ["a", "A", "a/b", "c/", "c/d", "e"]
    for order in itertools.permutations(names):
        selection = select_disjoint([an_item(name) for name in order], 3)
        told = ids(selection.selected) + [left_out.id for left_out in selection.skipped]
        assert sorted(told) == sorted(names)


def test_ten_thousand_items_are_ordered_and_compared_in_a_moment() -> None:
    items = [an_item(f"i{n}", f"d{n % 50}/f{n}.py", f"e/{n}/") for n in range(10_000)]
    began = time.process_time()
    assert len(select_disjoint(items, 10_000).selected) == 10_000
    assert time.process_time() - began < 5


def test_two_urgent_items_are_taken_in_the_stead_of_an_older_one_that_bars_both() -> None:
    wide = an_item("wide", "a.py", "b.py", priority="P1", createdAt=1)
    pair = [an_item(n, f"{n}.py", priority="P1", createdAt=2) for n in "ab"]
    selection = select_disjoint([wide, *pair], 5)
    assert ids(selection.selected) == ["a", "b"]
    assert [(s.id, s.reason, s.clash) for s in selection.skipped] == [("wide", "overlap", "a")]


def test_no_number_of_small_items_outweighs_an_urgent_one() -> None:
    files = [f"{n}.py" for n in range(50)]
    urgent = an_item("urgent", *files, priority="P1")
    small = [an_item(f"s{n}", file, priority="P3", createdAt=1) for n, file in enumerate(files)]
    assert ids(select_disjoint([*small, urgent], 50).selected) == ["urgent"]


def test_less_urgent_items_are_fitted_around_more_urgent_ones_as_many_as_can_be() -> None:
    urgent = an_item("urgent", "u.py", priority="P1")
    items = [urgent, an_item("b", "b.py", "c.py", priority="P2", createdAt=1)]
    items += [an_item(n, f"{n}.py", priority="P2", createdAt=2) for n in ("b2", "c2")]
    items[2]["ownsFiles"], items[3]["ownsFiles"] = ["b.py"], ["c.py"]
    assert ids(select_disjoint(items, 9).selected) == ["urgent", "b2", "c2"]
    assert ids(select_disjoint(items, 2).selected) == ["urgent", "b"]


def test_the_oldest_urgent_item_is_not_starved_by_a_stream_of_small_ones() -> None:
    for count in (1, 5, 40):
        wide = an_item("wide", "a/", "b.py", "c.py", priority="P1", createdAt=1)
        for night in range(20):
            stream = [
                an_item(f"n{night}-{n}", f"a/{n}.py" if n % 2 else f"z{n}.py", createdAt=night + 2)
                for n in range(count)
            ]
            assert "wide" in ids(select_disjoint([*stream, wide], 5).selected)


def test_an_empty_date_in_one_key_leaves_the_other_to_speak() -> None:
    both = [an_item("a", createdAt=6), an_item("b", createdAt=None, created_at=5)]
    assert ids(filter_todo_items(both)) == ["b", "a"]


def test_a_level_that_fills_the_wave_needs_no_search() -> None:
    items = [an_item(f"i{n}", f"{n % 90}.py", createdAt=n) for n in range(5_000)]
    selection = select_disjoint(items, 5)
    assert (selection.exact, ids(selection.selected)) == (True, [f"i{n}" for n in range(5)])


def test_of_nothing_nothing_is_taken() -> None:
    assert select_disjoint([], 5).selected == ()
