"""The tracker index holds what counts of a tracker, and gives the same answers."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.dependencies import needed, waiting
from driver.backlog.order import OrderedQueue, Part, filter_todo_items, name_of
from driver.backlog.plain_items import are_plain, faults_in
from driver.backlog.retry_policy import in_backoff
from driver.backlog.selection import select_disjoint, select_ordered
from driver.backlog.tracker import quick_problems
from driver.domain.ownership import OwnershipError, is_plain, parse_owned
from driver.domain.work_item import check_item, item_problems
from state_store.documents.errors import InputError
from state_store.tracker.scan import scanned
from tests.support.backlogs import index_of

NOW = datetime(2026, 1, 15, tzinfo=UTC)


def a_backlog(seed: int) -> list[dict[str, Any]]:
    """Items of all statuses, some of them waiting for others, for a time, or for what is not."""
    chance = random.Random(seed)
    names = [f"T-{n}" for n in range(chance.randrange(1, 14))]
    items = []
    for n, name in enumerate(names):
        item: dict[str, Any] = {"id": name, "slug": f"s{chance.randrange(n + 2)}"}
        item["status"] = chance.choice(("todo", "todo", "done", "archived", "blocked", "claimed",
                                        "in_progress", ["done"], None))  # fmt: skip
        item |= {"priority": chance.choice(("P1", "P2", "P3", 1)), "createdAt": chance.randrange(9)}
        item |= {"ownsFiles": [f"f{chance.randrange(5)}"], "prompt": "p", "testCmd": "t"}
        if chance.random() < 0.3:
            item["nextAttemptAt"] = chance.choice(("2026-01-01", "2026-02-01", "soon", None))
        if chance.random() < 0.4:
            others = [*names[:n], "s0", "s1", "nobody"]
            item["dependsOn"] = chance.choice((chance.choice(others), [chance.choice(others)], {}))
        items.append(item)
    if chance.random() < 0.1:
        items.append({**items[0], "slug": "again"})
    chance.shuffle(items)
    return items


def waits_of(items: Any) -> object:
    try:
        return waiting(items)
    except InputError as error:
        return error.problems


def check_backlog(seed: int) -> None:
    items = a_backlog(seed)
    index = index_of(items)
    assert waits_of(index.linked) == waits_of(items)
    assert sorted(needed(index.linked), key=str) == sorted(needed(items), key=str)
    assert in_backoff(index.linked, NOW) == in_backoff(items, NOW)
    todo = filter_todo_items(items)
    assert list(index.todo.items) == todo
    assert list(index.todo.names) == [name_of(item) for item in todo]
    assert [n in index.faults for n in range(len(todo))] == [
        bool(check_item(item)[1]) for item in todo
    ]
    whole = select_disjoint(items=todo, max_count=3)
    assert select_ordered(index.todo, 3, None, str) == whole


def test_what_is_held_of_a_tracker_says_what_the_whole_says() -> None:
    for seed in range(300):
        check_backlog(seed)


@pytest.mark.sweep
def test_what_is_held_of_a_tracker_says_what_the_whole_says_sweep() -> None:
    for seed in range(1000, 31_000):
        check_backlog(seed)


SOUND: dict[str, Any] = {"id": "T-1", "slug": "a", "title": "A", "prompt": "do it",
                         "ownsFiles": ["src/a.py", "docs/"], "testCmd": "pytest"}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, "", " ", "\t\n", 0, 7, -1, 10**18, True, [], ["x"], {}, "a\0", "\ud800", "-x", "..",
    "a/../b", "/abs", "C:x", "con", "src/con.txt", "NUL", ".git/x", "a//b", "./a", "a.", "a b",
    "!!!", "x" * 1001, "x" * 300,
    ["a", 1], ["a", ""], ["../a"], ["a"] * 10_001, "pytest | tee log", "true || exit 0", 1.5,
    ("a",), "\u00e9",
)  # fmt: skip


def test_a_look_finds_nothing_sound_that_a_check_does_not() -> None:
    keys = (*SOUND, "workDir", "repo", "phase", "verificationTier", "other")
    for key in keys:
        for value in ODD:
            item = {**SOUND, key: value}
            assert item_problems(item) == check_item(item)[1], (key, value)
        less = {k: v for k, v in SOUND.items() if k != key}
        assert item_problems(less) == check_item(less)[1]
    assert item_problems(SOUND) == ()


def test_a_block_of_plain_items_has_no_problem_in_any_of_them() -> None:
    names = (
        "workDir",
        "repo",
        "phase",
        "verificationTier",
        "fewerTests",
        "exclusive",
        "needs",
        "other",
    )
    odd = [{**SOUND, key: value} for key in (*SOUND, *names) for value in ODD]
    odd += [{k: v for k, v in SOUND.items() if k != key} for key in SOUND]
    odd += [{**SOUND, "testCmd": ["pytest", value]} for value in ODD]
    odd += [{**SOUND, "workDir": "deep/" * 30 + "x", "ownsFiles": ["a/" * 15 + "b"]}]
    told = dict(faults_in([SOUND, *odd]))
    assert told == {n: why for n, i in enumerate(odd, 1) if (why := quick_problems(i))}
    assert len(told) > 200
    plain = [item for item in odd if are_plain([SOUND, item])]
    assert [item for item in plain if quick_problems(item)] == []
    assert len(plain) > 40  # else a block would be no faster


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"id": 7, "title": "\u00e9", "prompt": "\u00fcber"},
        {"repo": "/r", "workDir": "pkg/core", "label": "x", "effort": "normal", "exclusive": False},
        {"testCmd": ["pytest", "", "-q"]},
        {"selfCheckCmd": "make check", "verificationTier": 2, "title": None},
    ],
)
def test_the_usual_item_is_plain(more: dict[str, Any]) -> None:
    assert are_plain([SOUND, {**SOUND, **more}])


def test_equal_values_of_other_types_are_told_apart() -> None:
    items = [{**SOUND, "fewerTests": 1}, {**SOUND, "fewerTests": True}]
    assert dict(faults_in(items)).keys() == {1}


def test_a_faulty_item_anywhere_in_a_long_tracker_is_told() -> None:
    items = [{**SOUND, "id": f"T-{n}", "slug": f"s{n}", "status": "todo", "createdAt": -n}
             for n in range(1000)]  # fmt: skip
    items[3]["prompt"] = ""
    items[700]["ownsFiles"] = ["../x"]
    index = index_of(items)
    assert {index.todo.names[number] for number in index.faults} == {"T-3", "T-700"}


@pytest.mark.parametrize(
    ("entry", "plain"),
    [
        ("a", True), ("src/a.py", True), ("docs/", True), ("a-b_c/d.e.f", True), ("consul/x", True),
        ("con", False), ("a/con", False), ("CON.txt", False), ("a/nul/b", False), ("com1/", False),
        ("", False), ("/a", False), ("a//b", False), ("./a", False), ("..", False), ("a/..", False),
        (".git", False),
        ("a.", False), ("-a", False), ("a b", False), ("a\\b", False), ("a\n", False), ("a/", True),
        ("\u00e9", False), ("\u0131", False), ("a/" * 40, False), ("a" * 255, False),
    ],
)  # fmt: skip
def test_a_plain_entry_is_one_that_can_be_owned(entry: str, plain: bool) -> None:
    assert is_plain(entry) is plain
    if plain:
        parse_owned(entry)


def test_no_entry_is_plain_that_cannot_be_owned() -> None:
    chance = random.Random(7)
    pieces = (
        "a",
        "B",
        "con",
        "nul",
        ".",
        "..",
        "/",
        "-",
        "_",
        "1",
        "git",
        " ",
        "\\",
        ":",
        "com1",
        ".py",
        "\n",
    )
    for _ in range(20_000):
        entry = "".join(chance.choices(pieces, k=chance.randrange(1, 7)))
        try:
            parse_owned(entry)
        except OwnershipError:
            assert not is_plain(entry), entry


def test_a_part_is_its_items_by_number() -> None:
    whole = OrderedQueue([{"id": n} for n in range(5)], list("abcde"), [1, 1, 2, 3, 3])
    part = whole.part([0, 2, 4])
    assert (list(part.items), list(part.names), list(part.levels)) == (
        [{"id": 0}, {"id": 2}, {"id": 4}], ["a", "c", "e"], [1, 2, 3],
    )  # fmt: skip
    assert list(part.part([1]).items) == [{"id": 2}]
    assert list(Part(whole.items, [1, 3])[1:]) == [{"id": 3}]
    assert whole.part(range(5)) is whole


def test_what_is_no_list_is_not_read_as_an_empty_one(tmp_path: Path) -> None:
    tracker = tmp_path / "tracker.json"
    tracker.write_text('{"version": 1, "items":=]}', encoding="ascii")
    with pytest.raises(InputError, match="is not usable JSON"):
        scanned(tracker)
