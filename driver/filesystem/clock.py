"""The clock of the file system, which stands still for some milliseconds between its ticks, and
which changes of a file it notes."""

from __future__ import annotations

import contextlib
import mmap
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


def notes_all_changes(probe: Path) -> bool:
    """True if every change of a file in this file system changes its times. In tmpfs, a program
    that maps a file into its memory, and reads it first, can change it without a trace."""
    if os.name == "nt":
        return True
    try:
        probe.write_bytes(b"a")
        before = probe.stat().st_ctime_ns
        next_tick(probe.with_name(probe.name + ".tick"))
        with probe.open("r+b") as file, contextlib.closing(mmap.mmap(file.fileno(), 1)) as view:
            view[:1] = view[:1].upper()
            view.flush()
        return probe.stat().st_ctime_ns != before
    except (OSError, ValueError):  # files here cannot be mapped for writing
        return True
    finally:
        probe.unlink(missing_ok=True)
