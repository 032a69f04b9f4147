"""Lists the processes of this machine, from /proc or from `ps`, and signals them.

A signalled process may have ended. The supervisor and its caller decide which processes to end.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself costs time and memory
import os
import time
from _collections_abc import Callable  # so does the public module

NAME_BYTES = 60


def descendants(pid: int) -> list[int]:
    """All descendants of `pid`, zombies too; needs Linux's /proc."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found += children(child)
    return found


def children(pid: int) -> list[int]:
    """The direct children of a process, of all its threads."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib costs time and memory
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:  # noqa: PTH123
                found += map(int, listing.read().split())
    except OSError:
        return found  # the process just ended
    return found


def is_zombie(pid: int) -> bool:
    """True if the process is dead, collected by its parent or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
            return stat.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return os.path.isdir("/proc/self")  # noqa: PTH112 - `ps` lists no zombies


def name_of(pid: int) -> bytes:
    """The start of a process's command line; b"" if the system does not show it."""
    for source in ("cmdline", "comm"):  # a process can empty its cmdline
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
    """The descendants of `root` and of the members of the process group, and these members."""
    found = {pid for pid, parent, its_group in rows if its_group == group or parent == root}
    while new := {pid for pid, parent, _ in rows if parent in found} - found:
        found |= new
    return sorted(found)


def group_of(pid: int) -> int | None:
    """The process group of `pid`; None if the process has ended or the system does not tell."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def send(pid: int, number: int) -> None:
    """Signal a process. It may have ended, or belong to another user by now."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def send_group(group: int, number: int) -> None:
    """Signal a process group, which may have ended."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def stop_all(members: Callable[[], list[int]], deadline: float) -> set[int]:
    """Stop all members until no new member appears or `deadline` (monotonic) has passed.

    A fork bomb outruns one sweep of kills; a stopped process cannot fork.
    """
    stopped: set[int] = set()
    while (new := set(members()) - stopped) and time.monotonic() < deadline:
        for pid in new:
            send(pid, signal.SIGSTOP)
        stopped |= new
    return stopped
