"""Lists the processes of this machine, from Linux's /proc or from `ps`, and signals them.

A signalled process may be gone. The supervisor and its caller decide which processes to end.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself costs time and memory
import os
import time
from _collections_abc import Callable  # so does the public module

NAME_BYTES = 60


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, zombies too; needs Linux's /proc."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found += children(child)
    return found


def children(pid: int) -> list[int]:
    """The direct children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib costs time and memory
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:  # noqa: PTH123
                found += map(int, listing.read().split())
    except OSError:
        return found  # it ended while we looked
    return found


def is_zombie(pid: int) -> bool:
    """True for a process that is dead and only waits to be collected, or is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
            return stat.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return os.path.isdir("/proc/self")  # noqa: PTH112 - elsewhere `ps` left zombies out already


def name_of(pid: int) -> bytes:
    """The start of a process's command line; b"" where this system does not have it."""
    for source in ("cmdline", "comm"):  # the first is empty where the process wiped it
        try:
            with open(f"/proc/{pid}/{source}", "rb") as source_file:  # noqa: PTH123
                name = bytes(source_file.read(NAME_BYTES).replace(b"\0", b" ").strip())
        except OSError:
            return b""
        if name:
            return name
    return b""


def process_list() -> list[tuple[int, int, int]]:
    """Process, parent and group of all living processes, from `ps`; for systems without /proc."""
    reading, writing = os.pipe()
    argv = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    to_pipe = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    ps = os.posix_spawn("/bin/ps", argv, {"LC_ALL": "C"}, file_actions=to_pipe)
    os.close(writing)
    with open(reading, "rb") as listing:  # noqa: PTH123
        rows = [line.split() for line in listing]
    os.waitpid(ps, 0)
    living = [row for row in rows if len(row) == 4 and not row[3].startswith(b"Z")]
    found = [(int(pid), int(parent), int(group)) for pid, parent, group, _ in living]
    return [row for row in found if row[0] != ps]


def listed_members(rows: list[tuple[int, int, int]], root: int, group: int) -> list[int]:
    """The processes below `root`, those of the process group, and all descendants of these."""
    found = {pid for pid, parent, its_group in rows if its_group == group or parent == root}
    while new := {pid for pid, parent, _ in rows if parent in found} - found:
        found |= new
    return sorted(found)


def group_of(pid: int) -> int | None:
    """The process group, or None when the process is gone or not ours to ask about."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone, or may have become another user's."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def send_group(group: int, number: int) -> None:
    """Signal a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def stop_all(members: Callable[[], list[int]], deadline: float) -> set[int]:
    """Stop all members until no new one shows up, or `deadline` (monotonic) has passed.

    A fork bomb outruns one sweep of kills; a stopped process cannot fork.
    """
    stopped: set[int] = set()
    while (new := set(members()) - stopped) and time.monotonic() < deadline:
        for pid in new:
            send(pid, signal.SIGSTOP)
        stopped |= new
    return stopped
