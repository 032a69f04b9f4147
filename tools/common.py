"""Names of the original project's `common`: where the state is, and if a heartbeat is stale."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if not __package__:  # imported by its bare name
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    sys.modules[__name__] = import_module("tools.common")

from state_store.documents import heartbeats
from state_store.write_api import STATE_DB_FILENAME
from tools.settings import load as settings

__all__ = [
    "STATE_DB_FILENAME",
    "check_heartbeat_staleness",
    "get_state_db_path",
    "get_state_dir",
]


def get_state_dir() -> Path:
    """The state folder: environment, `state_root` of the files, else `./state`. Creates nothing."""
    return settings.resolve_state_dir()


def get_state_db_path() -> Path:
    """The database in the state folder."""
    return get_state_dir() / STATE_DB_FILENAME


def check_heartbeat_staleness(
    hb_file: str | Path, threshold_s: float
) -> tuple[bool, int, str | None]:
    """(is stale, age in whole seconds, reason or None) of a heartbeat, by its first line.

    Stale: without a time (then the age is 0), from `threshold_s` on, and more than 120 seconds in
    the future.
    """
    return heartbeats.heartbeat_staleness(Path(hb_file), threshold_s)
