"""Writes the store's changes since the last full sync into a tracker file that is still the same.

A full sync without conflicts leaves file, store and base in agreement about every item. So while
the file's bytes stay, only the items of later events can differ, and no other item is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path

from state_store.database import events as names
from state_store.database.interface import Store
from state_store.documents.errors import InputError
from state_store.documents.files import disk_trouble, read_bytes, replace_unchanged
from state_store.documents.item_id import id_of
from state_store.documents.json_document import MAX_BYTES, list_with, object_with
from state_store.documents.strict_json import parse_foreign
from state_store.tracker import base as tracker_base
from state_store.tracker.base import Seen
from state_store.tracker.file import spliced, splices
from state_store.tracker.item_search import spans_of
from state_store.tracker.merge import Change, Item, agreed, merge
from state_store.tracker.scan import Edited, ScannedTracker, scanned_before
from state_store.tracker.spliced_file import Replaced, Splice, replace_spliced

_MOST_EVENTS = 1_000
_FEW = 20  # to look for more items takes longer than to read all of them


class _Meeting:
    """The items that may differ: those of the store, and as they are found in the file."""

    def __init__(self, ours: Mapping[str, Item]) -> None:
        self.ours = ours
        self.theirs: dict[str, Item] = {}
        self.after: dict[str, Item] = {}

    def change_of(self, item: Item) -> Change | None:
        """The change that an item of the file needs."""
        name = id_of(item)
        if name is None or name not in self.ours:
            return None
        self.theirs[name] = self.after[name] = item
        change = merge({name: item}, {name: self.ours[name]}, {name: item}).to_file.get(name)
        if change:
            self.after[name] = change.applied(item)
        return change


def quick_sync(store: Store, path: Path, seen: Seen) -> int | None:
    """The number of items written to the file; None if only a full sync can tell what is to do.
    `seen` is the state at the last full sync, and the caller holds the file's lock."""
    changed = _changed_items(store, seen)
    if changed is None:
        return None
    ids, version = changed
    ours = {name: item for name in ids if (item := store.item(name)) is not None}
    scan, met = scanned_before(path, seen.digest), _Meeting(ours)
    edits = _edits(scan, met) if scan is not None else None
    if scan is not None and edits is not None:
        digest = _edit(path, scan, edits)
    else:
        met = _Meeting(ours)
        digest = _rewrite(path, seen.digest, met)
    if digest is None:
        return None
    merged = agreed(met.theirs, ours, met.after)
    tracker_base.save_changes(store, path, merged, Seen(digest, version))
    return sum(met.after[name] is not met.theirs.get(name) for name in met.after)


def _edits(scan: ScannedTracker, met: _Meeting) -> list[Edited] | None:
    """The edits of a file whose items have known places; None if the places do not do: for an item
    that is not in the file, or a field to remove, whose layout depends on what is around."""
    edits: list[Edited] = []
    mark = "" if scan.is_ascii else "\N{BULLET}"  # a text that is not ASCII is written as such
    try:
        for number in sorted(map(scan.ids.index, met.ours)):
            old = scan.text_of(number)
            change = met.change_of(parse_foreign(old))
            if not change:
                continue
            if change.removed:
                return None
            text = mark + old.decode()
            new = object_with(text, len(mark), len(text), change.set).encode()
            edits += [(number, old, new)] if new != old else []
    except (InputError, ValueError):
        return None
    return edits


def _edit(path: Path, scan: ScannedTracker, edits: Sequence[Edited]) -> str | None:
    """Write edits into the file that was scanned; returns the new digest, None if it is another
    file now."""
    if not edits:
        return scan.digest if tracker_base.digest_of(path) == scan.digest else None
    found = [(*scan.place_of(number), new) for number, _, new in edits]
    with disk_trouble(path), FileIO(path) as source:
        digest = _replace(path, source, found, scan.digest)
        if digest is not None:
            scan.edited(edits, digest, Replaced.of(source, found))
    return digest


def _rewrite(path: Path, digest: str, met: _Meeting) -> str | None:
    """Write the changes, and items that are not in the file, into the file's text if it has this
    digest; returns the new one."""
    data = read_bytes(path, MAX_BYTES)
    if hashlib.sha256(data).hexdigest() != digest:
        return None
    text = data.decode()
    del data
    spans = spans_of(text, met.ours) if len(met.ours) <= _FEW else None
    found = list(splices(text, met.change_of, spans))
    found = [(start, end, new) for start, end, new in found if text[start:end] != new]
    absent = {name: item for name, item in met.ours.items() if name not in met.theirs}
    added = merge({}, absent, {}).added_to_file
    met.after |= {name: item for item in added if (name := id_of(item)) is not None}
    if not found and not added:
        return digest
    if text.isascii() and not added:  # so a position in the text is one in the bytes
        del text
        in_bytes = [(start, end, new.encode()) for start, end, new in found]
        with disk_trouble(path), FileIO(path) as source:
            return _replace(path, source, in_bytes, digest)
    written = list_with(spliced(text, found), "items", added).encode()
    is_done = replace_unchanged(path, written, digest)
    return hashlib.sha256(written).hexdigest() if is_done else None


def _replace(path: Path, source: FileIO, found: Sequence[Splice], digest: str) -> str | None:
    identity, known = tracker_base.known_digest(path) or ((), "")
    return replace_spliced(path, source, found, digest, identity if known == digest else ())


def _changed_items(store: Store, seen: Seen) -> tuple[Iterable[str], int] | None:
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
