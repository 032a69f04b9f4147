"""The time for leases: a monotonic clock, the id of its boot, and the wall clock.

Monotonic times are comparable in all processes of one boot.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Protocol

from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment. `monotonic_s` counts through sleep. `boot_id` is "" if unknown."""

    boot_id: str
    monotonic_s: float
    wall_s: float


class Clock(Protocol):
    """The source of a store's time. Tests replace it."""

    def now(self) -> Instant:
        """The present moment."""


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> Instant:
        """The present moment."""
        return Instant(_boot_id(), _since_boot(), time.time())


if sys.platform == "linux":

    def _since_boot() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def _read_boot_id() -> str:
        """Linux has a new id for each boot."""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()

elif sys.platform == "win32":
    import winreg

    _since_boot = time.monotonic

    def _read_boot_id() -> str:
        """Windows counts its boots."""
        prefetcher = (
            r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management"
            r"\PrefetchParameters"
        )
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, prefetcher) as key:
            return f"{winreg.QueryValueEx(key, 'BootId')[0]}"

else:
    import ctypes

    def _since_boot() -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def _read_boot_id() -> str:
        """macOS has an id for each boot session. Other systems may have none."""
        answer, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        library = ctypes.CDLL(None)
        failed = library.sysctlbyname(
            b"kern.bootsessionuuid", answer, ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        return "" if failed else answer.value.decode("ascii")


@functools.cache
def _boot_id() -> str:
    try:
        return _read_boot_id()
    except (OSError, AttributeError, ValueError):
        return ""
