"""tracker.json and the store, merged in both directions on a real disk."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import ITEM_ARCHIVED, ITEM_CREATED, ITEM_UPDATED, TRACKER
from state_store.database.store import EventStore, StoreBusyError
from state_store.documents.errors import InputError
from state_store.tracker.ingest import SyncReport, export_tracker, ingest_tracker_json, sync_tracker
from state_store.tracker.merge import FILE, STORE
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tests.support.trackers import HAND_WRITTEN
from tests.support.two_writers import TwoWriters

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[StateAPI]:
    with StateAPI(tmp_path / "state" / "tracker_events.db") as opened:
        yield opened


@pytest.fixture
def tracker(tmp_path: Path) -> Path:
    path = tmp_path / "tracker.json"
    path.write_bytes(HAND_WRITTEN.encode())
    return path


def write(path: Path, *items: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps({"version": 1, "items": items}), encoding="utf-8")
    return path


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_bytes().decode()
    assert text.count(before) == 1
    path.write_bytes(text.replace(before, after).encode())


def in_file(path: Path) -> dict[str, dict[str, Any]]:
    return {str(item["id"]): item for item in json.loads(path.read_text("utf-8"))["items"]}


def update(api: StateAPI, item_id: str, **fields: Any) -> None:
    api.append(TRACKER, ITEM_UPDATED, {"id": item_id, **fields})


def types(api: StateAPI) -> list[str]:
    return [event["type"] for event in api.get(TRACKER)]


def test_the_first_ingest_creates_each_item_and_the_second_appends_nothing(
    api: StateAPI, tracker: Path
) -> None:
    assert ingest_tracker_json(api, tracker) == 3
    assert ingest_tracker_json(api, tracker) == 0
    assert types(api) == [ITEM_CREATED] * 3
    assert {event["actor"] for event in api.get(TRACKER)} == {"migration"}
    first = api.project("tracker")["items"][0]
    assert first == json.loads(HAND_WRITTEN)["items"][0]


def test_an_ingest_takes_over_what_people_changed_and_nothing_else(
    api: StateAPI, tracker: Path
) -> None:
    ingest_tracker_json(api, tracker)
    update(api, "T-2", status="in_progress")
    edit(tracker, '"slug": "one"', '"slug": "uno"')
    assert ingest_tracker_json(api, tracker) == 1
    assert api.get(TRACKER)[-1]["payload"] == {"id": "T-1", "slug": "uno"}
    assert api.store.item("T-2") == {**in_file(tracker)["T-2"], "status": "in_progress"}


@pytest.mark.parametrize("document", ["3", '"x"', "{}", '{"items": {}}', "[3]", '[["id"]]'])
def test_what_is_no_tracker_is_a_type_error_and_appends_nothing(
    api: StateAPI, tmp_path: Path, document: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(document)
    with pytest.raises(TypeError):
        ingest_tracker_json(api, path)
    assert api.get(TRACKER) == []


def test_a_broken_file_is_an_input_error_and_changes_nothing(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    tracker.write_text(HAND_WRITTEN[:200])
    for attempt in (ingest_tracker_json, sync_tracker):
        with pytest.raises(InputError):
            attempt(api, tracker)
    assert tracker.read_text() == HAND_WRITTEN[:200]
    assert types(api) == [ITEM_CREATED] * 3


def test_edits_of_people_and_of_the_machine_survive_in_file_and_store(
    api: StateAPI, tracker: Path
) -> None:
    sync_tracker(api, tracker)
    update(api, "T-1", status="in_progress", attempts=1)
    edit(tracker, '"ownsFiles": ["a.py", "b.py"]', '"ownsFiles": ["c.py"]')
    assert sync_tracker(api, tracker) == SyncReport(ingested=1, exported=1)
    item = api.store.item("T-1")
    assert item == in_file(tracker)["T-1"]
    assert item is not None
    assert (item["status"], item["ownsFiles"], item["attempts"]) == ("in_progress", ["c.py"], 1)


def test_a_sync_changes_no_character_that_it_need_not(api: StateAPI, tracker: Path) -> None:
    assert sync_tracker(api, tracker).exported == 0
    assert tracker.read_bytes() == HAND_WRITTEN.encode()
    update(api, "T-2", status="done")
    update(api, "7", note="x")
    assert sync_tracker(api, tracker).exported == 2
    expected = HAND_WRITTEN.replace('"status" : "todo"', '"status" : "done"')
    assert tracker.read_bytes() == expected.replace('{"id":7}', '{"id":7,"note": "x"}').encode()


def test_an_item_of_the_machine_is_added_behind_the_last_one(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    api.append(TRACKER, ITEM_CREATED, {"id": "N", "status": "todo"})
    assert sync_tracker(api, tracker).exported == 1
    added = '{"id":7},\n      {"id": "N", "status": "todo"}\n   ]'
    assert tracker.read_text() == HAND_WRITTEN.replace('{"id":7}\n   ]', added)
    assert sync_tracker(api, tracker) == SyncReport()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["[]", '{"items": [ ]}', '{\n  "items": []\n}\n', "\ufeff[]\n"])
def test_an_empty_list_is_added_to(api: StateAPI, tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    api.append(TRACKER, ITEM_CREATED, {"id": "N", "ownsFiles": ["a"]})
    assert sync_tracker(api, path).exported == 1
    found = json.loads(path.read_text(encoding="utf-8-sig"))
    assert (found["items"] if isinstance(found, dict) else found) == api.store.items()
    assert sync_tracker(api, path) == SyncReport()


def test_a_field_that_the_store_lost_leaves_the_file(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    api.append(TRACKER, "item_fields_removed", {"id": "T-2", "fields": ["notes"]})
    assert sync_tracker(api, tracker).exported == 1
    assert in_file(tracker)["T-2"] == {"id": "T-2", "status": "todo"}
    assert '"mine":   [1,2 , 3]' in tracker.read_text()


def test_a_deleted_item_is_archived_and_does_not_come_back(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    update(api, "7", status="in_progress")
    edit(tracker, ',\n      {"id":7}', "")
    left = tracker.read_bytes()
    assert sync_tracker(api, tracker).ingested == 1
    assert types(api)[-1] == ITEM_ARCHIVED
    update(api, "7", note="late")
    assert sync_tracker(api, tracker) == SyncReport()
    assert ingest_tracker_json(api, tracker) == 0
    assert tracker.read_bytes() == left
    assert (api.store.item("7") or {})["status"] == "archived"


def test_a_conflict_names_both_values_and_stops_its_item_only(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    update(api, "T-1", status="in_progress")
    update(api, "T-2", status="done")
    edit(tracker, '"slug": "one", "status": "todo"', '"slug": "uno", "status": "later"')
    report = sync_tracker(api, tracker)
    (conflict,) = report.conflicts
    assert (conflict.item_id, conflict.field) == ("T-1", "status")
    assert (conflict.base, conflict.store, conflict.file) == ("todo", "in_progress", "later")
    assert report.held_back == {"T-1"}
    assert (report.ingested, report.exported) == (1, 1)
    assert (api.store.item("T-1") or {})["status"] == "in_progress"
    assert in_file(tracker)["T-1"]["status"] == "later"
    assert sync_tracker(api, tracker) == SyncReport(conflicts=(conflict,))


@pytest.mark.more
@pytest.mark.parametrize(("side", "status"), [(FILE, "later"), (STORE, "in_progress")])
def test_a_conflict_is_settled_by_preferring_a_side(
    api: StateAPI, tracker: Path, side: str, status: str
) -> None:
    sync_tracker(api, tracker)
    update(api, "T-1", status="in_progress")
    edit(tracker, '"slug": "one", "status": "todo"', '"slug": "one", "status": "later"')
    assert sync_tracker(api, tracker, prefer={"T-1": side}).conflicts == ()
    assert (api.store.item("T-1") or {})["status"] == in_file(tracker)["T-1"]["status"] == status
    assert sync_tracker(api, tracker) == SyncReport()


def test_entries_that_cannot_be_merged_are_named_and_left_alone(
    api: StateAPI, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.json", {"id": "a", "p": 1}, {"id": "b", "p": 1})
    sync_tracker(api, path)
    path.write_text('[{"id": "a", "p": 2}, {"id": "a"}, {"slug": "s"}, 3, {"id": "b", "p": 2}]')
    before = path.read_bytes()
    report = sync_tracker(api, path)
    assert (len(report.problems), report.ingested, report.exported) == (3, 1, 0)
    assert path.read_bytes() == before
    assert [item["p"] for item in api.store.items()] == [1, 2]
    write(path, {"id": "a", "p": 3}, {"id": "b", "p": 2})
    assert sync_tracker(api, path) == SyncReport(ingested=1)


def test_a_missing_file_is_written_without_archived_items(api: StateAPI, tmp_path: Path) -> None:
    for name in "ab":
        api.append(TRACKER, ITEM_CREATED, {"id": name})
    api.append(TRACKER, ITEM_ARCHIVED, {"id": "a"})
    sync_tracker(api, tmp_path / "t.json")
    assert list(in_file(tmp_path / "t.json")) == ["b"]


@pytest.mark.more
def test_two_files_of_one_store_do_not_delete_each_others_items(
    api: StateAPI, tmp_path: Path
) -> None:
    paths = [write(tmp_path / f"{name}.json", {"id": name}) for name in "ab"]
    for path in paths * 2:
        ingest_tracker_json(api, path)
    assert types(api) == [ITEM_CREATED] * 2


def test_a_deletion_after_an_export_is_seen(api: StateAPI, tmp_path: Path) -> None:
    api.append(TRACKER, ITEM_CREATED, {"id": "a"})
    path = tmp_path / "t.json"
    export_tracker(api, path)
    assert (
        path.read_text()
        == '{\n  "version": 1,\n  "items": [\n    {\n      "id": "a"\n    }\n  ]\n}\n'
    )
    write(path)
    assert sync_tracker(api, path).ingested == 1
    assert types(api)[-1] == ITEM_ARCHIVED


def test_a_store_moved_with_its_tracker_still_knows_what_was_agreed(
    api: StateAPI, tmp_path: Path
) -> None:
    write(tmp_path / "state" / "tracker.json", {"id": "a"}, {"id": "b"})
    sync_tracker(api, tmp_path / "state" / "tracker.json")
    api.close()
    moved = (tmp_path / "state").rename(tmp_path / "elsewhere")
    write(moved / "tracker.json", {"id": "a"})
    with StateAPI(moved / "tracker_events.db") as there:
        assert sync_tracker(there, moved / "tracker.json").ingested == 1
        assert types(there)[-1] == ITEM_ARCHIVED


INGEST = """
import sys
from state_store.api import StateAPI
from state_store.tracker.ingest import ingest_tracker_json, sync_tracker
api = StateAPI(sys.argv[1])
api.store.items()
print("ready", flush=True)
sys.stdin.readline()
for path in sys.argv[3:]:
    (ingest_tracker_json if sys.argv[2] == "ingest" else sync_tracker)(api, path)
"""


@pytest.mark.more
def test_processes_that_ingest_at_once_create_each_item_once(api: StateAPI, tmp_path: Path) -> None:
    names = [f"{n}" for n in range(25)]
    paths = [write(tmp_path / f"{name}.json", {"id": name}) for name in names]
    argv = [*PYTHON, "-B", "-c", INGEST, str(api.store.path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    running = [
        subprocess.Popen([*argv, how, *map(str, paths)], **pipes)
        for how in ("ingest", "ingest", "ingest", "sync")
    ]
    for process in running:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    for process in running:
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0] * 4
    assert sorted(event["payload"]["id"] for event in api.get(TRACKER)) == sorted(names)
    assert api.store.verify() == ()


def test_an_edit_between_our_look_and_our_swap_survives(api: StateAPI, tracker: Path) -> None:
    sync_tracker(api, tracker)
    update(api, "T-1", status="in_progress")
    edit(tracker, '"keep \\/ this"', '"mine"')  # so that there is something to wait with
    with StateAPI(api.store.path) as other, ThreadPoolExecutor(1) as pool:
        with other.store.transaction():  # whoever syncs has read the file and waits here
            syncing = pool.submit(sync_tracker, api, tracker)
            assert eventually(tracker.with_name("tracker.json.lock").exists)
            eventually(syncing.done, within_s=0.1)  # on to the store; if not, we show less
            edit(tracker, '"slug": "one"', '"slug": "uno"')
        syncing.result(30)
    item = in_file(tracker)["T-1"]
    assert (item["slug"], item["status"]) == ("uno", "in_progress")
    assert api.store.item("T-1") == item


def run_two_writers(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    writers = TwoWriters(chance)
    path = write(folder / f"{seed}.json")
    with StateAPI(folder / f"state{seed}" / "tracker_events.db") as api:
        for _ in range(3):
            for _ in range(chance.randrange(6)):
                if chance.random() < 0.5:
                    writers.human_edits()
                    continue
                name, fields = writers.machine_edits()
                known = api.store.item(name) is not None
                kind = ITEM_UPDATED if known else ITEM_CREATED
                api.append(TRACKER, kind, {**fields, "id": name})
            write(path, *({**item, "id": name} for name, item in writers.file.items()))
            report = sync_tracker(api, path)
            store = {item["id"]: item for item in api.store.items()}
            seen = {(c.item_id, c.field) for c in report.conflicts}
            writers.check(in_file(path), store, seen)
            write(path, *writers.file.values())
            assert sync_tracker(api, path).conflicts == ()
        assert api.store.verify() == ()


@pytest.mark.more
def test_in_any_order_both_edits_survive_on_disk(tmp_path: Path) -> None:
    for seed in range(12):
        run_two_writers(tmp_path, seed)


@pytest.mark.sweep
def test_in_any_order_both_edits_survive_on_disk_sweep(tmp_path: Path) -> None:
    for seed in range(1000, 2000):
        run_two_writers(tmp_path, seed)


class Raced(EventStore):
    """A store in which others write while a sync decides."""

    def items(self, stream: str = TRACKER) -> list[dict[str, Any]]:
        found = super().items(stream)
        if self.others:
            self.others.pop()()
        return found

    others: list[Callable[[], object]]


@pytest.mark.more
@pytest.mark.parametrize("times", [1, 2])
def test_a_sync_holds_up_nobody_while_it_decides_and_loses_nothing(
    tmp_path: Path, tracker: Path, times: int
) -> None:
    database = tmp_path / "state" / "tracker_events.db"
    store = Raced(database, queue_patience_s=0.2)
    with StateAPI(database) as other, store:
        store.others = []
        api = SimpleNamespace(store=store)
        sync_tracker(api, tracker)
        edit(tracker, '"keep \\/ this"', '"mine"')
        notes = iter(["their first", "their second"])
        store.others = [lambda: update(other, "T-2", owner=next(notes))] * times
        sync_tracker(api, tracker)
        assert in_file(tracker)["T-2"]["notes"] == "mine"
        assert in_file(tracker)["T-2"]["owner"] == ["their first", "their second"][times - 1]
        assert store.item("T-2") == in_file(tracker)["T-2"]
        assert sync_tracker(api, tracker) == SyncReport()


def test_a_sync_ends_although_others_never_stop_writing(tmp_path: Path, tracker: Path) -> None:
    database = tmp_path / "state" / "tracker_events.db"
    store = Raced(database)
    with (
        StateAPI(database) as first,
        store,
        EventStore(database, queue_patience_s=0.1) as other,
    ):
        sync_tracker(first, tracker)
        edit(tracker, '"keep \\/ this"', '"mine"')
        refused: list[str] = []

        def write() -> None:
            try:
                other.append(TRACKER, ITEM_UPDATED, {"id": "T-1", "n": len(store.others)})
            except StoreBusyError as busy:
                refused.append(str(busy))

        store.others = [write] * 20
        sync_tracker(SimpleNamespace(store=store), tracker)
        assert len(refused) == 1  # the look of the one try that held the store
        assert first.store.item("T-2") == in_file(tracker)["T-2"]
