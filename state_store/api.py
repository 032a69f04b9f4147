"""`StateAPI`: events, views by name and subscriptions, without SQL.

The store keeps the tracker's items. Other views are computed from events on request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from state_store.database import events as names
from state_store.database import projections
from state_store.database.interface import Store
from state_store.place import open_store
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

STATUS_STREAMS = (names.ORCHESTRATOR_STATUS, names.META)
_FOLDS = {
    "agent_lifecycle": ((names.AGENT_TRACES,), projections.project_agent_lifecycle),
    "agent_traces": ((names.AGENT_TRACES,), projections.project_agent_traces),
    "orchestrator_status": (STATUS_STREAMS, projections.project_orchestrator_status),
}
VIEWS = ("tracker", *_FOLDS, f"{names.WAVE_PREFIX}<id>")
Callback = Callable[[dict[str, Any]], None]
LOOK_LEAST_S = 0.5


class Subscription:
    """Passes each event of a stream, once and in order, to a callback.

    `position` is the version of the last event that the callback handled. If the callback raises,
    it gets the same event again. A process can save `position` to continue later. Only `stop` may
    be called by another thread.
    """

    def __init__(self, store: Store, stream: str, callback: Callback, after: int = 0) -> None:
        self.stream = stream
        self.position = after
        self._store = store
        self._callback = callback
        self._stopped = threading.Event()

    def poll(self) -> int:
        """Pass on all present events and return their number. Never waits."""
        before = self.position
        for event in self._store.scan(self.stream, self.position):
            if self._stopped.is_set():
                break
            self._callback(event)
            self.position = event["version"]
        return self.position - before

    def follow(
        self, until: Callable[[], bool] = lambda: False, timeout_s: float | None = None
    ) -> None:
        """Pass on events as they come, until `until()`, `stop()` or the time-out.

        Without a signal from writers it polls an index, which takes some microseconds.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            self.poll()
            if until() or (deadline is not None and time.monotonic() >= deadline):
                return
            left = LOOK_LEAST_S if deadline is None else deadline - time.monotonic()
            self._store.wait(max(0.0, min(left, LOOK_LEAST_S)))

    def stop(self) -> None:
        """End `follow`, from any thread or from the callback."""
        self._stopped.set()


class StateAPI:
    """The state in the database at `db_path`, which is created if missing."""

    def __init__(self, db_path: str | Path) -> None:
        self.store: Store = open_store(db_path)

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
        """Append one event durably and return its version. See `EventStore.append`."""
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
        """The events of a stream after a version, in order."""
        return self.store.read(stream, after)

    def project(self, view: str) -> dict[str, Any]:
        """The view `view` of `VIEWS`, as in docs/state.md. Raises ValueError for another name."""
        if view == "tracker":
            return projections.tracker_document(self.store.items())
        if view.startswith(names.WAVE_PREFIX):
            return projections.project_wave(self.store.scan(view))
        if view not in _FOLDS:
            raise ValueError(f"there is no view {view!r}; there are {', '.join(VIEWS)}")
        streams, fold = _FOLDS[view]
        if len(streams) == 1:
            return fold(self.store.scan(streams[0]))
        found = [event for stream in streams for event in self.store.scan(stream)]
        return fold(sorted(found, key=lambda event: event["id"]))

    def items_with(self, field: str, value: Any = None) -> list[dict[str, Any]]:
        """The tracker's items with a field, and this value unless it is None. Fast for few."""
        return self.store.items_with(field, value)

    def waves(self) -> tuple[str, ...]:
        """The ids of all waves with events."""
        cut = len(names.WAVE_PREFIX)
        return tuple(s[cut:] for s in sorted(self.store.heads()) if s.startswith(names.WAVE_PREFIX))

    def subscribe(self, stream: str, callback: Callback, after: int = 0) -> Subscription:
        """A subscription to events after the version `after`. `poll` or `follow` reads it."""
        return Subscription(self.store, stream, callback, after)

    def close(self) -> None:
        """Close the connections. A later use opens new connections."""
        self.store.close()
