"""Checks the machine before a wave: git, clock, cores, disk, sandbox.

A `judge_` function is pure: it turns the facts that the `check_` function read into a result.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from driver.execution.processes import Processes
from driver.git.repository import git_version
from driver.terminal.check_result import CheckResult, failed, passed, tried, warned
from driver.walls.choice import WALLS, Chosen, WallRefusedError, walls_here
from driver.walls.wall import Level
from driver.walls.wave_walls import asked_of
from tools.settings.load import Settings

MIB = 1 << 20
SCARCE_BYTES, LITTLE_BYTES = 100 * MIB, 1024 * MIB
SCARCE_FILES = 10_000
NO_CLOCK_BEFORE = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
CLOCK_SLACK_S = 60.0

_USER_NAMESPACES = (
    "allow user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an "
    "AppArmor profile for bwrap alone"
)
_INSTALL_BWRAP = "install bubblewrap (the program bwrap)"
_STRONGEST = 'set [sandbox] level to "auto", which takes the strongest walls of this machine'


def check_git(environ: Mapping[str, str], folder: Path) -> CheckResult:
    """Checks that git is installed and new enough."""
    return tried("git", lambda: git_version(folder, environ))


def check_sandbox(
    settings: Settings, state_dir: Path, environ: Mapping[str, str], avoid: Iterable[Path]
) -> CheckResult:
    """Checks the level of walls that this machine can make, by an attempt to escape."""
    file = state_dir / WALLS
    kept = file if file.is_file() else None
    asked = asked_of(settings)
    try:
        chosen = walls_here(asked, kept, environ, avoid, Processes())
    except WallRefusedError as refused:
        remedy = "lower [sandbox] require or level, or " + _remedy(str(refused))
        return failed("sandbox", str(refused), remedy)
    return judge_sandbox(chosen, by_choice=asked.level is not None)


def judge_sandbox(chosen: Chosen, *, by_choice: bool = False) -> CheckResult:
    """Passes any level that separates files, and warns of a weaker one."""
    means, over = chosen.means, chosen.passed_over
    names_bwrap = means.level is Level.BWRAP or any(one.startswith(Level.BWRAP) for one in over)
    if not by_choice and not names_bwrap:
        over = ("bwrap: it was not found on PATH", *over)
    shown = f"{means.name} ({means.program})" if means.program else means.name
    detail = "; ".join((shown, *over))
    if means.is_closed:
        return passed("sandbox", detail)
    remedy = _STRONGEST if by_choice and sys.platform == "linux" else _remedy(detail)
    return warned("sandbox", f"{detail}: agents can reach all your files", remedy)


def _remedy(detail: str) -> str:
    denied = ("uid map", "rtm_newaddr", "namespace", "operation not permitted")
    if sys.platform != "linux":
        return "run Tidegate on Linux, or in a container or virtual machine of its own"
    if any(word in detail.lower() for word in denied):
        return _USER_NAMESPACES
    return _INSTALL_BWRAP


def check_cores(wanted: int | None) -> CheckResult:
    """Checks that the machine has a core for each test that runs in parallel."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return judge_cores(ours or 1, wanted)


def judge_cores(cores: int, wanted: int | None) -> CheckResult:
    """Warns if more tests than cores run in parallel: they are slower, and some time out."""
    detail = f"{cores} for tests"
    if wanted is None or wanted <= cores:
        return passed("cores", detail)
    remedy = f"set [limits] max_parallel_tests to {cores}"
    return warned("cores", f"{detail}, but {wanted} tests are to run in parallel", remedy)


def check_clock(state_dir: Path) -> CheckResult:
    """Checks that the clock is set and not before the newest file of the state folder."""
    newest_s = None
    with suppress(OSError), os.scandir(state_dir) as entries:
        times = [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
        newest_s = max(times, default=None)
    return judge_clock(time.time(), newest_s)


def judge_clock(now_s: float, newest_s: float | None) -> CheckResult:
    """Fails a wrong clock, because daily ceilings, leases and the order of events need it."""
    remedy = "set the clock of this machine (on Linux: timedatectl set-ntp true)"
    shown = _shown(now_s)
    if now_s < NO_CLOCK_BEFORE:
        return failed("clock", f"it says {shown}", remedy)
    if newest_s is not None and newest_s > now_s + CLOCK_SLACK_S:
        detail = (
            f"it says {shown}, before the newest entry of the state folder ({_shown(newest_s)})"
        )
        return failed("clock", detail, remedy)
    return passed("clock", shown)


def _shown(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def check_disk(name: str, path: Path) -> CheckResult:
    """Checks the free space at `path`, which may not exist yet."""
    there = nearest_folder(path)
    try:
        free, files = shutil.disk_usage(there).free, None
        if hasattr(os, "statvfs") and (seen := os.statvfs(there)).f_files:
            files = seen.f_favail
    except OSError as error:
        return failed(name, f"{there}: {error.strerror or error}", "make that folder readable")
    return judge_disk(name, there, free, files)


def judge_disk(name: str, path: Path, free_bytes: int, free_files: int | None) -> CheckResult:
    """Judges the free space; `free_files` is None if the file system does not count files."""
    detail = f"{free_bytes / MIB:,.0f} MiB free at {path}"
    remedy = "free some room there (tidegate gc, or tools/gc.py, removes what finished runs left)"
    if free_files is not None and free_files < SCARCE_FILES:
        return failed(name, f"room for only {free_files} more files at {path}", remedy)
    if free_bytes < SCARCE_BYTES:
        return failed(name, detail, remedy)
    return passed(name, detail) if free_bytes >= LITTLE_BYTES else warned(name, detail, remedy)


def nearest_folder(path: Path) -> Path:
    """Returns `path`, or the nearest folder above it that exists."""
    nearest = path.absolute()
    while not nearest.is_dir() and nearest != nearest.parent:
        nearest = nearest.parent
    return nearest
