"""Progress for people: one plain line per event on stderr, and nothing else writes there.

A closed or full stderr never stops a wave.
"""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from driver.text import safe_line


class Progress:
    """Writes `tidegate: <line>`; safe from many threads. `stream=None` keeps quiet."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """One event; control characters are escaped, so output of agents cannot draw on screens."""
        if self._stream is None:
            return
        with self._lock:
            try:
                self._stream.write(f"tidegate: {safe_line(line)}\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None


def to_stderr() -> Progress:
    """Progress on this process's stderr, or none where it is closed."""
    return Progress(sys.stderr)
