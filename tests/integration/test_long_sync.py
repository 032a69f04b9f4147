"""A long tracker is taken into an empty store by events of some hundred items each.

Whatever the store then answers must be what one event for each item would have given.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.index_reader import TrackerReader
from state_store.api import StateAPI
from state_store.database import item_blocks
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, ITEMS_IMPORTED, TRACKER
from state_store.documents.errors import InputError
from state_store.tracker import base as tracker_base
from state_store.tracker.base import digest_of
from state_store.tracker.ingest import SyncReport, sync_tracker
from state_store.tracker.scan import BLOCK, scanned_before
from state_store.views.export import state_md
from state_store.views.reconcile import reconcile_stores
from state_store.views.store_summary import StoreSummary
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
COUNT = 520
SYNC = """
import sys
from state_store.api import StateAPI
from state_store.tracker.ingest import sync_tracker
sync_tracker(StateAPI(sys.argv[1] + "/tracker_events.db"), sys.argv[1] + "/tracker.json")
"""


def items(count: int = COUNT) -> list[dict[str, Any]]:
    return [
        {"id": f"T-{n}", "slug": f"s{n}", "status": "todo", "title": f"t\u00eftle {n}",
         "prompt": "word " * 400, "ownsFiles": [f"f{n}"], **({"odd": n} if n == 400 else {})}
        for n in range(count)
    ]  # fmt: skip


def written(path: Path, entries: list[Any], **layout: Any) -> Path:
    path.write_text(json.dumps({"version": 1, "items": entries}, **{"indent": 1, **layout}))
    return path


@pytest.fixture(scope="module")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taken")
    tracker = written(folder / "tracker.json", items())
    with StateAPI(folder / "tracker_events.db") as api:
        assert sync_tracker(api, tracker) == SyncReport(ingested=COUNT)
    return folder


@pytest.fixture
def folder(taken_in: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taken_in, tmp_path / "state"))


@pytest.fixture
def api(folder: Path) -> Iterator[StateAPI]:
    with StateAPI(folder / "tracker_events.db") as opened:
        yield opened


def test_few_events_have_all_items(api: StateAPI, folder: Path) -> None:
    events = api.get(TRACKER)
    assert {event["type"] for event in events} == {ITEMS_IMPORTED}
    assert len(events) == -(-COUNT // BLOCK)
    assert api.store.items() == items() == api.project("tracker")["items"]
    assert api.store.verify() == ()
    assert sync_tracker(api, folder / "tracker.json") == SyncReport()
    assert api.store.item("T-519") == items()[-1]
    assert api.store.item("T-520") is None
    with StoreSummary(str(folder / "tracker_events.db")) as summary:
        assert summary.items() == items()


@pytest.mark.more
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_second_store_takes_in_what_this_process_changed(
    api: StateAPI, folder: Path, *, is_kept: bool
) -> None:
    tracker = folder / "tracker.json"
    reader = TrackerReader()
    reader.read(tracker, folder)
    if is_kept:
        reader.keep(tracker, folder)
        reader = TrackerReader()
        reader.read(tracker, folder)
    api.append(TRACKER, ITEM_UPDATED, {"id": "T-9", "status": "done", "late": 1})
    assert sync_tracker(api, tracker) == SyncReport(exported=1)
    assert len(reader.read(tracker, folder).entries) == COUNT
    scan = scanned_before(tracker, digest_of(tracker))
    assert scan is not None
    os.utime(tracker)  # so that the next look reads the file again
    assert b'"late"' in scan.text_of(9)
    with StateAPI(folder / "second.db") as second:
        assert sync_tracker(second, tracker) == SyncReport(ingested=COUNT)
        assert [item["id"] for item in second.items_with("late")] == ["T-9"]


@pytest.mark.more
def test_a_changed_item_stays_in_its_place(api: StateAPI, folder: Path) -> None:
    api.append(TRACKER, ITEM_CREATED, {"id": "later", "status": "todo"})
    for number in (0, 300, COUNT - 1):
        api.append(TRACKER, ITEM_UPDATED, {"id": f"T-{number}", "status": "done"})
    api.append(TRACKER, ITEM_CREATED, {"id": "T-5", "status": "done", "more": 1})
    wanted = items()
    for number in (0, 300, COUNT - 1):
        wanted[number]["status"] = "done"
    wanted[5]["more"] = 1
    assert api.store.items() == [*wanted, {"id": "later", "status": "todo"}]
    assert api.store.verify() == ()
    report = sync_tracker(api, folder / "tracker.json")
    assert report == SyncReport(exported=5)
    file = json.loads((folder / "tracker.json").read_text())["items"]
    assert file == api.store.items()
    before = state_md(api)
    assert api.store.rebuild_items() == COUNT + 1
    assert api.store.items() == file
    assert api.store.verify() == ()
    assert state_md(api) == before


def test_items_are_found_by_a_field(api: StateAPI) -> None:
    assert api.items_with("odd") == [items()[400]]
    assert api.items_with("slug", "s9") == [items()[9]]
    assert api.items_with("attempts") == []
    api.append(TRACKER, ITEM_UPDATED, {"id": "T-9", "slug": "other", "odd": 1})
    assert api.items_with("slug", "s9") == []
    assert [item["id"] for item in api.items_with("odd")] == ["T-9", "T-400"]


@pytest.mark.more
def test_people_s_edits_are_merged_with_what_was_taken_in(api: StateAPI, folder: Path) -> None:
    api.append(TRACKER, ITEM_UPDATED, {"id": "T-1", "status": "done"})
    edited = items()
    edited[1]["prompt"] = edited[2]["prompt"] = "theirs"
    del edited[3]
    written(folder / "tracker.json", [*edited, {"id": "new"}])
    assert sync_tracker(api, folder / "tracker.json") == SyncReport(ingested=4, exported=1)
    found = {item["id"]: item for item in api.store.items()}
    assert (found["T-1"]["status"], found["T-1"]["prompt"]) == ("done", "theirs")
    assert found["T-2"]["prompt"] == "theirs"
    assert found["T-3"]["status"] == "archived"
    assert api.store.verify() == ()
    assert sync_tracker(api, folder / "tracker.json") == SyncReport()


@pytest.mark.more
def test_a_second_long_tracker_is_seen_by_the_first(api: StateAPI, folder: Path) -> None:
    """Its items came by one event each, and belong into the first file too."""
    other = written(folder / "other.json", [{**i, "id": f"U{i['id']}"} for i in items()])
    sync_tracker(api, other)
    sync_tracker(api, folder / "tracker.json")
    assert len(json.loads((folder / "tracker.json").read_text())["items"]) == 2 * COUNT
    assert api.store.verify() == ()


@pytest.mark.more
@pytest.mark.parametrize(
    "odd",
    [{"id": "T-1"}, {"slug": "nameless"}, 7, {"id": 7, "status": "todo"}, {"id": "\ud800"}],
)
def test_an_odd_entry_is_told_as_ever(tmp_path: Path, odd: Any) -> None:
    tracker = written(tmp_path / "t.json", [*items(), odd])
    short = written(tmp_path / "short.json", [*items(3), odd])
    with StateAPI(tmp_path / "a.db") as api, StateAPI(tmp_path / "b.db") as other:
        report, wanted = sync_tracker(api, tracker), sync_tracker(other, short)
        assert [p.replace("t.json", "short.json", 1) for p in report.problems] == [
            p.replace("entry 4", f"entry {COUNT + 1}") for p in wanted.problems
        ]
        assert report.ingested == wanted.ingested + COUNT - 3
        assert api.store.verify() == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", [{"indent": None}, {"indent": 3}, {"separators": (" , ", ":")}])
def test_any_layout_is_taken_in(tmp_path: Path, layout: dict[str, Any]) -> None:
    tracker = written(tmp_path / "t.json", items(), **layout)
    tracker.write_text("\ufeff" + tracker.read_text(), encoding="utf-8")
    with StateAPI(tmp_path / "a.db") as api:
        assert sync_tracker(api, tracker) == SyncReport(ingested=COUNT)
        assert api.store.items() == items()


@pytest.mark.more
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"slug": "s7",', '"slug": "s7", "slug": "x",'),
        ('"slug": "s7",', '"slug": NaN,'),
        ('"slug": "s7",', '"slug": 1e999,'),
        ('"version": 1', '"version": 2'),
        ('"version": 1', '"items": [], "version": 1'),
        ('"version": 1', '"version": 1, "version": 1'),
        ('"slug": "s7",', '"slug": "s7"'),
    ],
)
def test_what_the_strict_parser_refuses_is_refused(tmp_path: Path, old: str, new: str) -> None:
    tracker = written(tmp_path / "t.json", items())
    text = tracker.read_text()
    assert text.count(old) == 1
    tracker.write_text(text.replace(old, new))
    with StateAPI(tmp_path / "a.db") as api, pytest.raises(InputError, match=r"t\.json"):
        sync_tracker(api, tracker)
    for cut in (-1, -3, len(text) // 2):
        tracker.write_text(text[:cut])
        with StateAPI(tmp_path / "a.db") as api, pytest.raises(InputError, match=r"t\.json"):
            sync_tracker(api, tracker)


@pytest.mark.more
def test_two_stores_that_took_in_the_same_tracker_become_one(folder: Path, tmp_path: Path) -> None:
    with StateAPI(folder / "tracker_events.db") as mine, StateAPI(tmp_path / "x.db") as theirs:
        theirs.append(TRACKER, ITEM_CREATED, {"id": "T-3", "status": "done", "only": "theirs"})
        sync_tracker(theirs, written(tmp_path / "x.json", [*items(3), *items()[4:]]))
        reconcile_stores(mine, theirs)
        reconcile_stores(theirs, mine)
        assert mine.store.verify() == theirs.store.verify() == ()
        both = [{i["id"]: i for i in one.store.items()} for one in (mine, theirs)]
        assert both[0] == both[1]
        assert (len(both[0]), both[0]["T-3"]["only"]) == (COUNT, "theirs")


def test_damage_to_a_block_is_found(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "tracker_events.db", isolation_level=None)) as other:
        other.execute("DELETE FROM item_blocks WHERE version = 2")
    with StateAPI(folder / "tracker_events.db") as api:
        assert {problem.kind for problem in api.store.verify()} == {"items"}
        api.store.rebuild_items()
        assert api.store.verify() == ()
        assert api.store.items() == items()


def test_events_of_another_shape_are_skipped(api: StateAPI) -> None:
    good = item_blocks.packed(["a"], ["id"], b'[{"id": "a"}]')
    odd: list[dict[str, Any]] = [
        *({"ids": ids} for ids in (["b"], ["a", "a"], [], [7])),
        *({"items": text} for text in ("?", good["items"][:-8], 7)),
    ]
    for payload in ({}, 7, *({**good, **one} for one in odd)):
        assert item_blocks.items_of(payload) == []
    assert item_blocks.items_of(good) == [{"id": "a"}]
    for payload in ({}, 7, {"ids": []}):
        api.append(TRACKER, ITEMS_IMPORTED, payload)
    assert api.store.items() == items()
    assert api.store.verify() == ()


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_first_sync_killed_at_any_point_is_finished_by_the_next(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    written(start / "tracker.json", items())
    point, hit = 0, True
    while hit:
        point += 1
        folder = Path(shutil.copytree(start, tmp_path / str(point)))
        done = subprocess.run(
            [*PYTHON, "-B", "-c", SYNC, str(folder)],
            cwd=ROOT,
            env={**os.environ, "TIDEGATE_FAIL": f"#{point}=kill"},
            check=False,
        )
        hit = done.returncode == -signal.SIGKILL
        assert hit or done.returncode == 0
        with StateAPI(folder / "tracker_events.db") as api:
            sync_tracker(api, folder / "tracker.json")
            assert api.store.items() == items()
            assert tracker_base.load_base(api.store, folder / "tracker.json") == {
                item["id"]: item for item in items()
            }
            assert sync_tracker(api, folder / "tracker.json") == SyncReport()
            assert api.store.verify() == ()
    assert point > 2
