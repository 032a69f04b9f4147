"""`WriteAPI`: changes single tracker items in the store and in `<state>/tracker.json`.

People's changes to the file go into the store first and are never overwritten. The event comes
before the file: if the file cannot be written, `WriteConflict` is raised and the event stays.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from state_store.database import events as names
from state_store.database.interface import Store, StoreTransaction
from state_store.database.projections import iso_time, tracker_document
from state_store.database.transaction import drafted
from state_store.documents.errors import InputError, TidegateError
from state_store.documents.item_id import id_of
from state_store.documents.item_status import ARCHIVED, DONE, TODO
from state_store.place import has_begun, open_store
from state_store.tracker import base as tracker_base
from state_store.tracker.ingest import SyncReport, sync_tracker

STATE_DB_FILENAME = "tracker_events.db"
TRACKER_FILENAME = "tracker.json"

_DEFAULTS: Mapping[str, Any] = {
    "priority": "P1",
    "status": TODO,
    "lane": "proposed",
    "tags": (),
    "notes": None,
    "pr_link": None,
    "completed_at": None,
}
_CLOSED = (DONE, ARCHIVED)


def begun_database(state_dir: Path) -> Path:
    """The database of a state folder. Raises InputError if no run has made it yet."""
    database = state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        raise InputError(f"no run has begun in {state_dir}; name its folder with --state-dir")
    return database


def _require_storable(kind: str, payload: Mapping[str, Any], actor: str) -> None:
    """Raise ValueError or TypeError here, and not in a commit that other threads share."""
    drafted(names.TRACKER, actor, [(kind, dict(payload))])


class WriteConflict(TidegateError):
    """tracker.json differs from the store in a way that only a person can resolve.

    The hashes are the SHA-256 of the last agreed file and of the present file; None if unknown.
    """

    def __init__(
        self, expected_hash: str | None, actual_hash: str | None, reason: str = ""
    ) -> None:
        self.expected_hash, self.actual_hash, self.reason = expected_hash, actual_hash, reason
        super().__init__(reason)


class WriteAPI:
    """Writes to the tracker of the state folder `state_dir`."""

    def __init__(self, state_dir: str | Path) -> None:
        self.state_dir = Path(state_dir)
        self.tracker = self.state_dir / TRACKER_FILENAME
        self.tracker_file = self.tracker
        self.db_path = str(self.state_dir / STATE_DB_FILENAME)

    @cached_property
    def store(self) -> Store:
        """The store of the tracker."""
        return open_store(self.db_path)

    def close(self) -> None:
        """Close the connections. A later use opens new connections."""
        self.store.close()

    def tracker_update_status(
        self, item_id: str, new_status: str, note: str | None = None, actor: str = "api"
    ) -> dict[str, Any]:
        """Set an item's status, add `note` to its notes, and return the item.

        Raises ValueError for an unknown item or an empty status, and WriteConflict.
        """
        name = id_of({"id": item_id})
        if name is None or not str(new_status or "").strip():
            raise ValueError(f"an item id and a status are needed, not {item_id!r}, {new_status!r}")
        wanted = {"id": name, "status": new_status}
        _require_storable(names.ITEM_UPDATED, {**wanted, "notes": note}, actor)
        fault = self._take_in(actor)

        def job(transaction: StoreTransaction) -> int:
            item = transaction.item(name)
            if item is None:
                return 0
            change = dict(wanted)
            if note:
                old = item.get("notes")
                change["notes"] = f"{old}\n{note}" if isinstance(old, str) and old else note
            if new_status in _CLOSED and not item.get("completed_at"):
                change["completed_at"] = iso_time(time.time())
            return transaction.append(names.TRACKER, names.ITEM_UPDATED, change, actor)

        if not self.store.joined(job):
            raise fault or ValueError(f"item {name!r} not found; name another")
        return self._written_out(name, actor)

    def tracker_append_item(
        self, item_dict: Mapping[str, Any], actor: str = "api"
    ) -> dict[str, Any]:
        """Add an item with all its fields, also unknown ones; return it with id and defaults. Its
        `source` is the actor, if it names none.

        Raises ValueError without a title or if the id exists already, and WriteConflict.
        """
        given: object = item_dict
        title = given.get("title") if isinstance(given, Mapping) else None
        if not isinstance(title, str) or not title.strip():
            raise ValueError("an item needs a title that is not empty")
        name = uuid.uuid4().hex[:12] if item_dict.get("id") is None else id_of(item_dict)
        if name is None:
            raise ValueError(f"{item_dict['id']!r} cannot be an id; give a text")
        created = {} if "createdAt" in item_dict else {"created_at": iso_time(time.time())}
        item = {"id": name, "title": title, **_DEFAULTS, "source": actor, **created, **item_dict}
        tags = item["tags"] if isinstance(item["tags"], list) else []
        item |= {"id": name, "title": title.strip(), "tags": tags}
        _require_storable(names.ITEM_CREATED, item, actor)
        fault = self._take_in(actor)

        def job(transaction: StoreTransaction) -> int:
            if transaction.item(name) is not None:
                return 0
            return transaction.append(names.TRACKER, names.ITEM_CREATED, item, actor)

        if not self.store.joined(job):
            raise ValueError(f"item {name!r} already exists; choose another id")
        if fault is not None:
            raise fault
        return self._written_out(name, actor)

    def rebuild_projection(self) -> dict[str, Any]:
        """Rebuild the items from the events, update the file, and return the view.

        Items that people wrote stay. Raises WriteConflict if the file cannot be read.
        """
        if fault := self._take_in("rebuild"):
            raise fault
        self.store.rebuild_items()
        self._sync("rebuild")
        return tracker_document(self.store.items())

    def _take_in(self, actor: str) -> WriteConflict | None:
        """Copy people's changes into the store. Returns the fault, to be raised after the event."""
        try:
            self._sync(actor)
        except WriteConflict as fault:
            return fault
        return None

    def _written_out(self, name: str, actor: str) -> dict[str, Any]:
        """Write the store's changes into the file, and return the item."""
        report = self._sync(actor)
        if name in report.held_back:
            reasons = "; ".join(str(c) for c in report.conflicts if c.item_id == name)
            raise self._conflict(f"concurrent change: {reasons}")
        return self.store.item(name) or {}

    def _sync(self, actor: str) -> SyncReport:
        try:
            return sync_tracker(self, self.tracker, actor)
        except InputError as fault:
            raise self._conflict(f"Unexplained disk state: {fault}") from fault

    def _conflict(self, reason: str) -> WriteConflict:
        seen = tracker_base.load_seen(self.store, self.tracker)
        actual = tracker_base.digest_of(self.tracker)
        return WriteConflict(seen.digest if seen else None, actual, reason)
