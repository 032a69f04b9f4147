"""Identifies processes beyond their number, and finds them by a variable in their environment.

Reads `/proc` and sends signals; starts nothing. Without `/proc` a process is known by its number
alone, and no process is found by a variable, so only its supervisor can end a tree.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from state_store.documents.clock import SystemClock
from state_store.instance import get_instance_id
from state_store.values.lazy_dataclass import dataclass, field

# Marks the agents of a wave. An older Tidegate marked its tests with it as well.
RUN_VARIABLE = "TIDEGATE_RUN"
_BOOT_CHARS = 8
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The unique identity of a process: number, start in clock ticks, boot and PID namespace. The
    namespace is "" if it was not recorded."""

    pid: int
    started: int | None
    boot: str
    numbered_by: str = field(default="", compare=False)


def identity(pid: int) -> ProcessIdentity | None:
    """The identity of process `pid`; None if there is no such process."""
    if (_PROC / "self").exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
        except OSError:
            return None
        if fields[0] in (b"Z", b"X"):
            return None
        boot = SystemClock().now().boot_id
        return ProcessIdentity(pid, int(fields[19]), boot, _pid_namespace())
    return ProcessIdentity(pid, None, "") if _answers(pid) else None


def is_alive(recorded: ProcessIdentity) -> bool | None:
    """True if a recorded process still runs; None if it belongs to another container."""
    me = identity(os.getpid())
    if (
        me is not None
        and me.boot == recorded.boot
        and recorded.numbered_by not in ("", me.numbered_by)
    ):
        return None
    return identity(recorded.pid) == recorded


def holder_name() -> str:
    """The name of this process as a holder of leases; `is_gone` reads it."""
    me = identity(os.getpid())
    mark = f"@{me.started or ''}-{me.boot[:_BOOT_CHARS]}-{_pid_namespace()}" if me else ""
    return get_instance_id() + mark


def is_gone(holder: str) -> bool:
    """True if the holder was a process of this machine's present boot and has ended."""
    return _lives(holder) is False


def is_living(holder: str) -> bool:
    """True if the holder is a running process of this machine."""
    return _lives(holder) is True


def _lives(holder: str) -> bool | None:
    """True if the holder still runs; None if unknown (other machine, boot or container)."""
    instance, _, mark = holder.partition("@")
    host, _, pid = instance.rpartition(":")[0].rpartition(":")
    started, _, rest = mark.partition("-")
    boot, _, numbered_by = rest.partition("-")
    me = identity(os.getpid())
    if not pid.isdigit() or me is None or not boot or not me.boot.startswith(boot):
        return None
    if (host, numbered_by) != (get_instance_id().split(":")[0], _pid_namespace()):
        return None
    found = identity(int(pid))
    return found is not None and str(found.started or "") == started


def _pid_namespace() -> str:
    """The PID namespace of this process; "" if the system has no namespaces. Containers have their
    own, but share the boot and often the host name."""
    try:
        return "".join(filter(str.isdigit, (_PROC / "self" / "ns" / "pid").readlink().name))
    except OSError:
        return ""


def end_marked(variable: str, value: str) -> tuple[int, ...]:
    """Kill the processes with `variable` set to `value`; returns their PIDs."""
    return end_all(marked(variable, value))


def end_all(pids: Iterable[int]) -> tuple[int, ...]:
    """Kill processes; returns the PIDs of those that were there."""
    ended = []
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            ended.append(pid)
    return tuple(ended)


def marked(variable: str, value: str) -> tuple[int, ...]:
    """The other processes with `variable` set to `value` in their environment."""
    mark, found = f"{variable}={value}".encode(), list[int]()
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        with suppress(OSError):
            if pid != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return tuple(found)


def users_of(folder: Path) -> tuple[int, ...]:
    """The processes whose current folder is `folder` or below it; empty without `/proc`."""
    found = []
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return tuple(found)


def _answers(pid: int) -> bool:
    if os.name == "nt":  # on Windows signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
