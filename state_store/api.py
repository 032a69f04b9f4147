"""`StateAPI`: the one seam behind which another database may stand, and the views by name.

Callers of `state_store` see events, views and items, never SQL. Views other than the tracker are
folded when asked for; the tracker is kept by the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from state_store.database import events as names
from state_store.database import projections
from state_store.database.store import EventStore
from state_store.database.subscribe import Callback, Subscription
from state_store.read_api import ReadAPI
from state_store.tracker.ingest import export_tracker, ingest_tracker_json, sync_tracker
from state_store.write_api import WriteAPI, WriteConflict

__all__ = [
    "ReadAPI",
    "StateAPI",
    "WriteAPI",
    "WriteConflict",
    "export_tracker",
    "ingest_tracker_json",
    "sync_tracker",
]

_FOLDS = {
    "agent_lifecycle": ((names.AGENT_TRACES,), projections.project_agent_lifecycle),
    "agent_traces": ((names.AGENT_TRACES,), projections.project_agent_traces),
    "orchestrator_status": (
        (names.ORCHESTRATOR_STATUS, names.META),
        projections.project_orchestrator_status,
    ),
}
VIEWS = ("tracker", *_FOLDS, f"{names.WAVE_PREFIX}<id>")


class StateAPI:
    """The state kept in the database at `db_path`, made when there is none."""

    def __init__(self, db_path: str | Path) -> None:
        self.store = EventStore(db_path)

    def __enter__(self) -> StateAPI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(
        self,
        stream: str,
        event_type: str,
        payload: Any,
        actor: str = "system",
        expected_version: int | None = None,
    ) -> int:
        """Append one event durably and return its version; see `EventStore.append`."""
        return self.store.append(stream, event_type, payload, actor, expected_version)

    def append_many(
        self,
        stream: str,
        events: Sequence[tuple[str, Any]],
        actor: str = "system",
        expected_version: int | None = None,
    ) -> int:
        """Append (type, payload) events, all or none, and return the stream's last version."""
        return self.store.append_many(stream, events, actor, expected_version)

    def get(self, stream: str, after: int = 0) -> list[dict[str, Any]]:
        """The events of a stream beyond a version, in order."""
        return self.store.read(stream, after)

    def project(self, view: str) -> dict[str, Any]:
        """One of `VIEWS`; the shapes are in docs/state.md. Raises ValueError for another name."""
        if view == "tracker":
            return projections.tracker_document(self.store.items())
        if view.startswith(names.WAVE_PREFIX):
            return projections.project_wave(self.store.scan(view))
        if view not in _FOLDS:
            raise ValueError(f"there is no view {view!r}; there are {', '.join(VIEWS)}")
        streams, fold = _FOLDS[view]
        return fold(self._in_order(streams))

    def waves(self) -> tuple[str, ...]:
        """The ids of all waves with events."""
        cut = len(names.WAVE_PREFIX)
        return tuple(s[cut:] for s in sorted(self.store.heads()) if s.startswith(names.WAVE_PREFIX))

    def subscribe(self, stream: str, callback: Callback, after: int = 0) -> Subscription:
        """A subscription to the events beyond the version `after`; it begins with `poll` or
        `follow`.
        """
        return Subscription(self.store, stream, callback, after)

    def close(self) -> None:
        """Close the connections; a later use opens new ones."""
        self.store.close()

    def _in_order(self, streams: Sequence[str]) -> Iterable[dict[str, Any]]:
        if len(streams) == 1:
            return self.store.scan(streams[0])
        found = [event for stream in streams for event in self.store.scan(stream)]
        return sorted(found, key=lambda event: event["id"])
