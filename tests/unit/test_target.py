"""Which items still fit on a branch that moved on: by paths, exactly."""

from __future__ import annotations

import pytest

from driver.domain.results import MODE_FILE, MODE_PROGRAM, Change
from driver.workspace.base_branch import already_made, conflicts


def put(path: str, blob: str = "1", mode: str = MODE_FILE) -> Change:
    return Change(path, mode, blob, None)


def gone(path: str) -> Change:
    return Change(path, None, None, MODE_FILE)


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ([put("a")], [put("b")], ()),
        ([put("a", "1")], [put("a", "2")], ("a",)),
        ([put("a", "1")], [put("a", "1")], ()),
        ([put("a", "1")], [put("a", "1", MODE_PROGRAM)], ("a",)),
        ([put("a")], [gone("a")], ("a",)),
        ([gone("a")], [put("a")], ("a",)),
        ([gone("a")], [gone("a")], ()),
        # A file where the others have a folder, and a folder where they have a file.
        ([put("a")], [put("a/b")], ("a",)),
        ([put("a/b/c")], [put("a")], ("a/b/c",)),
        ([put("a/b")], [gone("a")], ()),
        ([put("ab")], [put("a")], ()),
        ([put("a"), put("b"), put("c")], [put("c", "2"), put("a", "2")], ("a", "c")),
    ],
)
def test_a_path_that_both_sides_changed_differently_does_not_fit(
    mine: list[Change], theirs: list[Change], found: tuple[str, ...]
) -> None:
    assert conflicts(mine, theirs) == found


def test_work_is_there_only_when_all_of_it_is_there_to_the_letter() -> None:
    mine = [put("a"), gone("b")]
    assert already_made(mine, [gone("b"), put("a"), put("c")])
    assert not already_made(mine, [put("a")])
    assert not already_made(mine, [put("a", "2"), gone("b")])
