"""Tells waiting processes of each commit, with a connection that listens.

Only a writer that sees a listener notifies. A listener holds a shared lock of the server, which
ends with its connection, and each writer tries to get the same lock for its transaction alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from state_store.documents.errors import CannotRunError
from state_store.postgres.driver import driver
from state_store.postgres.schema import lock_key
from state_store.postgres.speech import Speaker

_POLL_S = 0.25


class News:
    """Commits in a schema. `connected` makes a connection of psycopg."""

    def __init__(self, schema: str, connected: Callable[[], Any]) -> None:
        self.lock = lock_key(schema, "news")
        self.channel = f"tidegate_{lock_key(schema, 'turn') & (2**63 - 1):x}"
        self._connected = connected
        self._one_listener = threading.Lock()
        self._listener: Speaker | None = None

    def wait(self, timeout_s: float) -> None:
        """Wait for a commit of any process. If the server cannot tell, this is a pause."""
        if not self._one_listener.acquire(blocking=False):
            time.sleep(min(timeout_s, _POLL_S))
            return
        try:
            if self._listener is None or not self._listener.is_usable:
                self._listen(timeout_s)
                return  # what came before is seen by a look
            for _ in self._listener.raw.notifies(timeout=timeout_s, stop_after=1):
                pass
        except (driver().Error, CannotRunError):
            if self._listener is not None:
                self._listener.close()
            self._listener = None
            time.sleep(min(timeout_s, _POLL_S))
        finally:
            self._one_listener.release()

    def _listen(self, timeout_s: float) -> None:
        """Begin to listen. A writer that did not see the lock has ended when it is ours, so a look
        at what is there misses nothing."""
        listener = self._listener = Speaker(self._connected())
        listener.script(f"LISTEN {self.channel}")
        listener.script(
            f"SET lock_timeout TO {max(1, int(timeout_s * 1000))}; "
            f"SELECT pg_advisory_lock_shared({self.lock})"
        )

    def close(self) -> None:
        """Close the connection. A later wait opens another."""
        with self._one_listener:
            if self._listener is not None:
                self._listener.close()
            self._listener = None

    def inherited(self) -> object:
        """The parent's connection after a fork, which must not be closed here."""
        return self._listener
