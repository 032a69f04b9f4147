"""Whatever stands in a tracker or manifest, only bad input is said of it, and soon."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.order import filter_todo_items
from driver.backlog.selection import select_disjoint
from driver.backlog.tracker import load_tracker_items, tracker_problems, validate_item
from driver.domain.work_item import Manifest, check_item, parse_manifest
from state_store.documents.errors import InputError
from state_store.tracker.file import read_tracker_file

ITEM: dict[str, Any] = {
    "id": "T-1",
    "slug": "x",
    "status": "todo",
    "priority": "P1",
    "createdAt": "2026-01-01T00:00:00Z",
    "prompt": "do it",
    "ownsFiles": ["a.py", "docs/"],
    "testCmd": ["true"],
    "workDir": "sub",
    "repo": "/r",
    "effort": "quick",
    "verificationTier": 1,
    "repairCap": 2,
    "requireAdversarialReview": True,
    "spotCheckFrac": 0.5,
    "notes": "n",
}
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2.5, 10**30, 1e308, "", " ", "\0", "\ud800", "todo", "P2", "../x",
    "/x", "C:\\x", ".git", "a" * 300, [], [[]], ["a"], [1], [None], {}, {"a": 1}, [{"slug": "x"}],
    "2026-13-45", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\u00e9", "docs/",
]  # fmt: skip


def a_document(chance: random.Random) -> Any:
    items: list[Any] = []
    for number in range(chance.randrange(4)):
        item = {**copy.deepcopy(ITEM), "id": f"T-{number}", "slug": f"s{number}"}
        for _ in range(chance.randrange(4)):
            key = chance.choice([*ITEM, "extra"])
            if chance.random() < 0.5:
                item.pop(key, None)
            else:
                item[key] = chance.choice(ODD)
        items.append(item if chance.random() < 0.9 else chance.choice(ODD))
    document: Any = {"version": 1, "items": items}
    if chance.random() < 0.2:
        document[chance.choice(["version", "items", "wave_id"])] = chance.choice(ODD)
    return document if chance.random() < 0.8 else chance.choice([items, chance.choice(ODD)])


def some_bytes(chance: random.Random, document: Any) -> bytes:
    data = bytearray(json.dumps(document).encode())
    for _ in range(chance.choice([0, 0, 1, 3])):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(3)] = chance.choice(
            [b"", b"\xff", b"[", b"}", b"NaN", b'"', b"\\", b"1e999", b",", b"\xef\xbb\xbf"]
        )
        data = data or bytearray(b" ")
    return bytes(data)


def swallow(document: Any) -> Manifest | None:
    try:
        return parse_manifest(document, new_wave_id=lambda: "w")
    except InputError as refusal:
        str(refusal).encode()
        return None


def try_everything(chance: random.Random, path: Path) -> None:
    document = a_document(chance)
    before = copy.deepcopy(document)
    manifest = swallow(document)
    assert document == before
    if manifest is not None:
        assert parse_manifest(manifest.to_json(), new_wave_id=lambda: "w") == manifest
    path.write_bytes(some_bytes(chance, document))
    try:
        items = read_tracker_file(path).entries
    except InputError:
        assert load_tracker_items(path) == []
        return
    tracker_problems(items)
    todo = filter_todo_items(items)
    selection = select_disjoint(todo, 2, default_repo="/r")
    assert len(selection.selected) + len(selection.skipped) == len(todo)
    fit = [item for item in items if not validate_item(item)]
    assert all(check_item(item)[0] for item in fit)


def run(rounds: int, path: Path) -> None:
    for seed in range(rounds):
        try:
            try_everything(random.Random(seed), path)
        except BaseException as fault:
            fault.add_note(f"the seed was {seed}")
            raise


def test_a_sample_of_random_documents_is_refused_or_understood(tmp_path: Path) -> None:
    run(1_500, tmp_path / "t.json")


@pytest.mark.sweep
def test_many_random_documents_are_refused_or_understood(tmp_path: Path) -> None:
    run(50_000, tmp_path / "t.json")
