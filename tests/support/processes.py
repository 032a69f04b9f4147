"""Processes that tests start: found again by a marker in their environment, never by name."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driver.execution.processes import Command
from tests.support.interpreter import ALONE

MARKER = "TIDEGATE_TEST_MARKER"


class Marked:
    """Commands whose whole tree carries one marker, and the search for what is left of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = uuid.uuid4().hex
        self.env = {"PATH": os.defpath + ":/usr/bin:/bin", MARKER: self.marker}

    def shell(self, text: str, **options: Any) -> Command:
        return self.command(text, **options)

    def python(self, text: str, *args: str, **options: Any) -> Command:
        return self.command((*ALONE, "-c", text, *args), **options)

    def command(self, argv: tuple[str, ...] | str, **options: Any) -> Command:
        env = self.env | options.pop("env", {})
        return Command(argv, self.folder, env, options.pop("timeout_s", 20.0), **options)

    def alive(self) -> list[int]:
        """The living processes of this marker; needs /proc."""
        return carrying(f"{MARKER}={self.marker}")

    def end(self) -> None:
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


@contextmanager
def marked_in(folder: Path) -> Iterator[Marked]:
    """Commands that are ended with the block, whatever becomes of it."""
    found = Marked(folder)
    try:
        yield found
    finally:
        found.end()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal; needs /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def carrying(mark: str) -> list[int]:
    """The living processes that have `mark`, a NAME=VALUE, in their environment; needs /proc."""
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if mark.encode() in _environment(pid)]


def carrying_any(prefix: str) -> list[int]:
    """The same for a variable whose value only begins like that."""
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [
        pid for pid in pids if any(one.startswith(prefix.encode()) for one in _environment(pid))
    ]


def _environment(pid: int) -> list[bytes]:
    try:  # empty for zombies
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def patient(quiet_s: float) -> float:
    """The seconds that a machine with as much to do as this one needs for what takes `quiet_s` on a
    quiet one."""
    if not hasattr(os, "getloadavg"):
        return quiet_s
    return quiet_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def eventually(holds: Callable[[], object], within_s: float = 5.0) -> bool:
    """Wait until a condition holds; False when it did not in time. Only the pauses count, and the
    less the busier the machine is: it wakes nobody on time and has no time for those waited for."""
    waited_s, pause_s = 0.0, 0.002
    while not holds():
        if waited_s > patient(within_s):
            return False
        time.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(1.5 * pause_s, 0.02)  # a look at all processes is no small work
    return True
