"""Finds the strongest sandbox that this machine can give an agent.

Confines nothing. `look` tries each kind of sandbox; `choose` does no I/O.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from driver.execution.processes import capture
from driver.filesystem.temporary import scratch_folder
from state_store.values.lazy_dataclass import dataclass, replace

BWRAP = "bwrap"
LANDLOCK = "landlock"
LIMITS = "limits"
NONE = "none"

PROBE_TIMEOUT_S = 20.0
_SYS_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_CREATE_RULESET_VERSION = 1
_NUMBERED_OTHERWISE = ("alpha", "mips")

# In the sandbox: a file that is writable, a file that is not, and a port that is unreachable.
_PROBE = """
import socket, sys
inside, outside, port = sys.argv[1:]
open(inside, "w").close()
try:
    open(outside, "w").close()
except OSError:
    pass
try:
    socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
except OSError:
    pass
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a probe. `bwrap` is a working bwrap, or "" with the reason in `bwrap_problem`.
    `landlock_abi` is 0 if the kernel has no Landlock."""

    bwrap: str = ""
    bwrap_problem: str = ""
    landlock_abi: int = 0
    seccomp: bool = False
    posix: bool = False


def choose(facts: Facts) -> str:
    """The name of the strongest level: `bwrap`, `landlock-N`, `limits` or `none`."""
    if facts.bwrap:
        return BWRAP
    if facts.landlock_abi >= 1 and facts.seccomp:
        return f"{LANDLOCK}-{facts.landlock_abi}"
    return LIMITS if facts.posix else NONE


def look(environ: Mapping[str, str], avoid: Iterable[Path] = ()) -> Facts:
    """Run bwrap and ask the kernel. Ignores programs in `avoid`, the folders that agents can
    write."""
    program, problem = "", "it is a program for Linux"
    if sys.platform == "linux":
        program = program_outside(BWRAP, environ.get("PATH", os.defpath), avoid) or ""
        problem = _why_not_confining(program, environ) if program else "it was not found on PATH"
    return replace(kernel_facts(), bwrap="" if problem else program, bwrap_problem=problem)


def kernel_facts() -> Facts:
    """The facts that need no program."""
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


def bwrap_argv(program: str, writable: Path, inner: Iterable[str]) -> tuple[str, ...]:
    """The command that runs `inner` with only `writable` writable and a network of its own."""
    return (
        *(program, "--unshare-all", "--die-with-parent", "--new-session"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--bind", str(writable), str(writable), "--", *inner),
    )


def _why_not_confining(program: str, environ: Mapping[str, str]) -> str:
    """The reason why `bwrap` does not confine a probe; "" if it does."""
    with scratch_folder() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        writable, outside = folder / "in", folder / "outside"
        writable.mkdir()
        inside = writable / "inside"
        port = server.getsockname()[1]
        probe = (sys.executable, "-I", "-S", "-c", _PROBE, str(inside), str(outside), str(port))
        try:
            done = capture(
                bwrap_argv(program, writable, probe),
                cwd=writable,
                env={"PATH": environ.get("PATH", os.defpath)},
                timeout_s=PROBE_TIMEOUT_S,
            )
        except OSError as error:
            return f"{program} cannot be run: {error.strerror or error}"
        if not done.ok or not inside.exists():
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return "timed out" if done.timed_out else (lines or [f"exit {done.exit_code}"])[-1]
        if outside.exists():
            return "a program in it could write a file outside"
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return ""
        return "a program in it could reach the network"


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
