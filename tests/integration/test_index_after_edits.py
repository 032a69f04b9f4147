"""What a process changes in a long tracker is written at the items' places, and is in its index."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.dependencies import waiting
from driver.backlog.index_reader import FILE_NAME, TrackerReader
from driver.backlog.retry_policy import in_backoff
from driver.backlog.watched_fields import WatchedTracker
from state_store.api import StateAPI
from state_store.database.events import ITEM_CREATED, ITEM_FIELDS_REMOVED, ITEM_UPDATED, TRACKER
from state_store.documents.errors import InputError
from state_store.documents.files import identity_at
from state_store.tracker import base
from state_store.tracker.file import read_tracker_file
from state_store.tracker.ingest import SyncReport, sync_tracker
from state_store.tracker.scan import ScannedTracker, scanned, scanned_before
from state_store.tracker.spliced_file import Replaced, replace_spliced
from state_store.write_api import STATE_DB_FILENAME
from tests.support.programs import item

NOW = datetime(2026, 1, 15, tzinfo=UTC)
SHIPPED = {"wave": "w", "branch": "b", "target": "main", "commit": "c", "onto": "o"}


def a_tracker(folder: Path, title: str) -> Path:
    folder.mkdir()
    items = [
        item(f"i{n}", priority=f"P{n % 3 + 1}", createdAt=n, title=title, prompt="p" * 30_000)
        for n in range(40)
    ]
    items[7]["dependsOn"] = ["I3"]
    items[8]["ownsFiles"] = []
    path = folder / "tracker.json"
    path.write_text(json.dumps({"items": items}, indent=2, ensure_ascii=False), encoding="utf-8")
    return path


def edits(chance: random.Random) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for _ in range(chance.randint(1, 4)):
        change = chance.choice(
            (
                {"status": chance.choice(("claimed", "todo", "done", "blocked"))},
                {"status": "in_progress", "shipped": SHIPPED},
                {"status": "todo", "nextAttemptAt": "2030-01-01", "attempts": 2},
                {"notes": chance.choice(("plain", "na\u00efve"))},
                {"priority": chance.choice(("P1", "P2"))},
                {"prompt": chance.choice(("", "new"))},
                {"dependsOn": ["I5"]},
            )
        )
        found.append((ITEM_UPDATED, {"id": f"I{chance.randrange(12)}", **change}))
    if chance.random() < 0.2:
        found.append((ITEM_FIELDS_REMOVED, {"id": "I2", "fields": ["title"]}))
    if chance.random() < 0.1:
        found.append((ITEM_CREATED, {"id": f"N{chance.random()}", "status": "proposed"}))
    return found


@pytest.mark.more
@pytest.mark.parametrize("title", ["plain", "na\u00efve"])
@pytest.mark.parametrize("seed", range(2))
def test_the_index_is_that_of_the_changed_file(tmp_path: Path, title: str, seed: int) -> None:
    chance, state = random.Random(seed), tmp_path / "one"
    path = a_tracker(state, title)
    other = Path(shutil.copytree(state, tmp_path / "two")) / "tracker.json"
    with (
        StateAPI(state / STATE_DB_FILENAME) as api,
        StateAPI(other.parent / STATE_DB_FILENAME) as plain,
    ):
        reader = TrackerReader()
        reader.read(path, state)
        sync_tracker(api, path)
        sync_tracker(plain, other)
        for _ in range(4):
            made = edits(chance)
            api.store.append_many(TRACKER, made)
            plain.store.append_many(TRACKER, made)
            assert sync_tracker(api, path) == sync_tracker(plain, other)
            assert path.read_bytes() == other.read_bytes()
            assert sync_tracker(api, path) == SyncReport()
            check(reader, path, state)


@pytest.mark.more
@pytest.mark.parametrize(
    "change",
    [
        {"priority": "P3"},
        {"createdAt": 99},
        {"prompt": ""},
        {"slug": "i9"},
        {"dependsOn": "I5"},
        {"repo": "/r"},
        {"status": "in_progress", "shipped": SHIPPED},
    ],
)
def test_a_change_of_what_the_index_is_made_of(tmp_path: Path, change: dict[str, Any]) -> None:
    path = a_tracker(tmp_path / "s", "plain")
    with StateAPI(path.parent / STATE_DB_FILENAME) as api:
        reader = TrackerReader()
        reader.read(path, path.parent)
        sync_tracker(api, path)
        api.append(TRACKER, ITEM_UPDATED, {"id": "I6", **change})
        assert sync_tracker(api, path) == SyncReport(exported=1)
        check(reader, path, path.parent)


def check(reader: TrackerReader, path: Path, state: Path) -> None:
    """The index is the one that a fresh reader makes, and so is that which is kept of it."""
    index, fresh = reader.read(path, state), TrackerReader().read(path, state.parent)
    reader.keep(path, state)
    kept = TrackerReader().read(path, state)
    whole = read_tracker_file(path)
    for one in (index, kept):
        assert list(one.todo.items) == list(fresh.todo.items)
        assert (list(one.names), list(one.levels)) == (list(fresh.names), list(fresh.levels))
        assert (one.faults, one.shipped) == (fresh.faults, fresh.shipped)
        assert (one.problems, one.has_repo) == (fresh.problems, fresh.has_repo)
        assert one.own_claimed() == fresh.own_claimed()
        assert waiting(one.linked) == waiting(fresh.linked) == waiting(whole.entries)
        assert in_backoff(one.linked, NOW) == in_backoff(fresh.linked, NOW)
        assert dict(one.statuses) == dict(fresh.statuses)
        assert list(one.entries) == list(whole.entries)


def test_a_change_is_written_without_reading_the_file_as_a_whole(tmp_path: Path) -> None:
    path = a_tracker(tmp_path / "s", "plain")
    with StateAPI(path.parent / STATE_DB_FILENAME) as api:
        reader = TrackerReader()
        reader.read(path, path.parent)
        sync_tracker(api, path)
        reader.forget()
        api.append(TRACKER, ITEM_UPDATED, {"id": "I4", "status": "claimed"})
        assert sync_tracker(api, path) == SyncReport(exported=1)
        scan = scanned_before(path, base.digest_of(path))
        assert scan is not None  # so it went by the known places
        assert [(number, json.loads(new)["status"]) for number, _, new in scan.edits] == [
            (4, "claimed")
        ]
        reader.keep(path, path.parent)
        assert (path.parent / FILE_NAME).exists()
        assert scan.edits == []


@pytest.mark.more
def test_a_person_s_edit_meanwhile_is_merged(tmp_path: Path) -> None:
    path = a_tracker(tmp_path / "s", "plain")
    with StateAPI(path.parent / STATE_DB_FILENAME) as api:
        reader = TrackerReader()
        reader.read(path, path.parent)
        sync_tracker(api, path)
        api.append(TRACKER, ITEM_UPDATED, {"id": "I4", "status": "claimed"})
        text = path.read_text().replace('"title": "plain"', '"title": "their"', 5)
        path.write_text(text)
        assert sync_tracker(api, path) == SyncReport(ingested=5, exported=1)
        found = read_tracker_file(path).items
        assert (found["I4"]["status"], found["I4"]["title"]) == ("claimed", "their")
        check(reader, path, path.parent)


def test_an_entry_of_another_file_is_not_read(tmp_path: Path) -> None:
    path = a_tracker(tmp_path / "s", "plain")
    scan = scanned(path)
    scan.data = None
    path.write_bytes(path.read_bytes().replace(b"plain", b"other"))
    with pytest.raises(InputError, match="changed while it was read"):
        scan.entry(3)
    fresh = ScannedTracker(path, base.digest_of(path) or "", True, scan.ids)
    fresh.starts, fresh.ends = scan.starts, scan.ends
    os.utime(path, ns=(0, 0))
    assert fresh.entry(3)["title"] == "other"


def test_only_the_file_that_was_seen_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789" * 300_000)
    digest = base.digest_of(path) or ""
    splices = [(1, 2, b"one"), (5, 5, b"+"), (2_999_999, 3_000_000, b"")]
    wanted = b"0one234+56789" + b"0123456789" * 299_998 + b"012345678"
    with FileIO(path) as source:
        new = replace_spliced(path, source, splices, digest)
        assert Replaced.of(source, splices).written() == wanted
    assert path.read_bytes() == wanted
    assert new == base.digest_of(path) == hashlib.sha256(wanted).hexdigest()
    before = identity_at(path)
    with FileIO(path) as source:
        assert replace_spliced(path, source, [(0, 1, b"x")], digest) is None
        assert replace_spliced(path, source, [(0, 1, b"x")], digest, (1, 2)) is None
        assert identity_at(path) == before
        assert [one.name for one in tmp_path.iterdir()] == ["f"]
        assert replace_spliced(path, source, [(0, 1, b"x")], "not asked", before) is not None
    assert path.read_bytes() == b"x" + wanted[1:]


@pytest.mark.parametrize("by_rename", [False, True])
def test_a_changed_field_is_told_without_a_copy_of_the_tracker(
    tmp_path: Path, by_rename: bool
) -> None:
    path = a_tracker(tmp_path / "s", "plain")
    with StateAPI(path.parent / STATE_DB_FILENAME) as api:
        reader = TrackerReader()
        reader.read(path, path.parent)
        sync_tracker(api, path)
        api.append(TRACKER, ITEM_UPDATED, {"id": "I4", "status": "claimed"})
        assert sync_tracker(api, path) == SyncReport(exported=1)
        with WatchedTracker(path) as watched:
            assert watched.warning() == ""
            reader.forget()
            api.append(TRACKER, ITEM_UPDATED, {"id": "I5", "status": "claimed"})
            assert sync_tracker(api, path) == SyncReport(exported=1)
            assert watched.warning() == ""
            text = path.read_text().replace('"title": "plain"', '"title": "their"', 6)
            target = tmp_path / "new" if by_rename else path
            target.write_text(text)
            target.replace(path)
            told = watched.warning()
    assert told.endswith("check that you made the change: title of I4"), told


def test_a_write_of_others_right_after_ours_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0" * 3_000_000)
    for number in range(20):
        digest = base.digest_of(path) or ""
        with FileIO(path) as source:
            assert replace_spliced(path, source, [(0, 1, b"x")], digest) is not None
        with path.open("r+b") as stream:  # the same size, in place
            stream.write(b"%d" % (number % 10))
        assert base.digest_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()
