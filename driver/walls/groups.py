"""Control groups: a limit on all processes of a run together, which also holds for root.

A group can only be made where the system lets this user: as root, or where it is delegated.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from driver.walls.wall import Limits

_MOUNTED = re.compile(r"^\S+ \S+ \S+ \S+ (\S+) .* - (cgroup2?) \S+ (\S+)$", re.MULTILINE)
_PREFIX = "tidegate-"


@contextmanager
def group_for(limits: Limits) -> Iterator[tuple[Path, ...]]:
    """The `cgroup.procs` files of a new group with these limits, or none. Removed at the end."""
    made = _made(limits) if limits.processes else None
    try:
        yield (made / "cgroup.procs",) if made else ()
    finally:
        if made:
            with suppress(OSError):  # a process that could not be ended is still in it
                made.rmdir()


def _made(limits: Limits) -> Path | None:
    for parent in _parents():
        remove_left(parent)
        folder = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        with suppress(OSError):
            folder.mkdir()
            try:
                (folder / "pids.max").write_text(str(limits.processes), encoding="ascii")
            except OSError:  # a group without this controller
                folder.rmdir()
                continue
            return folder
    return None


def remove_left(parent: Path) -> None:
    """Remove the groups of ended runs. One that still holds a process stays."""
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            with suppress(OSError):
                folder.rmdir()


def _parents() -> Iterator[Path]:
    """The groups of this process that may count processes."""
    with suppress(OSError):
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        places = {
            controllers: path for _, controllers, path in (line.split(":", 2) for line in own)
        }
        for folder, kind, options in _MOUNTED.findall(mounts):
            if kind == "cgroup2" and "" in places:
                yield Path(folder + places[""])
            for controllers, path in places.items():
                if kind == "cgroup" and "pids" in controllers.split(",") and "pids" in options:
                    yield Path(folder + path)
