"""Reads the signs of life of other programs, and judges their age.

A heartbeat is a file whose first line is the time of its last write, in seconds since the epoch.
The orchestrator's status has its time in `updated_at`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from state_store.documents.errors import InputError
from state_store.documents.files import MissingFileError, read_json, read_text

FOLDER = "heartbeats"
MAX_AHEAD_S = 120.0  # a later time comes from a wrong clock, so it proves nothing
_MAX_BYTES = 2**16

# (is stale, age in whole seconds, reason or None if fresh)
Staleness = tuple[bool, int, str | None]


def is_name(name: str) -> bool:
    """True for the name of a heartbeat, which cannot leave its folder."""
    return name not in ("", ".", "..") and not {"/", "\\", ":", "\0"}.intersection(name)


def path_of(state_dir: Path, name: str) -> Path:
    """The path of a heartbeat: in the state folder, as `.watchdog-heartbeat` is, else in
    `heartbeats`."""
    path = state_dir / name
    with suppress(OSError):
        path.lstat()
        return path
    return state_dir / FOLDER / name


def heartbeat_time(path: Path) -> float:
    """The time in a heartbeat. Raises ValueError with the reason if there is none."""
    with _reasons(path):
        lines = read_text(path, _MAX_BYTES).strip().splitlines()
    if not lines:
        raise ValueError(f"{path} is empty")
    try:
        at = float(lines[0])
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise ValueError(f"{path} is unreadable: its first line is no time in seconds")
    return at


def status_time(path: Path) -> float:
    """The time in an orchestrator-status.json. Raises ValueError with the reason."""
    with _reasons(path):
        found = read_json(path)
    stamp = found.get("updated_at") if isinstance(found, dict) else None
    try:
        at = datetime.fromisoformat(stamp if isinstance(stamp, str) else "")
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} has no time in updated_at") from error


def heartbeat_staleness(path: Path, threshold_s: float) -> Staleness:
    """The staleness of a heartbeat. It is stale, with age 0, if it has no time."""
    return _staleness(heartbeat_time, path, threshold_s)


def status_staleness(path: Path, threshold_s: float) -> Staleness:
    """The staleness of an orchestrator-status.json, like `heartbeat_staleness`."""
    return _staleness(status_time, path, threshold_s)


def _staleness(time_in: Callable[[Path], float], path: Path, threshold_s: float) -> Staleness:
    """The staleness of a file's time: stale from `threshold_s` on, and far in the future."""
    try:
        age = time.time() - time_in(path)
    except ValueError as fault:
        return True, 0, str(fault)
    if age < -MAX_AHEAD_S:
        return True, 0, f"its time is {-age:.0f} seconds ahead of the clock"
    shown = max(0, int(age))
    if age >= threshold_s:
        return True, shown, f"{shown} seconds old; stale from {threshold_s:g} seconds on"
    return False, shown, None


@contextmanager
def _reasons(path: Path) -> Iterator[None]:
    """Give an error of reading `path` as the reason in a ValueError."""
    try:
        yield
    except MissingFileError as error:
        raise ValueError(f"{path} is missing") from error
    except InputError as error:
        raise ValueError(f"{path} is unreadable: {error}") from error
