"""StateAPI, ReadAPI and WriteAPI as callers use them, on a real database and real files."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import state_store
from state_store.api import VIEWS, ReadAPI, StateAPI, WriteAPI, WriteConflict
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, TRACKER
from state_store.database.projections import project_tracker
from state_store.views.snapshots import project_tracker_with_snapshot, save_snapshot
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[StateAPI]:
    with StateAPI(tmp_path / "tracker_events.db") as opened:
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Iterator[WriteAPI]:
    opened = WriteAPI(tmp_path)
    yield opened
    opened.close()


def in_file(folder: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((folder / "tracker.json").read_text("utf-8"))
    return {item["id"]: item for item in document["items"]}


def hand_written(folder: Path, *items: Any) -> Path:
    path = folder / "tracker.json"
    path.write_text(json.dumps({"version": 1, "mine": "kept", "items": items}, indent=3))
    return path


HAND = {"id": "h", "slug": "s", "prompt": "p", "testCmd": "t", "ownsFiles": ["a"], "x": [1]}


# StateAPI


def test_importing_the_package_loads_no_database() -> None:
    names = "import sys, state_store; print([m for m in sys.modules if 'sqlite' in m])"
    done = subprocess.run(
        [*PYTHON, "-c", names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", state_store.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(state_store, name).__name__ == name


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = state_store.no_such_name


def test_the_kept_tracker_is_the_replayed_one(api: StateAPI) -> None:
    for n in range(20):
        api.append(TRACKER, ITEM_CREATED, {"id": n, "status": "todo"})
        api.append(TRACKER, ITEM_UPDATED, {"id": str(n // 2), "n": n})
    assert api.project("tracker") == project_tracker(api.get(TRACKER))
    assert api.store.verify() == ()


@pytest.mark.parametrize("view", [view for view in VIEWS if "<" not in view] + ["wave:x"])
def test_every_view_is_there_when_nothing_has_happened(api: StateAPI, view: str) -> None:
    assert api.project(view)["version"] == 1


@pytest.mark.parametrize("view", ["", "items", "wave", "Tracker"])
def test_another_view_is_a_value_error(api: StateAPI, view: str) -> None:
    with pytest.raises(ValueError, match="tracker, agent_lifecycle"):
        api.project(view)


def test_the_phase_is_the_newest_of_both_streams(api: StateAPI) -> None:
    api.append("orchestrator_status", "phase_changed", {"phase": "one"})
    api.append("meta", "phase_set", {"phase": "two"})
    assert api.project("orchestrator_status")["phase"] == "two"
    api.append("orchestrator_status", "phase_changed", {"phase": "three"})
    assert api.project("orchestrator_status")["phase"] == "three"


def test_a_snapshot_changes_nothing_but_the_work(api: StateAPI) -> None:
    for n in range(10):
        api.append(TRACKER, ITEM_CREATED, {"id": f"i{n}"})
    save_snapshot(api.store, TRACKER, 10, api.project("tracker"))
    api.append(TRACKER, ITEM_UPDATED, {"id": "i3", "status": "done"})
    events = api.get(TRACKER)
    assert project_tracker_with_snapshot(api.store, TRACKER, events) == project_tracker(events)
    assert project_tracker_with_snapshot(api.store, TRACKER, events[10:]) == project_tracker(events)
    short = events[:5]
    assert project_tracker_with_snapshot(api.store, TRACKER, short) == project_tracker(short)


@pytest.mark.parametrize("projection", [[], {"items": 3}, {"items": [3, {}, {"id": "i0"}]}])
def test_a_snapshot_of_something_else_is_not_trusted_blindly(
    api: StateAPI, projection: Any
) -> None:
    api.append(TRACKER, ITEM_CREATED, {"id": "i0"})
    save_snapshot(api.store, TRACKER, 1, projection)
    events = api.get(TRACKER)
    assert project_tracker_with_snapshot(api.store, TRACKER, events) == project_tracker(events)


# Subscriptions


def test_a_subscriber_sees_every_event_once_and_in_order(api: StateAPI) -> None:
    seen: list[int] = []
    for n in range(3):
        api.append("s", "t", n)
    subscription = api.subscribe("s", lambda event: seen.append(event["payload"]), after=1)
    assert (subscription.poll(), subscription.poll()) == (2, 0)
    api.append("other", "t", 9)
    api.append("s", "t", 3)
    assert (subscription.poll(), seen, subscription.position) == (1, [1, 2, 3], 4)


def test_an_event_whose_callback_failed_comes_again(api: StateAPI) -> None:
    seen: list[int] = []

    def callback(event: dict[str, Any]) -> None:
        seen.append(event["payload"])
        if seen == [0, 1]:
            raise KeyError("no")

    for n in range(3):
        api.append("s", "t", n)
    subscription = api.subscribe("s", callback)
    with pytest.raises(KeyError):
        subscription.poll()
    subscription.poll()
    assert seen == [0, 1, 1, 2]


def test_a_callback_may_stop_and_a_stopped_subscription_says_where_it_was(api: StateAPI) -> None:
    for n in range(3):
        api.append("s", "t", n)
    subscription = api.subscribe("s", lambda event: subscription.stop())
    subscription.follow()
    assert subscription.position == 1


APPEND = """
import sys
from state_store.api import StateAPI
api = StateAPI(sys.argv[1])
for n in range(200):
    api.append("s", "t", [sys.argv[2], n])
"""


def test_a_follower_sees_what_other_processes_append(api: StateAPI) -> None:
    seen: list[tuple[str, int]] = []
    subscription = api.subscribe("s", lambda event: seen.append(tuple(event["payload"])))
    argv = [*PYTHON, "-B", "-c", APPEND, str(api.store.path)]
    writers = [subprocess.Popen([*argv, name], cwd=ROOT) for name in "ab"]
    subscription.follow(until=lambda: len(seen) >= 400, timeout_s=60)
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert [event["payload"] for event in api.get("s")] == [list(pair) for pair in seen]
    for name in "ab":
        assert [n for who, n in seen if who == name] == list(range(200))


def test_a_waiting_follower_costs_next_to_nothing_and_ends_when_told(api: StateAPI) -> None:
    subscription = api.subscribe("s", lambda event: None)
    before = time.thread_time()
    subscription.follow(timeout_s=0.5)
    assert time.thread_time() - before < 0.1
    follower = threading.Thread(target=subscription.follow)
    follower.start()
    subscription.stop()
    follower.join(60)
    assert not follower.is_alive()


# WriteAPI


def test_a_hand_written_tracker_is_taken_in_before_a_write(write: WriteAPI, tmp_path: Path) -> None:
    hand_written(tmp_path, HAND, {"id": "other"})
    write.tracker_update_status("h", "in_progress", note="started")
    assert in_file(tmp_path)["h"] == {**HAND, "status": "in_progress", "notes": "started"}
    assert json.loads((tmp_path / "tracker.json").read_text())["mine"] == "kept"
    assert [item["id"] for item in write.store.items()] == ["h", "other"]


@pytest.mark.more
def test_what_others_wrote_into_the_file_is_not_put_back(write: WriteAPI, tmp_path: Path) -> None:
    hand_written(tmp_path, {**HAND, "status": "todo"}, {"id": "o", "status": "todo"})
    write.tracker_update_status("o", "done")
    hand_written(tmp_path, {**HAND, "status": "in_progress"}, in_file(tmp_path)["o"])
    write.tracker_update_status("o", "archived")
    assert in_file(tmp_path)["h"]["status"] == "in_progress"
    assert (write.store.item("h") or {})["status"] == "in_progress"


def test_a_new_item_keeps_every_field_and_gets_the_missing_ones(
    write: WriteAPI, tmp_path: Path
) -> None:
    given = {**HAND, "title": "T", "x-own": {"deep": 1}, "priority": "P3"}
    del given["id"]
    item = write.tracker_append_item(given)
    assert {key: item[key] for key in given} == given
    assert len(item["id"]) == 12
    int(item["id"], 16)
    assert (item["status"], item["lane"], item["tags"]) == ("todo", "proposed", [])
    assert set(item) >= {"source", "notes", "pr_link", "created_at", "completed_at"}
    assert in_file(tmp_path) == {item["id"]: item}


@pytest.mark.more
def test_a_finished_item_says_when(write: WriteAPI) -> None:
    name = write.tracker_append_item({"title": "T"})["id"]
    assert write.tracker_update_status(name, "in_progress")["completed_at"] is None
    first = write.tracker_update_status(name, "done", note="a")
    assert first["completed_at"]
    again = write.tracker_update_status(name, "archived", note="b")
    assert (again["completed_at"], again["notes"]) == (first["completed_at"], "a\nb")


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"title": ""},
        {"title": " "},
        {"title": 3},
        {"title": "T", "id": ""},
        {"title": "T", "id": []},
    ],
)
def test_an_item_without_title_or_with_a_bad_id_is_refused(write: WriteAPI, item: Any) -> None:
    with pytest.raises(ValueError, match=r"title|id"):
        write.tracker_append_item(item)
    assert write.store.get(TRACKER) == []


def test_an_id_that_is_taken_in_store_or_file_is_refused(write: WriteAPI, tmp_path: Path) -> None:
    hand_written(tmp_path, HAND)
    with pytest.raises(ValueError, match="'h'"):
        write.tracker_append_item({"id": "h", "title": "T"})
    assert in_file(tmp_path) == {"h": HAND}


@pytest.mark.parametrize(("item_id", "status"), [("nobody", "done"), ("", "done"), ("h", "")])
def test_an_unknown_item_or_empty_status_appends_nothing(
    write: WriteAPI, tmp_path: Path, item_id: str, status: str
) -> None:
    hand_written(tmp_path, HAND)
    with pytest.raises(ValueError, match=r"nobody|needed"):
        write.tracker_update_status(item_id, status)
    assert [event["type"] for event in write.store.get(TRACKER)] in ([], [ITEM_CREATED])


@pytest.mark.more
@pytest.mark.parametrize("text", ["{", '{"items": 3}', "3", ""])
def test_a_broken_file_is_a_conflict_and_the_event_stays(
    write: WriteAPI, tmp_path: Path, text: str
) -> None:
    hand_written(tmp_path, HAND)
    write.tracker_update_status("h", "todo")
    path = tmp_path / "tracker.json"
    path.write_text(text)
    with pytest.raises(WriteConflict, match="Unexplained disk state") as caught:
        write.tracker_update_status("h", "done")
    assert caught.value.expected_hash != caught.value.actual_hash
    with pytest.raises(WriteConflict):
        write.tracker_update_status("phantom", "done")
    with pytest.raises(WriteConflict):
        write.tracker_append_item({"id": "new", "title": "T"})
    with pytest.raises(WriteConflict):
        write.rebuild_projection()
    assert path.read_text() == text
    assert {item["id"]: item["status"] for item in write.store.items()} == {
        "h": "done",
        "new": "todo",
    }
    hand_written(tmp_path, {**HAND, "status": "todo"})
    write.rebuild_projection()
    assert {name: item["status"] for name, item in in_file(tmp_path).items()} == {
        "h": "done",
        "new": "todo",
    }


@pytest.mark.more
def test_a_rebuild_deletes_nobodys_items(write: WriteAPI, tmp_path: Path) -> None:
    hand_written(tmp_path, HAND)
    write.tracker_append_item({"id": "n", "title": "T"})
    hand_written(tmp_path, HAND, in_file(tmp_path)["n"], {"id": "later"})
    view = write.rebuild_projection()
    assert [item["id"] for item in view["items"]] == list(in_file(tmp_path)) == ["h", "n", "later"]


@pytest.mark.more
def test_a_conflict_on_another_item_does_not_stop_a_write(write: WriteAPI, tmp_path: Path) -> None:
    hand_written(tmp_path, {"id": "a", "p": 1}, {"id": "b", "p": 1})
    write.tracker_update_status("b", "todo")
    write.store.append(TRACKER, ITEM_UPDATED, {"id": "a", "p": 2})
    hand_written(tmp_path, {"id": "a", "p": 3}, in_file(tmp_path)["b"])
    write.tracker_update_status("b", "done")
    with pytest.raises(WriteConflict, match="p is 3 in the file and 2 in the store"):
        write.tracker_update_status("a", "done")
    assert {name: item["status"] for name, item in in_file(tmp_path).items()} == {
        "a": "done",
        "b": "done",
    }


# ReadAPI


def test_reading_an_empty_folder_makes_nothing(tmp_path: Path) -> None:
    read = ReadAPI(tmp_path / "none")
    assert (read.read_tracker_snapshot(), read.read_orchestrator_status()) == ({}, None)
    assert (read.is_orchestrator_status_fresh(), read.check_heartbeat_fresh("x")) == (False, False)
    assert read.read_ledger_rows() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [('{"items": []}', {"items": []}), ("[1]", {"version": 1, "items": [1]}), ("{", {}), ("3", {})],
)
def test_the_tracker_is_read_as_it_is(tmp_path: Path, text: str, found: Any) -> None:
    (tmp_path / "tracker.json").write_text(text)
    assert ReadAPI(tmp_path).read_tracker_snapshot() == found


@pytest.mark.parametrize(
    ("age_s", "fresh"), [(0, True), (290, True), (310, False), (-60, True), (-200, False)]
)
def test_a_status_is_fresh_for_its_time(tmp_path: Path, age_s: float, fresh: bool) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s))
    (tmp_path / "orchestrator-status.json").write_text(json.dumps({"updated_at": stamp}))
    assert ReadAPI(tmp_path).is_orchestrator_status_fresh() is fresh


@pytest.mark.parametrize("stamp", [None, "soon", 3, ""])
def test_a_status_without_a_time_is_not_fresh(tmp_path: Path, stamp: Any) -> None:
    (tmp_path / "orchestrator-status.json").write_text(json.dumps({"updated_at": stamp}))
    assert not ReadAPI(tmp_path).is_orchestrator_status_fresh()


@pytest.mark.parametrize(
    ("text", "fresh"),
    [("{now}\nok\n", True), ("{old}\n", False), ("x\n", False), ("", False), ("nan\n", False)],
)
def test_a_heartbeat_is_its_first_line(tmp_path: Path, text: str, fresh: bool) -> None:
    (tmp_path / "heartbeats").mkdir()
    now = time.time()
    (tmp_path / "heartbeats" / "dog").write_text(text.format(now=now, old=now - 201))
    assert ReadAPI(tmp_path).check_heartbeat_fresh("dog") is fresh


def test_a_heartbeats_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    (tmp_path / "heartbeats").mkdir()
    (tmp_path / "outside").write_text(str(time.time()))
    assert not ReadAPI(tmp_path).check_heartbeat_fresh(f"..{os.sep}outside")


def test_ledger_rows_come_by_column(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "OUTCOMES-LEDGER.md").write_text(
        "# Ledger\n\n"
        "| ISO ts | agent_type | model | duration_sec | tokens_in | tokens_out | verdict |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
        "| 2026-01-02T03:04:05Z | waverun | haiku | 12 | 100 | 50 | OK | build | 7 |\n"
        "| 2026-01-02T03:04:06Z | waverun | haiku | 1.5 | ? | 50 | OK | build |\n"
    )
    first, second = ReadAPI(tmp_path).read_ledger_rows()
    assert first["iso_ts"] == "2026-01-02T03:04:05Z"
    assert (first["duration_sec"], first["tokens_in"], first["wave"]) == (12, 100, 7)
    assert (second["duration_sec"], second["tokens_in"], second["wave"]) == (1.5, None, None)
