"""How much a backend has used so far, counted from many threads; unknown use is never zero."""

from __future__ import annotations

import threading

from driver.agent_driver import Usage


class TokenMeter:
    """Adds up what dispatches used; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: int | None = None
        self._unmetered = 0

    def add(self, usage: Usage) -> None:
        """Count one dispatch; unknown use is counted as a dispatch, never as zero tokens."""
        with self._lock:
            if usage.total_tokens is None:
                self._unmetered += 1
            else:
                self._known = (self._known or 0) + usage.total_tokens

    @property
    def known(self) -> int | None:
        """Tokens of the metered dispatches, None when there was none."""
        with self._lock:
            return self._known

    @property
    def unmetered(self) -> int:
        """How many dispatches had an unknown use."""
        with self._lock:
            return self._unmetered
