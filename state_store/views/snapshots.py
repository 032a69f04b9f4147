"""Snapshots of the tracker's view, which speed up a replay but are never needed.

The store keeps the rows and their checksums. A damaged snapshot is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from state_store.database.interface import Store
from state_store.database.projections import Row, View, project_items, tracker_document
from state_store.documents.item_id import id_of


def save_snapshot(
    store: Store, stream: str, event_version: int, projection: Mapping[str, Any]
) -> None:
    """Store the view of `stream` after the event `event_version`."""
    store.save_snapshot(stream, event_version, projection)


def project_tracker_with_snapshot(store: Store, stream: str, events: Sequence[Row]) -> View:
    """Like `project_tracker(events)`, but skips events that the newest snapshot covers."""
    version, view, _ = store.read_snapshot(stream) or (0, None, "")
    items = view.get("items") if isinstance(view, Mapping) else None
    if not isinstance(items, list) or version > (events[-1]["version"] if events else 0):
        version, items = 0, []  # no snapshot, or of a longer past than `events`
    named = ((id_of(item), item) for item in items if isinstance(item, Mapping))
    known = {name: dict(item) for name, item in named if name is not None}
    tail = (event for event in events if event["version"] > version)
    return tracker_document(project_items(tail, known).values())
