"""What a machine writes into an unchanged tracker: the same as a full sync, without reading all."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import (
    ITEM_ARCHIVED,
    ITEM_CREATED,
    ITEM_FIELDS_REMOVED,
    ITEM_UPDATED,
    TRACKER,
)
from state_store.tracker import base
from state_store.tracker.ingest import SyncReport, sync_tracker

DB = "tracker_events.db"


def a_tracker(folder: Path, count: int = 30, *, plain: bool = False) -> Path:
    """A plain one has no text that looks like an id or a bracket of its own."""
    odd = {} if plain else {"meta": {"id": "T-1"}, "prompt": '"id": "T-2" {'}
    items: list[dict[str, Any]] = [
        {"id": f"T-{n}", "status": "todo", "files": [{"a": n}], **odd} for n in range(count)
    ]
    items.append({"id": 77, "status": "todo"})
    folder.mkdir()
    path = folder / "tracker.json"
    path.write_text(json.dumps({"version": 1, "items": items}, indent=2), encoding="utf-8")
    with StateAPI(folder / DB) as api:
        sync_tracker(api, path)
    return path


def machine_edits(api: StateAPI, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 6)):
        name = chance.choice([f"T-{n}" for n in range(6)] + ["77"])
        choices: list[tuple[str, dict[str, Any]]] = [
            (ITEM_UPDATED, {"status": chance.choice(["claimed", "todo", "blocked"])}),
            (ITEM_UPDATED, {"notes": str(chance.random()), "attempts": chance.randint(0, 3)}),
            (ITEM_FIELDS_REMOVED, {"fields": ["notes", "meta"]}),
            (ITEM_ARCHIVED, {"completed_at": "2026-01-01"}),
            (ITEM_CREATED, {"status": "proposed"}),
        ]
        kind, more = chance.choice(choices)
        made: dict[str, Any] = (
            {"id": f"M-{chance.randint(0, 2)}"} if kind == ITEM_CREATED else {"id": name}
        )
        api.append(TRACKER, kind, made | more)


def synced(folder: Path, *, fully: bool) -> tuple[str, Any]:
    """The tracker's text and the base after a sync; a full one is asked for by another file."""
    path = folder / "tracker.json"
    with StateAPI(folder / DB) as api:
        if fully:  # as if no full sync had been noted
            api.store.save_snapshot("tracker_seen:tracker.json", 0, {"digest": "none"})
        assert sync_tracker(api, path).conflicts == ()
        assert sync_tracker(api, path) == SyncReport()
        agreed = (base.load_base(api.store, path) or {}).items()
        # An id may be a number in the file, so no merge looks at it.
        items = {name: {k: v for k, v in item.items() if k != "id"} for name, item in agreed}
        return path.read_text(encoding="utf-8"), items


@pytest.mark.more
def test_it_writes_what_a_full_sync_writes(tmp_path: Path) -> None:
    for seed in range(25):
        chance, folder = random.Random(seed), tmp_path / str(seed)
        a_tracker(folder, plain=seed % 2 == 1)
        for round_ in range(3):
            with StateAPI(folder / DB) as api:
                machine_edits(api, chance)
            other = Path(shutil.copytree(folder, tmp_path / f"{seed}-{round_}"))
            assert synced(folder, fully=False) == synced(other, fully=True)


@pytest.mark.more
def test_it_leaves_the_long_base_as_it_was(tmp_path: Path) -> None:
    path = a_tracker(tmp_path / "s")
    with StateAPI(path.parent / DB) as api:
        before = api.store.read_snapshot("tracker_base:tracker.json")
        api.append(TRACKER, ITEM_UPDATED, {"id": "T-3", "status": "claimed"})
        assert sync_tracker(api, path) == SyncReport(exported=1)
        assert api.store.read_snapshot("tracker_base:tracker.json") == before
        found = base.load_base(api.store, path)
    assert found is not None
    assert found["T-3"]["status"] == "claimed"


def test_what_a_person_edits_afterwards_is_merged_against_it(tmp_path: Path) -> None:
    path = a_tracker(tmp_path / "s")
    with StateAPI(path.parent / DB) as api:
        api.append(TRACKER, ITEM_UPDATED, {"id": "T-3", "status": "blocked"})
        sync_tracker(api, path)
        text = path.read_text(encoding="utf-8").replace('"blocked"', '"todo"')
        path.write_text(text, encoding="utf-8")
        assert sync_tracker(api, path) == SyncReport(ingested=1)
        assert (api.store.item("T-3") or {})["status"] == "todo"
        assert sync_tracker(api, path) == SyncReport()


@pytest.mark.more
@pytest.mark.parametrize("count", [999, 1_001])
def test_many_changes_are_written_as_well(tmp_path: Path, count: int) -> None:
    path = a_tracker(tmp_path / "s", 1_200)
    with StateAPI(path.parent / DB) as api:
        for first in (0, 100):
            edits = [(ITEM_UPDATED, {"id": f"T-{n}", "n": first}) for n in range(first, count)]
            api.store.append_many(TRACKER, edits)
            assert sync_tracker(api, path).exported == count - first
            assert sync_tracker(api, path) == SyncReport()
