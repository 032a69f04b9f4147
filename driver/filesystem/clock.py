"""The clock of the file system, which stands still for some milliseconds between its ticks."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICK_LIMIT_S = 2.5  # the coarsest file system clock in use has a tick of two seconds


def next_tick(probe: Path) -> int:
    """Wait until the file system's clock has moved on; returns its time."""
    probe.write_bytes(b"")
    written = now = probe.stat().st_ctime_ns
    deadline = time.monotonic() + TICK_LIMIT_S
    while os.name != "nt" and now <= written and time.monotonic() < deadline:
        time.sleep(0.001)
        os.utime(probe)
        now = probe.stat().st_ctime_ns
    probe.unlink()
    return now
