"""Following a stream: every event once and in order, whichever process appended it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from state_store.database.store import EventStore

Callback = Callable[[dict[str, Any]], None]

LOOK_EVERY_S = 0.05


class Subscription:
    """Hands the events of one stream beyond `position` to a callback.

    `position` is the version of the last event that the callback has returned from: one that
    raises is given the same event again, and a process that keeps `position` goes on from there.
    Not for use by two threads at once, but for `stop`.
    """

    def __init__(self, store: EventStore, stream: str, callback: Callback, after: int = 0) -> None:
        self.stream = stream
        self.position = after
        self._store = store
        self._callback = callback
        self._stopped = threading.Event()

    def poll(self) -> int:
        """Hand over what is there now and return how many events that was. Never waits."""
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
        """Hand events over as they come, until `until()`, `stop()` or the time is over.

        Between looks it sleeps; a look at an index costs some microseconds, so no signal from
        the writers is needed and none can be missed.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            self.poll()
            if until() or (deadline is not None and time.monotonic() >= deadline):
                return
            self._stopped.wait(LOOK_EVERY_S)

    def stop(self) -> None:
        """End `follow`, from any thread or from the callback."""
        self._stopped.set()
