"""The state store as callers of the original project use it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from state_store import (
    EventStore,
    StateAPI,
    WriteAPI,
    WriteConflict,
    identity,
    ingest_tracker_json,
    instance,
    projections,
)


def test_a_new_item_has_the_defaults_of_the_source(tmp_path: Path) -> None:
    api = WriteAPI(tmp_path)
    item = api.tracker_append_item({"title": "  a title ", "tags": "one"})
    assert item["title"] == "a title"
    assert (item["tags"], item["source"], item["notes"]) == ([], "api", None)
    told = {"title": "b", "tags": ["x"], "source": "me", "notes": "n"}
    item = api.tracker_append_item(told, actor="bot")
    assert told.items() <= item.items()
    assert api.tracker_append_item({"title": "c"}, actor="bot")["source"] == "bot"
    noted = api.tracker_update_status(item["id"], "done", note="shipped")
    assert noted["notes"] == "n\nshipped"
    held = json.loads((tmp_path / "tracker.json").read_text())
    assert [one["title"] for one in held["items"]] == ["a title", "b", "c"]


@pytest.mark.parametrize("bad", [None, "title", ["title"], {}, {"title": " "}])
def test_what_is_no_item_is_a_value_error(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(ValueError, match="item"):
        WriteAPI(tmp_path).tracker_append_item(bad)


def test_an_unknown_item_and_a_taken_id_have_the_words_of_the_source(tmp_path: Path) -> None:
    api = WriteAPI(tmp_path)
    api.tracker_append_item({"id": "x", "title": "t"})
    with pytest.raises(ValueError, match="already exists"):
        api.tracker_append_item({"id": "x", "title": "t"})
    with pytest.raises(ValueError, match="not found"):
        api.tracker_update_status("y", "done")


def test_the_places_of_the_write_api(tmp_path: Path) -> None:
    api = WriteAPI(tmp_path)
    assert (api.state_dir, api.tracker_file) == (tmp_path, tmp_path / "tracker.json")
    assert api.db_path == str(tmp_path / "tracker_events.db")
    conflict = WriteConflict("a", "b")
    assert (conflict.expected_hash, conflict.actual_hash, conflict.reason) == ("a", "b", "")


def test_an_unreadable_tracker_is_a_value_error_and_a_missing_one_is_missing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tracker.json"
    with StateAPI(tmp_path / "x.db") as api:
        with pytest.raises(FileNotFoundError):
            ingest_tracker_json(api, path)
        path.write_text("{")
        with pytest.raises(ValueError, match="JSON"):
            ingest_tracker_json(api, path)
        path.write_text("3")
        with pytest.raises(TypeError):
            ingest_tracker_json(api, path)
        path.write_text('[{"id": "a", "title": "t"}]')
        assert [ingest_tracker_json(api, path, "me") for _ in range(2)] == [1, 0]


def test_projections_with_a_snapshot_are_where_the_source_has_them(tmp_path: Path) -> None:
    names: Any = projections  # two of the names are found at their first use
    with EventStore(tmp_path / "x.db") as store:
        store.append("tracker", "item_created", {"id": "a", "title": "t"})
        view = projections.project_tracker(store.read("tracker"))
        names.save_snapshot(store, "tracker", 1, view)
        store.append("tracker", "item_updated", {"id": "a", "status": "done"})
        events = store.read("tracker")
        found = names.project_tracker_with_snapshot(store, "tracker", events)
    assert found == projections.project_tracker(events)
    with pytest.raises(AttributeError):
        names.nothing  # noqa: B018 - the look-up is the test


def test_the_instance_has_one_name(tmp_path: Path) -> None:
    assert identity is instance
    assert identity.get_instance_id() == identity.get_instance_id()


def test_other_programs_read_the_database_but_cannot_append(tmp_path: Path) -> None:
    with EventStore(tmp_path / "x.db") as store:
        store.append("s", "t", {"a": 1})
    row = (1.0, "me", "s", "t", "{}", 2)
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        held = database.execute("SELECT stream, type, version FROM events").fetchall()
        assert held == [("s", "t", 1)]
        names = "ts, actor, stream, type, payload, version"
        with pytest.raises(sqlite3.IntegrityError, match="hash"):
            database.execute(f"INSERT INTO events({names}) VALUES(?, ?, ?, ?, ?, ?)", row)
