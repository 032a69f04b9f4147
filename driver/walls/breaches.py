"""Limits that a command reached: watched while it runs, and named after its end.

A control group counts what it stops. Everything else is watched from outside: the memory of the
tree, what it wrote in its places, what it printed.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from driver.execution.command import Ending, Finished
from driver.execution.process_table import descendants
from driver.walls.groups import MEMORY, PIDS, Group
from driver.walls.wall import Limits, Role, Wall
from state_store.values.lazy_dataclass import replace
from state_store.values.lazy_pattern import lazy_pattern

SUBJECTS = {
    Role.AGENT: "the agent",
    Role.TEST: "the test",
    Role.SETUP: "the set-up",
    Role.HOOK: "the hook",
}
DISK_SHARE = 0.75  # of the room at the start
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_BLOCK = 512
# Words that programs print if a limit of the kernel stops them.
_WORDS = {
    "memory": r"MemoryError|Cannot allocate memory|out of memory|OutOfMemory|bad_alloc|ENOMEM"
    r"|failed to allocate",
    "processes": r"Resource temporarily unavailable|can't start new thread|fork: retry|EAGAIN"
    r"|unable to create native thread",
    "file_size": r"File too large|EFBIG|File size limit exceeded",
    "disk": r"No space left on device|ENOSPC",
}
_PRINTED = {name: lazy_pattern(words, re.IGNORECASE) for name, words in _WORDS.items()}


def watch_of(wall: Wall, group: Group) -> Callable[[int, int], str] | None:
    """The watch of a run in this wall; None if nothing has to be watched."""
    limits = wall.limits
    memory = 0 if group.counts(MEMORY) else limits.memory
    if not (memory or limits.output or limits.disk != 0):
        return None
    writable = (*wall.writable, *(layer.upper for layer in wall.layers))
    disks = list(_disks(writable)) if limits.disk != 0 else []
    began = time.time()

    def reached(root: int, printed: int) -> str:
        if limits.output and printed > limits.output:
            return breach(limits, "output", limits.output)
        if memory and memory_of(root, memory) > memory:
            return breach(limits, "memory", memory)
        for folders, free in disks:
            most = int(free * DISK_SHARE) if limits.disk is None else limits.disk
            # Less room on the whole disk is a reason to look, and costs one call to ask for.
            if free - _free(folders[0]) > most and written(folders, began) > most:
                return breach(limits, "disk", most)
        return ""

    return reached


def named(finished: Finished, limits: Limits, group: Group) -> Finished:
    """The result of a run, as one over a limit if it ended badly at one of them. A limit that only
    the output tells of is a hint."""
    if finished.ending is not Ending.EXITED or not finished.exit_code:
        return finished
    mosts = {MEMORY: ("memory", limits.memory), PIDS: ("processes", limits.processes)}
    found = [breach(limits, *mosts[one]) for one in group.reached()]
    too_long = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) if hasattr(signal, "SIGXFSZ") else ()
    if limits.file_size and finished.exit_code in too_long:
        found.append(breach(limits, "file_size", limits.file_size))
    if found:
        reason = "; ".join(found)
        return replace(finished, ending=Ending.OVER_LIMIT, exit_code=None, reason=reason)
    return replace(finished, hint=_hint(finished, limits, group))


def breach(limits: Limits, name: str, most: int) -> str:
    """A sentence such as `the test used more than 2 GiB of memory (sandbox.test.memory)`."""
    does = {
        "memory": f"used more than {size(most)} of memory",
        "processes": f"needed more than {most} processes at once",
        "file_size": f"wrote a file of more than {size(most)}",
        "disk": f"wrote more than {size(most)} to its disk",
        "output": f"printed more than {size(most)}",
    }[name]
    return f"{SUBJECTS[limits.role]} {does} (sandbox.{limits.role}.{name})"


def size(count: int) -> str:
    """A number of bytes, such as `1.5 GiB`."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}".replace(".0 ", " ")


def _hint(finished: Finished, limits: Limits, group: Group) -> str:
    in_force = {
        "memory": 0 if group.counts(MEMORY) else limits.data,
        "processes": limits.processes if not group.counts(PIDS) and os.getuid() != 0 else 0,
        "file_size": limits.file_size,
        "disk": limits.scratch,
    }
    last = finished.stderr[-10_000:] + finished.stdout[-10_000:]
    seen = [name for name, most in in_force.items() if most and _PRINTED[name].search(last)]
    keys = ", ".join(f"sandbox.{limits.role}.{name}" for name in seen)
    return f"its output tells of a limit that may be ours ({keys})" if seen else ""


def memory_of(root: int, most: int) -> int:
    """The bytes of memory of all processes below `root`. Above `most` the number is exact: memory
    that they share then counts once."""
    pids = descendants(root)
    rough = sum(_resident(pid) for pid in pids)
    return rough if rough <= most else sum(_share(pid) for pid in pids)


def _resident(pid: int) -> int:
    """All memory of a process, with what it shares; cheap to ask for."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return 0


def _share(pid: int) -> int:
    """The memory of a process and its share of what others use as well; its pages are counted."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:") * 1024
    return 0


def _disks(places: tuple[Path, ...]) -> Iterator[tuple[list[Path], int]]:
    """The places on each disk, and its free room."""
    found = dict[int, list[Path]]()
    for place in places:
        with suppress(OSError):
            if place.is_dir():
                found.setdefault(place.stat().st_dev, []).append(place)
    for folders in found.values():
        yield folders, _free(folders[0])


def _free(folder: Path) -> int:
    with suppress(OSError):
        state = os.statvfs(folder)
        return state.f_bfree * state.f_frsize
    return 0


def written(folders: list[Path], since: float) -> int:
    """The bytes on disk of the files below `folders` that changed since a time."""
    total = 0
    todo = list(map(str, folders))
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                    continue
                with suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    if state.st_ctime >= since:
                        total += state.st_blocks * _BLOCK
    return total
