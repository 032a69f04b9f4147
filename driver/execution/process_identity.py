"""Identifies processes by more than their number, and finds them by a mark in their environment.

Reads `/proc` and signals; starts nothing. Without `/proc` a process is known by its number alone
and none is found by mark: there a tree ends with its supervisor only.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from state_store.database.clock import SystemClock
from state_store.instance import get_instance_id

RUN_VARIABLE = "TIDEGATE_RUN"  # environment variable that marks the processes of a wave
_BOOT_CHARS = 8
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The unique identity of a process: number, start in clock ticks, boot, and the PID namespace
    that the number belongs to, "" where that was not written down."""

    pid: int
    started: int | None
    boot: str
    numbered_by: str = field(default="", compare=False)


def identity(pid: int) -> ProcessIdentity | None:
    """The process with this number, None when there is none."""
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
    """True if a recorded process still runs; None if its number is from another container, where it
    says nothing."""
    me = identity(os.getpid())
    if (
        me is not None
        and me.boot == recorded.boot
        and recorded.numbered_by not in ("", me.numbered_by)
    ):
        return None
    return identity(recorded.pid) == recorded


def holder_name() -> str:
    """The name of this process as a holder of leases, by which `is_gone` knows that it ended."""
    me = identity(os.getpid())
    mark = f"@{me.started or ''}-{me.boot[:_BOOT_CHARS]}-{_pid_namespace()}" if me else ""
    return get_instance_id() + mark


def is_gone(holder: str) -> bool:
    """True if a holder was a process of this machine's present boot and has ended."""
    return _lives(holder) is False


def is_living(holder: str) -> bool:
    """True if a holder is a process of this machine that has not ended."""
    return _lives(holder) is True


def _lives(holder: str) -> bool | None:
    """None if this cannot be known: for another machine, another boot, or another container."""
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
    """The PID namespace of this process. Containers have their own, often below one host name and
    always within one boot. "" where there is only one."""
    try:
        return "".join(filter(str.isdigit, (_PROC / "self" / "ns" / "pid").readlink().name))
    except OSError:
        return ""


def end_marked(variable: str, value: str) -> tuple[int, ...]:
    """Kill the processes whose environment has `variable` with this value; returns their PIDs."""
    ended = []
    for pid in marked(variable, value):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            ended.append(pid)
    return tuple(ended)


def marked(variable: str, value: str) -> tuple[int, ...]:
    """The processes, but for this one, whose environment has `variable` with this value."""
    mark, found = f"{variable}={value}".encode(), list[int]()
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        with suppress(OSError):
            if pid != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return tuple(found)


def users_of(folder: Path) -> tuple[int, ...]:
    """The processes that work in a folder or below it; none are seen without `/proc`."""
    found = []
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return tuple(found)


def _answers(pid: int) -> bool:
    if os.name == "nt":  # signal 0 would end the process there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
