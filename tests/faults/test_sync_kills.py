"""A sync that is killed at any of its points loses nobody's edit, and the next one finishes it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, TRACKER
from state_store.tracker.ingest import SyncReport, sync_tracker
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
SYNC = """
import sys
from state_store.api import StateAPI
from state_store.tracker.ingest import sync_tracker
sync_tracker(StateAPI(sys.argv[1] + "/tracker_events.db"), sys.argv[1] + "/tracker.json")
"""
EDITED = [
    {"id": "both", "status": "todo", "prompt": "theirs", "notes": "mine"},
    {"id": "new", "status": "todo"},
    {"id": "clash", "status": "later"},
]
EXPECTED = {
    "both": {"status": "in_progress", "prompt": "theirs", "notes": "mine [wave 1]"},
    "new": {"status": "todo"},
    "clash": {"status": "later"},
    "machine": {"status": "todo"},
}


def prepared(folder: Path) -> Path:
    """A store and a tracker that agreed once, and were both changed since."""
    tracker = folder / "tracker.json"
    folder.mkdir()
    tracker.write_text(json.dumps([{"id": n, "status": "todo"} for n in ("both", "gone", "clash")]))
    with StateAPI(folder / "tracker_events.db") as api:
        sync_tracker(api, tracker)
        both = {"id": "both", "status": "in_progress", "notes": " [wave 1]"}
        api.append(TRACKER, ITEM_UPDATED, both)
        api.append(TRACKER, ITEM_UPDATED, {"id": "clash", "status": "done"})
        api.append(TRACKER, ITEM_CREATED, {"id": "machine", "status": "todo"})
    tracker.write_text(json.dumps(EDITED, indent=1))
    return folder


def killed_at(folder: Path, fail: str) -> bool:
    done = subprocess.run(
        [*PYTHON, "-B", "-c", SYNC, str(folder)],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_FAIL": fail},
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0


def by_id(items: Any) -> dict[str, Any]:
    return {item["id"]: {k: v for k, v in item.items() if k != "id"} for item in items}


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_sync_killed_at_any_point_is_finished_by_the_next(tmp_path: Path) -> None:
    start = prepared(tmp_path / "start")
    point, hit = 0, True
    while hit:
        point += 1
        folder = Path(shutil.copytree(start, tmp_path / str(point)))
        hit = killed_at(folder, f"#{point}=kill")
        with StateAPI(folder / "tracker_events.db") as api:
            report = sync_tracker(api, folder / "tracker.json")
            assert [(c.item_id, c.store, c.file) for c in report.conflicts] == [
                ("clash", "done", "later")
            ]
            assert by_id(json.loads((folder / "tracker.json").read_text())) == EXPECTED
            gone = {"status": "archived", "completed_at": api.store.items()[1]["completed_at"]}
            clash = {"clash": {"status": "done"}, "gone": gone}
            assert by_id(api.store.items()) == EXPECTED | clash
            assert sync_tracker(api, folder / "tracker.json") == SyncReport(
                conflicts=report.conflicts
            )
            assert api.store.verify() == ()
    assert point > 6


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("title", ["plain", "na\u00efve"])
def test_a_change_of_status_killed_at_any_point_leaves_the_old_tracker_or_the_new(
    tmp_path: Path, title: str
) -> None:
    """A change is written into the text of an unchanged file. Some letters have several bytes."""
    items = [{"id": f"t{n}", "status": "todo", "title": title, "ownsFiles": [f"{n}"]}
             for n in range(30)]  # fmt: skip
    old = json.dumps({"version": 1, "items": items}, indent=2, ensure_ascii=False).encode()
    items[17]["status"] = items[20]["status"] = "in_progress"
    new = json.dumps({"version": 1, "items": items}, indent=2, ensure_ascii=False).encode()
    start = tmp_path / "start"
    start.mkdir()
    (start / "tracker.json").write_bytes(old)
    with StateAPI(start / "tracker_events.db") as api:
        sync_tracker(api, start / "tracker.json")
        for name in ("t20", "t17"):
            api.append(TRACKER, ITEM_UPDATED, {"id": name, "status": "in_progress"})
    seen = set()
    torn = ("file.write=torn:900", "file.write=torn:0")
    for point in (*torn, *(f"#{n}=kill" for n in range(1, 30))):
        folder = Path(shutil.copytree(start, tmp_path / point.replace(":", "-")))
        tracker, hit = folder / "tracker.json", killed_at(folder, point)
        seen.add((hit, tracker.read_bytes() == new))
        assert tracker.read_bytes() in (old, new)
        with StateAPI(folder / "tracker_events.db") as api:
            sync_tracker(api, tracker)
            assert tracker.read_bytes() == new
            assert sync_tracker(api, tracker) == SyncReport()
            assert api.store.verify() == ()
        if not hit:
            break
    assert seen == {(True, False), (True, True), (False, True)}
