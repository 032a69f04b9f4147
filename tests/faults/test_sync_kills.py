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
