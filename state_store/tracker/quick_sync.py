"""Writes the store's changes since the last full sync into a tracker file that is still the same.

A full sync without conflicts leaves file, store and base in agreement about every item. So while
the file's bytes stay, only the items of later events can differ, and no other item is compared.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from pathlib import Path

from state_store.database import events as names
from state_store.database.store import EventStore
from state_store.documents.files import (
    Identity,
    Part,
    identity_at,
    is_at_rest,
    read_bytes,
    replace_unchanged,
)
from state_store.documents.item_id import id_of
from state_store.documents.json_document import MAX_BYTES, list_with
from state_store.tracker import base as tracker_base
from state_store.tracker.base import Seen
from state_store.tracker.file import Splice, spliced, splices
from state_store.tracker.item_search import spans_of
from state_store.tracker.merge import Change, Item, agreed, merge

_MOST_EVENTS = 1_000
_FEW = 20  # to look for more items takes longer than to read all of them


def quick_sync(store: EventStore, path: Path, seen: Seen) -> int | None:
    """The number of items written to the file; None if only a full sync can tell what is to do.
    `seen` is the state at the last full sync, and the caller holds the file's lock."""
    changed = _changed_items(store, seen)
    if changed is None or (read := _read_unchanged(path, seen.digest)) is None:
        return None
    (ids, version), (data, identity) = changed, read
    del read
    ours = {name: item for name in ids if (item := store.item(name)) is not None}
    text = data.decode()
    theirs: dict[str, Item] = {}
    after: dict[str, Item] = {}

    def change_of(item: Item) -> Change | None:
        name = id_of(item)
        if name not in ours:
            return None
        assert name is not None
        theirs[name] = after[name] = item
        change = merge({name: item}, {name: ours[name]}, {name: item}).to_file.get(name)
        if change:
            after[name] = change.applied(item)
        return change

    found = list(splices(text, change_of, spans_of(text, ours) if len(ours) <= _FEW else None))
    absent = {name: item for name, item in ours.items() if name not in theirs}
    added = merge({}, absent, {}).added_to_file
    if added or any(text[start:end] != written for start, end, written in found):
        if text.isascii() and not added:
            parts = _parts(memoryview(data), found)
        else:
            parts = [list_with(spliced(text, found), "items", added).encode()]
        del text  # saves memory for a long file
        if not replace_unchanged(path, parts, seen.digest, identity):
            return None
        new = hashlib.sha256()
        for part in parts:
            new.update(part)
        seen = Seen(new.hexdigest(), version)
    after |= {name: item for item in added if (name := id_of(item)) is not None}
    tracker_base.save_changes(store, path, agreed(theirs, ours, after), Seen(seen.digest, version))
    return sum(after[name] is not theirs.get(name) for name in after)


def _parts(data: memoryview, found: Iterable[Splice]) -> list[Part]:
    """The bytes with each of the splices. They are ASCII, so a position in the text is one in
    them, and what stays is not copied."""
    parts: list[Part] = []
    at = 0
    for start, end, written in found:
        parts += [data[at:start], written.encode()]
        at = end
    return [*parts, data[at:]]


def _read_unchanged(path: Path, digest: str) -> tuple[bytes, Identity] | None:
    """The bytes of the file if their SHA-256 is `digest`, and its identity, () unless it was at
    rest when it was read; else None. A file that this process knows by its identity is not hashed.
    """
    before, now = identity_at(path), time.time_ns()
    data = read_bytes(path, MAX_BYTES)
    identity = before if before and is_at_rest(before, now) and identity_at(path) == before else ()
    is_known = bool(identity) and tracker_base.known_digest(path) == (identity, digest)
    if not is_known and hashlib.sha256(data).hexdigest() != digest:
        return None
    return data, identity


def _changed_items(store: EventStore, seen: Seen) -> tuple[Iterable[str], int] | None:
    """The ids in the events since `seen`, and the version of the last one; None for too many."""
    version, _ = store.head(names.TRACKER)
    if not 0 < version - seen.version <= _MOST_EVENTS:
        return None
    events = [one for one in store.read(names.TRACKER, seen.version) if one["version"] <= version]
    if len(events) != version - seen.version:
        return None  # a damaged event
    if any(event["type"] == names.ITEMS_IMPORTED for event in events):
        return None  # of another tracker
    payloads = (event["payload"] for event in events)
    ids = (id_of(payload) for payload in payloads if isinstance(payload, dict))
    return dict.fromkeys(name for name in ids if name is not None), version
