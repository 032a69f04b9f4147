"""Asks the kernel for its means of a sandbox, and finds programs that no agent could have made."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from state_store.values.lazy_dataclass import dataclass

_SYS_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_CREATE_RULESET_VERSION = 1
_NUMBERED_OTHERWISE = ("alpha", "mips")


@dataclass(frozen=True, slots=True)
class Facts:
    """The means of this kernel. `landlock_abi` is 0 if it has no Landlock."""

    landlock_abi: int = 0
    seccomp: bool = False
    posix: bool = False


def kernel_facts() -> Facts:
    """Ask the kernel for its means."""
    return Facts(
        landlock_abi=_landlock_abi(),
        seccomp=Path("/proc/sys/kernel/seccomp/actions_avail").exists(),
        posix=os.name == "posix",
    )


def program_outside(name: str, path: str, avoid: Iterable[Path]) -> str | None:
    """The first program called `name` on `path` that lies in no folder of `avoid`."""
    forbidden = [folder.resolve() for folder in avoid]
    for entry in path.split(os.pathsep):
        found = shutil.which(name, path=entry) if Path(entry).is_absolute() else None
        real = Path(found).resolve() if found else None
        if real and not any(real.is_relative_to(folder) for folder in forbidden):
            return found
    return None


def _landlock_abi() -> int:
    if sys.platform != "linux" or platform.machine().startswith(_NUMBERED_OTHERWISE):
        return 0
    try:
        import ctypes  # noqa: PLC0415 - missing in some builds
    except ImportError:
        return 0
    version = ctypes.CDLL(None).syscall(
        ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint(_LANDLOCK_CREATE_RULESET_VERSION),
    )
    return max(0, int(version))
