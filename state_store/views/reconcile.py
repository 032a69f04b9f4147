"""Merges the events of two separate stores.

An event has the same identity in every store: its link in the store that first recorded it. A store
that adopts it writes this link to stream `reconcile`. Leases belong to one store, so claims are not
copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from state_store.database import events as names
from state_store.database.events import Event
from state_store.database.interface import Store
from state_store.database.projections import project_items
from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of
from state_store.tracker.ingest import HasStore
from state_store.tracker.merge import ABSENT, Items, MergeConflict, merge_item, same
from state_store.values.lazy_dataclass import dataclass

STREAM = "reconcile"
EVENTS_ADOPTED = "events_adopted"
_OF_ONE_STORE = frozenset({STREAM, "claims"})


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """The adopted events by stream, and the conflicts. A conflict is a field that both stores
    changed: the later change wins. Its `store` is our value, its `file` theirs."""

    adopted: Mapping[str, int]
    conflicts: tuple[MergeConflict, ...] = ()


def reconcile_stores(mine: HasStore, theirs: HasStore) -> ReconcileReport:
    """Append to `mine` every event that only `theirs` has, all or none. Only reads `theirs`.

    After both directions, both stores have the same events and items (in their own order).
    Repeating it adopts nothing. Raises InputError if both are the same database.
    """
    if mine.store.path.resolve() == theirs.store.path.resolve():
        raise InputError(f"{mine.store.path} cannot be reconciled with itself; name another store")
    with mine.store.transaction():
        streams = [name for name in theirs.store.heads() if name not in _OF_ONE_STORE]
        pasts = {s: (identified(mine.store, s), identified(theirs.store, s)) for s in streams}
        adopted = {s: _adopt(mine.store, s, *past) for s, past in pasts.items()}
        ours, others = pasts.get(names.TRACKER, ((), ()))
        if adopted.get(names.TRACKER):
            _settle_items(mine.store, merge_events(ours, others))
    known = {event.uid for event in others}
    both = _items([event for event in ours if event.uid in known])
    left, right = _items(ours), _items(others)
    conflicts = (
        conflict
        for name in left
        if name in right
        for conflict in merge_item(name, both.get(name), left[name], right[name]).conflicts
    )
    return ReconcileReport({s: n for s, n in adopted.items() if n}, tuple(conflicts))


def merge_events(left: Sequence[Event], right: Sequence[Event]) -> tuple[Event, ...]:
    """Merge two streams: each event once, in each side's order, else by time. Symmetric."""
    seen: set[str] = set()
    merged: list[Event] = []
    sides = [list(reversed(left)), list(reversed(right))]
    while any(sides):
        for side in sides:
            while side and side[-1].uid in seen:
                side.pop()
        waiting = [side for side in sides if side]
        if waiting:
            event = min(waiting, key=lambda side: (side[-1].ts, side[-1].uid)).pop()
            seen.add(event.uid)
            merged.append(event)
    return tuple(merged)


def identified(store: Store, stream: str) -> tuple[Event, ...]:
    """The events of a stream with their identity and original time."""
    origins: dict[int, tuple[str, float]] = {}
    for event in store.scan(STREAM):
        adopted = event["payload"]
        if adopted["stream"] == stream:
            origins |= enumerate(adopted["origins"], start=adopted["after"] + 1)
    links, found = store.links(stream), []
    for row in store.scan(stream):
        uid, ts = origins.get(row["version"], (links[row["version"]], row["ts"]))
        found.append(Event.from_row({**row, "uid": uid, "ts": ts}))
    return tuple(found)


def _adopt(store: Store, stream: str, ours: Sequence[Event], theirs: Sequence[Event]) -> int:
    known = {event.uid for event in ours}
    missing = [event for event in theirs if event.uid not in known]
    if missing:
        origins = [[event.uid, event.ts] for event in missing]
        adopted = {"stream": stream, "after": store.head(stream)[0], "origins": origins}
        store.append(STREAM, EVENTS_ADOPTED, adopted, "reconcile")
    for event in missing:
        store.append(stream, event.type, event.payload, event.actor)
    return len(missing)


def _settle_items(store: Store, merged: Sequence[Event]) -> None:
    """Set the items to the state that their events give in order of time."""
    wanted = _items(merged)
    for item in store.items():
        name = id_of(item) or ""
        after = wanted.get(name, item)
        fields = {key: v for key, v in after.items() if not same(v, item.get(key, ABSENT))}
        gone = [key for key in item if key not in after]
        if fields:
            store.append(names.TRACKER, names.ITEM_UPDATED, {**fields, "id": name}, "reconcile")
        if gone:
            removed = {"id": name, "fields": gone}
            store.append(names.TRACKER, names.ITEM_FIELDS_REMOVED, removed, "reconcile")


def _items(events: Sequence[Event]) -> Items:
    return project_items({"type": e.type, "payload": e.payload, "ts": e.ts} for e in events)
