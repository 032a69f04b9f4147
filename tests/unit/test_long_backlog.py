"""Test commands are parsed for the items that a wave could take, and for no others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from driver.backlog.order import ordered
from driver.backlog.packing import EXACT_CANDIDATES
from driver.backlog.selection import Item, Selection, select_ordered
from driver.domain.work_item import (
    INVALID_COMMAND,
    ItemProblem,
    command_problems_of,
    item_problems,
)
from driver.test_command.exit_code_rules import command_problems
from tests.support.backlogs import index_of

BAD = "pytest tests || true"


def an_item(number: int, command: str = "pytest -q", **more: Any) -> dict[str, Any]:
    return {
        "id": f"T-{number}",
        "slug": f"item-{number}",
        "prompt": "do it",
        "status": "todo",
        "priority": "P1",
        "ownsFiles": [f"f{number}.py"],
        "testCmd": command,
        **more,
    }


class Asked:
    """`command_problems_of`, which notes the items it was asked about."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, item: Item) -> Sequence[ItemProblem]:
        self.ids.append(item["id"])
        return command_problems_of(item)


def selected(items: Sequence[dict[str, Any]], limit: int) -> tuple[Selection, list[str]]:
    asked = Asked()
    return select_ordered(ordered(items), limit, None, str, asked), asked.ids


def ids(items: Sequence[Item]) -> list[str]:
    return [item["id"] for item in items]


def test_only_the_commands_of_chosen_items_are_parsed() -> None:
    selection, asked = selected([an_item(n, f"pytest t{n}.py | tee log") for n in range(2_000)], 5)
    assert ids(selection.selected) == asked == [f"T-{n}" for n in range(5)]
    assert len(selection.skipped) == 1_995


def test_an_index_has_no_opinion_about_commands_that_need_a_parser() -> None:
    items = [an_item(0, BAD), an_item(1, "")]
    index = index_of(items)
    assert list(index.faults) == [1]


def test_an_item_with_a_bad_command_is_left_out_and_the_next_is_taken() -> None:
    items = [an_item(0), an_item(1, BAD), an_item(2), an_item(3, BAD), an_item(4)]
    selection, asked = selected(items, 2)
    assert ids(selection.selected) == ["T-0", "T-2"]
    assert asked == ["T-0", "T-1", "T-2"]
    reasons = {one.id: one.reason for one in selection.skipped}
    assert reasons == {"T-1": INVALID_COMMAND, "T-3": "max_items", "T-4": "max_items"}


def test_items_in_the_way_of_each_other_are_parsed_until_the_search_is_too_hard() -> None:
    selection, asked = selected([an_item(n, ownsFiles=["same.py"]) for n in range(2_000)], 5)
    assert len(asked) == EXACT_CANDIDATES + 1
    assert {one.reason for one in selection.skipped} == {"overlap"}


def test_bad_commands_do_not_make_a_small_backlog_inexact() -> None:
    clash = [an_item(0, ownsFiles=["a", "b"]), an_item(1, ownsFiles=["a"])]
    sound = [*clash, an_item(2, ownsFiles=["b"])]
    broken = [an_item(n, BAD) for n in range(3, 203)]
    with_them, _ = selected([*sound, *broken], 3)
    assert with_them.selected == selected(sound, 3)[0].selected
    assert with_them.exact


def test_plain_commands_have_the_problems_that_the_parser_finds() -> None:
    chance = random.Random(7)
    words = (
        "pytest", "python", "-m", "-q", "true", "echo", "exit", "0", "set", "-e", "+e", "if",
        "then", "fi", "for", "while", "bash", "/bin/sh", "-c", "env", "A=1", "timeout", "5", "eval",
        "trap", "EXIT", "case", "function", "time", "a/b.py::c", "x,y", "sudo", "bash.exe", "wait",
    )  # fmt: skip
    for _ in range(3_000):
        text = " ".join(chance.choices(words, k=chance.randint(1, 5)))
        # The space at the end keeps the text from being taken for plain words.
        assert command_problems(text) == command_problems(f"{text} "), text


def test_misspelt_keys_are_guessed() -> None:
    for wrong in ("ownFiles", "owns_files", "ownedFiles", "ownsfile"):
        item = {**an_item(0), wrong: ["a"]}
        del item["ownsFiles"]
        [problem] = item_problems(item)
        assert f"(found {wrong!r}; write 'ownsFiles')" in problem.text
    plain = an_item(0)
    del plain["ownsFiles"]
    [problem] = item_problems(plain)
    assert "found" not in problem.text
