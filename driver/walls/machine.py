"""The limits of each role: those of the settings, else what this machine has.

The usual limits only stop what would take the machine from everybody else.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from driver.walls.groups import MEMORY, PIDS, limits_around
from driver.walls.wall import Limits, Role
from tools.settings.run_sections import RoleSandboxSettings

_MEMORY_SHARE = 0.8
_MOST_PROCESSES = 8192
_OUTPUT = 1 << 30
_SHARE_OF_GROUP = 2  # half of the processes that a group or a system may have


def limits_of(role: Role, given: RoleSandboxSettings) -> Limits:
    """The limits of a role's commands on this machine."""
    memory, processes = given.memory, given.processes
    return Limits(
        role=role,
        memory=int(memory_here() * _MEMORY_SHARE) if memory is None else memory,
        processes=_processes_here() if processes is None else processes,
        file_size=given.file_size or 0,
        disk=given.disk,
        output=_OUTPUT if given.output is None else given.output,
        scratch=given.disk or 0,
    )


def memory_here() -> int:
    """The memory of this machine, or of the container or group that this process is in; 0 if
    nothing tells."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
        return min([total, *limits_around(MEMORY)])
    return 0


def _processes_here() -> int:
    """The processes that a command may have: never so many that others here can start none."""
    found = list(limits_around(PIDS))
    with suppress(OSError, ValueError):
        found.append(int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")))
    return min([_MOST_PROCESSES, *(most // _SHARE_OF_GROUP for most in found)])
