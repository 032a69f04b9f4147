from __future__ import annotations

import itertools
import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from driver.domain.commit_message import (
    MAX_SUBJECT_CHARS,
    branch_names,
    commit_message,
    is_branch_of,
    items_of,
    trailers_in,
)
from driver.domain.work_item import WorkItem

LONG = "word " * 40


def an_item(**more: Any) -> WorkItem:
    return WorkItem(slug="s", prompt="p", owns_files=("a",), test_command=("pytest", "a b"), **more)


@pytest.mark.parametrize(
    ("title", "subject"),
    [
        (None, "s"),
        ("Add  the\nnumbers", "Add the numbers"),
        ("bell \x07", "bell \\x07"),
        (LONG, LONG[: MAX_SUBJECT_CHARS - 3] + "..."),
    ],
)
def test_a_subject_is_one_short_printable_line(title: str | None, subject: str) -> None:
    item = an_item() if title is None else an_item(title=title)
    assert commit_message([(item, ".")], "w", "t").split("\n\n")[0] == subject


def test_the_trailers_say_what_a_later_run_looks_for() -> None:
    message = commit_message([(an_item(item_id="7"), ".")], "wave-1", "beef")
    assert message.split("\n\n")[1].splitlines() == [
        "Wave-Id: wave-1",
        "Item-Id: 7",
        "Item-Task: 3f906ac8794e9d76",
        "Item-Slug: s",
        "Test-Command: pytest 'a b'",
        "Proved-Tree: beef",
    ]


def test_an_anchor_is_one_more_trailer() -> None:
    message = commit_message([(an_item(), ".")], "w", "beef", "wave:w@3:00")
    assert message.splitlines()[-1] == "State-Anchor: wave:w@3:00"


def test_a_value_with_a_line_break_forges_no_trailer() -> None:
    message = commit_message([(an_item(item_id="7\nProved-Tree: forged"), ".")], "w", "beef")
    assert [line for line in message.splitlines() if line.startswith("Proved-Tree")] == [
        "Proved-Tree: beef"
    ]


@pytest.mark.parametrize(
    ("wave_id", "end"),
    [
        ("nightly", "nightly"),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b"),
        ("a..b~c^d:e f", "a-b-c-d-e-f"),
        ("x" * 100, "x" * 60),
        ("...", "wave"),
    ],
)
def test_a_branch_name_is_short_and_one_that_git_accepts(wave_id: str, end: str) -> None:
    assert next(branch_names(wave_id, "2024-03-01")) == f"wave/2024-03-01-{end}"


@pytest.mark.parametrize(
    ("name", "wave_id", "ours"),
    [
        ("wave/2024-03-01-w", "w", True),
        ("wave/2024-03-01-w-2", "w", True),
        ("wave-2024-03-01-w", "w", True),
        ("wave/2024-03-01-0f8fad5b", "0f8fad5b-d9cb-469f-a165-70867728950e", True),
        ("wave/2024-03-01-wide", "w", False),
        ("wave/mine", "mine", False),
        ("wave/2024-03-01-", "", False),
    ],
)
def test_a_branch_is_a_waves_only_by_the_name_it_gives(name: str, wave_id: str, ours: bool) -> None:
    assert is_branch_of(name, wave_id) is ours


COMMANDS = [
    "pytest -q " + " ".join(f"tests/unit/test_{n}.py" for n in range(14)),  # about 300 columns
    "pytest tests/" + "long_" * 60 + "::test_x",
    "x" * 71,
    "python -c 'a  =  1;   b = 2' " + "two  spaces " * 12,
    "pytest my\\ tests/with\\ spaces/" + "and\\ more" * 12,
    "\u65e5\u672c\u8a9e " * 30,
    "\u65e5\u672c\u8a9e" * 30,
    "\u0441\u043b\u043e\u0432\u043e" * 40,
    "ends in a backslash\\",
    f"{'y' * 56}\\ z" * 3,
    " " * 90 + "x" + " " * 90,
    "a" * 60 + "  " + "b" * 60 + "    " + "c" * 80,
]


@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
@pytest.mark.parametrize("indent", ["", "    "])
def test_no_line_of_ours_is_long_and_all_are_read_back(command: str, indent: str) -> None:
    item = replace(an_item(item_id="id with spaces " * 9), test_command=command, slug="s" * 90)
    message = commit_message([(item, "dir/" * 30)], "w" * 100, "e" * 64, "wave:" + "w" * 90)
    first, second, *lines = message.splitlines()
    assert (second, columns(first) <= 72, max(map(columns, lines)) <= 71) == ("", True, True)
    assert [line for line in lines if line != line.rstrip()] == []
    indented = "".join(f"{indent}{line}\n" for line in message.splitlines())
    [read] = items_of(trailers_in(f"Squashed\n\n{indented}\nCo-authored-by: x"))
    assert read["Test-Command"] == command.strip()
    assert read["Item-Id"] == ("id with spaces " * 9).strip()
    assert (read["Wave-Id"], read["Item-Slug"]) == ("w" * 100, "s" * 90)
    assert (read["Proved-Tree"], read["Work-Dir"]) == ("e" * 64, "dir/" * 30)
    assert read["State-Anchor"] == "wave:" + "w" * 90


def columns(line: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in line)


def test_older_messages_with_long_lines_are_read_too() -> None:
    [read] = items_of(trailers_in(f"x\n\nWave-Id: w\nItem-Id: i\nTest-Command: {'y ' * 90}z\n"))
    assert read["Test-Command"] == "y " * 90 + "z"


def test_lines_of_several_items_are_short_too() -> None:
    items = [(an_item(title="word " * 30), "."), (an_item(title="\u65e5" * 60), ".")]
    assert max(map(columns, commit_message(items, "w", "t").splitlines())) <= 72


def test_where_a_branch_is_taken_the_next_number_is_tried() -> None:
    names = list(itertools.islice(branch_names("w", "d"), 3))
    assert names == ["wave/d-w", "wave/d-w-2", "wave/d-w-3"]
