"""An unchanged tracker is not parsed again, and the report of a run is the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.index_reader import FILE_NAME, TrackerReader
from driver.backlog.tracker_index import TrackerIndex
from state_store.api import StateAPI
from state_store.documents.errors import InputError
from state_store.documents.files import identity_of
from state_store.tracker.file import ids_twice, read_tracker_file
from state_store.tracker.scan import scanned
from state_store.write_api import STATE_DB_FILENAME
from tests.support.programs import Project, item

LONG = "x" * 2**20  # a tracker that is worth the trouble
PAST = {"id": "OLD", "slug": "old", "status": "done", "prompt": LONG}


def with_store(state: Path) -> Path:
    with StateAPI(state / STATE_DB_FILENAME):
        return state


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return with_store(tmp_path / "state")


def a_tracker(path: Path, *more: Any, **first: Any) -> Path:
    items = [
        PAST,
        item("a", priority="P1", **first),
        item("b", dependsOn="OLD"),
        item("c", ownsFiles=[]),
        "stray",
        *more,
    ]
    path.write_text(json.dumps({"version": 1, "items": items}), encoding="utf-8")
    return path


def read(tracker: Path, state: Path) -> TrackerIndex:
    """As a process that has just started, and keeps what it read."""
    reader = TrackerReader()
    index = reader.read(tracker, state)
    reader.keep(tracker, state)
    return index


def rewrite(kept: Path, old: str, new: str, *, sealed: bool) -> None:
    head, _, body = kept.read_bytes().partition(b"\n")
    body = body.replace(old.encode(), new.encode())
    seal = {"body": hashlib.sha256(body).hexdigest()} if sealed else {}
    kept.write_bytes(json.dumps({**json.loads(head), **seal}).encode() + b"\n" + body)


def test_an_unchanged_tracker_is_read_from_the_kept_index(tmp_path: Path, state: Path) -> None:
    tracker = a_tracker(tmp_path / "t.json", title="one title")
    first = read(tracker, state)
    assert read(tracker, state) == first
    rewrite(state / FILE_NAME, '"todo": 3', '"todo": 4', sealed=True)
    assert read(tracker, state).statuses["todo"] == 4  # so it was not parsed
    assert read(tracker, state).todo.items[0]["title"] == "one title"
    tracker.write_bytes(tracker.read_bytes().replace(b"one title", b"one Title"))
    assert read(tracker, state).todo.items[0]["title"] == "one Title"
    assert read(tracker, state).todo.items[0]["title"] == "one Title"


def test_a_tracker_at_rest_is_read_again_only_if_it_was_written(
    tmp_path: Path, state: Path
) -> None:
    tracker = a_tracker(tmp_path / "t.json", title="one title")
    first = read(tracker, state)
    found = identity_of(tracker.stat())
    head, _, body = (state / FILE_NAME).read_bytes().partition(b"\n")
    kept = json.dumps({**json.loads(head), "identity": found}).encode()  # as if it was at rest
    (state / FILE_NAME).write_bytes(kept + b"\n" + body)
    assert read(tracker, state) == first
    before = tracker.stat()
    tracker.write_bytes(tracker.read_bytes().replace(b"one title", b"one Title"))
    os.utime(tracker, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(tracker, state).todo.items[0]["title"] == "one Title"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda kept: kept.write_bytes(b""),
        lambda kept: kept.write_bytes(kept.read_bytes()[:-9]),
        lambda kept: kept.write_bytes(b"[]\n[]"),
        lambda kept: kept.write_bytes(b"\xff\n"),
        lambda kept: kept.write_bytes(kept.read_bytes().replace(b'"layout": 1', b'"layout": 0')),
        lambda kept: kept.write_bytes(kept.read_bytes().replace(b'"by": "', b'"by": "0')),
        lambda kept: rewrite(kept, '"todo": 3', '"todo": 4', sealed=False),
        lambda kept: rewrite(kept, "[", "[[", sealed=True),
        lambda kept: (kept.unlink(), kept.mkdir()),
    ],
)
def test_an_odd_index_is_passed_over(tmp_path: Path, state: Path, spoil: Any) -> None:
    tracker = a_tracker(tmp_path / "t.json", title="one title")
    first = read(tracker, state)
    spoil(state / FILE_NAME)
    assert read(tracker, state) == first


def test_an_index_of_another_file_does_not_count(tmp_path: Path, state: Path) -> None:
    one = a_tracker(tmp_path / "t.json")
    read(one, state)
    other = a_tracker(tmp_path / "u.json")
    assert "u.json" in read(other, state).non_objects[0]
    (tmp_path / "sub").mkdir()
    [stray] = read(tmp_path / "sub" / ".." / "u.json", state).non_objects
    assert "sub/../u.json" in stray.replace("\\", "/")


@pytest.mark.parametrize("case", ["small", "no store"])
def test_nothing_is_kept_where_it_must_not_be(tmp_path: Path, state: Path, case: str) -> None:
    tracker = a_tracker(tmp_path / "t.json")
    if case == "small":
        tracker.write_text("[]", encoding="utf-8")
    there = tmp_path if case == "no store" else state
    read(tracker, there)
    assert not (there / FILE_NAME).exists()


def test_a_run_with_nothing_to_do_keeps_the_index_for_the_next(
    tmp_path: Path, template: Path
) -> None:
    project = Project(tmp_path, template)
    project.tracker.write_text(json.dumps([PAST]), encoding="utf-8")
    kept = with_store(project.state) / FILE_NAME
    assert project.schedule("--dry-run").code == 0
    assert not kept.exists()
    assert project.schedule().code == 0
    assert kept.exists()


@pytest.mark.more
def test_a_broken_tracker_is_reported_each_time(tmp_path: Path, state: Path) -> None:
    tracker = a_tracker(tmp_path / "t.json")
    read(tracker, state)
    tracker.write_text("{", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InputError, match="not usable JSON"):
            read(tracker, state)
    tracker.unlink()
    with pytest.raises(InputError, match="does not exist"):
        read(tracker, state)


def _extend(blocks: list[Any], _: int, block: Sequence[Any]) -> None:
    blocks += block


NESTED = {"id": "N", "slug": "n", "status": "todo", "history": [{"status": "done", "by": "me"}]}


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"items": []},
        {"items": [], "status": "done"},
        {"items": [NESTED], "status": "done"},
        [NESTED],
        [PAST, NESTED, {"id": 1}, {"id": "1"}, 7, None, {}],
        [{"id": " "}, {"id": " "}, {"id": "x"}, {"id": "x", "status": "archived"}],
        [{"status": ["done"]}, {"status": {"status": "done"}}],
        {
            "items": [
                {"id": "q", "status": "done", "slug": None, "shipped": {"wave": "w"}, "repo": "/r"}
            ]
        },
    ],
)
def test_a_scan_sees_what_reading_sees(tmp_path: Path, document: Any) -> None:
    tracker = tmp_path / "t.json"
    for layout in ({}, {"indent": 2}, {"ensure_ascii": False, "separators": (",", " : ")}):
        tracker.write_text(json.dumps(document, **layout), encoding="utf-8")
        blocks: list[Any] = []
        into = partial(_extend, blocks)
        whole, scan = read_tracker_file(tracker), scanned(tracker, into)
        assert scan.digest == whole.digest
        assert [entry for entry in blocks if isinstance(entry, dict)] == list(whole.entries)
        assert ids_twice(scan.ids) == whole.ambiguous
        assert [scan.entry(n) for n in range(len(scan.ids))] == blocks
        scan.data = None
        assert [scan.entry(n) for n in range(len(scan.ids))] == blocks


@pytest.mark.parametrize(
    "text", ['{"items": [{"status": "done", "id": 1, "id": 2}]}', "[NaN]", "{}"]
)
def test_a_scan_refuses_what_reading_refuses(tmp_path: Path, text: str) -> None:
    tracker = tmp_path / "t.json"
    tracker.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as whole:
        read_tracker_file(tracker)
    with pytest.raises(InputError) as light:
        scanned(tracker)
    assert light.value.problems == whole.value.problems


@pytest.mark.more
def test_another_process_takes_the_same_and_says_the_same(tmp_path: Path, template: Path) -> None:
    project = Project(tmp_path, template)
    tracker = a_tracker(project.tracker)
    kept = with_store(project.state) / FILE_NAME

    def scheduled(*flags: str) -> dict[str, Any]:
        report = project.schedule("--dry-run", *flags, env=None).report
        return {k: report[k] for k in ("items_selected", "items_skipped")}

    first = scheduled()
    assert not kept.exists()
    read(tracker, project.state)
    assert scheduled() == first
    assert first["items_selected"] == ["A", "B"]
    assert {left["reason"] for left in first["items_skipped"]} == {
        "no_file_ownership",
        "not_an_object",
    }
    rewrite(kept, "no_file_ownership", "another_word", sealed=True)
    assert "another_word" in {left["reason"] for left in scheduled()["items_skipped"]}
    tracker.write_bytes(tracker.read_bytes().replace(b'"id": "A"', b'"id": "Z"'))
    assert scheduled()["items_selected"] == ["Z", "B"]
    a_tracker(tracker, item("d", id="A"))
    for _ in range(2):
        assert "two items have the id 'A'" in project.schedule("--dry-run").report["error"]
        read(tracker, project.state)
