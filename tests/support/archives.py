"""The events of a store that may be archived, as `gc` finds them."""

from __future__ import annotations

from collections.abc import Collection

from state_store.database.store import EventStore
from state_store.views.archiving import Part, look_for_old

OTHER = "a run of another wave"  # so that the newest commits are seen, as in a wave's time


def old_parts(store: EventStore, before: float, live: Collection[str]) -> list[Part]:
    """The parts that are older than a time and not of waves that are `live`."""
    return list(look_for_old(store.path, before, (*live, OTHER)).parts)
