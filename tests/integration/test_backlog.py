"""The backlog while a cycle works on it: what is written under which lease, and read how often."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.index_reader import TrackerReader
from driver.run_state.leases import LeasedElsewhereError, LeaseManager
from driver.scheduler.backlog import Backlog
from state_store import coordination
from state_store.api import StateAPI


@pytest.fixture
def tracker(tmp_path: Path) -> Path:
    path = tmp_path / "tracker.json"
    path.write_text(json.dumps([{"id": name, "status": "todo"} for name in "ABC"]))
    return path


def in_file(path: Path) -> dict[str, Any]:
    return {item["id"]: item["status"] for item in json.loads(path.read_text())}


def test_an_item_that_was_lost_keeps_nobody_elses_result_out(tmp_path: Path, tracker: Path) -> None:
    with StateAPI(tmp_path / "a.db") as api, LeaseManager(api.store, 60) as leases:
        backlog = Backlog(api, leases, tracker)
        leases.take_all("ABC")
        holder = coordination.current_holder(api.store, "B")
        assert coordination.release(api.store, "B", str(holder))
        edits = {name: (name, lambda _: {"status": "mine"}) for name in "ABC"}
        with pytest.raises(LeasedElsewhereError, match="B"):
            backlog.write(edits)
        assert in_file(tracker) == {"A": "mine", "B": "todo", "C": "mine"}


def test_claimed_items_are_given_back_when_their_wave_breaks(tmp_path: Path, tracker: Path) -> None:
    with StateAPI(tmp_path / "a.db") as api, LeaseManager(api.store, 60) as leases:
        backlog = Backlog(api, leases, tracker)
        leases.take_all("AB")
        seen: dict[str, Any] = {}

        def interrupted() -> None:
            with backlog.claimed({"A": "A", "B": "B"}):
                seen.update(in_file(tracker))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert seen == {"A": "claimed", "B": "claimed", "C": "todo"}
        assert in_file(tracker) == dict.fromkeys("ABC", "todo")


def test_a_tracker_is_parsed_again_only_when_its_bytes_changed(tracker: Path) -> None:
    reader = TrackerReader()
    first = reader.read(tracker, tracker.parent)
    assert reader.read(tracker, tracker.parent) is first
    tracker.write_text(tracker.read_text() + "\n")
    again = reader.read(tracker, tracker.parent)
    assert again is not first
    assert again.todo == first.todo
