"""Which processes live: told apart by more than a number, and found by a mark in their environment.

Reads `/proc` and signals; starts nothing. Without `/proc` a process is known by its number alone
and nothing is found by mark: there a tree ends with its supervisor only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
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
    """A process that no other can be taken for: number, start in clock ticks, boot, and which
    numbering of processes the number is from, "" where that was not written down."""

    pid: int
    started: int | None
    boot: str
    numbered_by: str = field(default="", compare=False)


def identity(pid: int) -> ProcessIdentity | None:
    """The process with this number, None when there is none."""
    if (_PROC / "self").exists():
        started = _start_of(pid)
        boot = SystemClock().now().boot_id
        return None if started is None else ProcessIdentity(pid, started, boot, _numbered_by())
    return ProcessIdentity(pid, None, "") if _answers(pid) else None


def lives(noted: ProcessIdentity) -> bool | None:
    """Whether a process that was noted has not ended; None where its number is another container's
    and says nothing here."""
    me = identity(os.getpid())
    if me is not None and me.boot == noted.boot and noted.numbered_by not in ("", me.numbered_by):
        return None
    return identity(noted.pid) == noted


def holder_name() -> str:
    """This process as the holder of leases; `is_gone` can tell when it has ended."""
    me = identity(os.getpid())
    mark = f"@{me.started or ''}-{me.boot[:_BOOT_CHARS]}-{_numbered_by()}" if me else ""
    return get_instance_id() + mark


def is_gone(holder: str) -> bool:
    """Whether a holder was a process of this machine's present boot and has ended."""
    return _lives(holder) is False


def is_living(holder: str) -> bool:
    """Whether a holder is a process of this machine that has not ended."""
    return _lives(holder) is True


def _lives(holder: str) -> bool | None:
    """None where nobody can tell: of another machine, another boot, or another container."""
    instance, _, mark = holder.partition("@")
    host, _, pid = instance.rpartition(":")[0].rpartition(":")
    started, _, place = mark.partition("-")
    boot, _, numbered_by = place.partition("-")
    me = identity(os.getpid())
    if not pid.isdigit() or me is None or not boot or not me.boot.startswith(boot):
        return None
    if (host, numbered_by) != (get_instance_id().split(":")[0], _numbered_by()):
        return None
    found = identity(int(pid))
    return found is not None and str(found.started or "") == started


def _numbered_by() -> str:
    """Which numbering of processes this one's number is from; containers have their own, often
    below one host name and always within one boot. "" where there is only one."""
    try:
        return "".join(filter(str.isdigit, (_PROC / "self" / "ns" / "pid").readlink().name))
    except OSError:
        return ""


def end_marked(variable: str, value: str) -> tuple[int, ...]:
    """Kill every process whose environment has `variable` with this value; their numbers."""
    ended = []
    for pid in marked(variable, value):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            ended.append(pid)
    return tuple(ended)


def marked(variable: str, value: str) -> tuple[int, ...]:
    """The processes, but for this one, whose environment has `variable` with this value."""
    return tuple(_marked(f"{variable}={value}".encode()))


def users_of(folder: Path) -> tuple[int, ...]:
    """The processes that work in a folder or below it; none are seen without `/proc`."""
    found = []
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return tuple(found)


def _marked(mark: bytes) -> Iterator[int]:
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        with suppress(OSError):
            if pid != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                yield pid


def _start_of(pid: int) -> int | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


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
