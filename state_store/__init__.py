"""The durable state: events, leases, items, journal entries, files.

The names below are imported at their first use, because most programs need no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "ConcurrencyConflict": "store",
    "EventStore": "store",
    "ReadAPI": "api",
    "StateAPI": "api",
    "WriteAPI": "api",
    "WriteConflict": "api",
    "export_tracker": "ingest",
    "ingest_tracker_json": "ingest",
    "project_agent_lifecycle": "projections",
    "project_tracker": "projections",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
