"""Stores the last agreed items of store and tracker file, the base of the next merge.

The base is a snapshot in the store for each file. Its name is the file's path relative to the
store, so that both can move together.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from state_store.database import events as names
from state_store.database.interface import Store
from state_store.database.item_blocks import items_of
from state_store.documents.files import (
    BadFileError,
    Identity,
    identity_of,
    is_at_rest,
    open_regular,
)
from state_store.tracker.merge import Items
from state_store.values.lazy_dataclass import dataclass

_BASE = "tracker_base:"
_CHANGES = "tracker_base_changes:"  # items that replace those of the base, which is long
_MOST_CHANGES = 2_000
_IMPORTED = "imported"  # in a base: the version of the last event that has its items
_SEEN = "tracker_seen:"
_digests: dict[str, tuple[Identity, str]] = {}  # by real path


@dataclass(frozen=True, slots=True)
class Seen:
    """The SHA-256 of the file and the version of the tracker stream at the last full sync."""

    digest: str
    version: int


def load_base(store: Store, path: Path) -> dict[str, Any] | None:
    """The agreed items by id; None before the first sync of this file."""
    found = store.read_snapshot(_BASE + _key(store, path))
    if not found:
        return None
    items = _imported(store, last) if (last := found[1].get(_IMPORTED)) else found[1]["items"]
    return {**items, **_changes(store, path)}


def _imported(store: Store, last: int) -> dict[str, Any]:
    """The items as the first events of the tracker's stream imported them."""
    found: dict[str, Any] = {}
    for event in store.scan(names.TRACKER):
        if event["version"] > last:
            break
        found |= {item["id"]: item for item in items_of(event["payload"])}
    return found


def _changes(store: Store, path: Path) -> dict[str, Any]:
    found = store.read_snapshot(_CHANGES + _key(store, path))
    return found[1]["items"] if found else {}


def save_base(
    store: Store, path: Path, version: int, items: Items, old: Items | None = None
) -> None:
    """Store the agreed items, unless they equal `old`."""
    if items != old:
        store.save_snapshots(version, _whole(store, path, items))


def save_imported(store: Store, path: Path, seen: Seen) -> None:
    """Store the first state: all items were imported from the file by the events until now."""
    key = _key(store, path)
    saved = {_BASE + key: {_IMPORTED: seen.version}, _CHANGES + key: {"items": {}}}
    store.save_snapshots(seen.version, {**saved, _SEEN + key: {"digest": seen.digest}})


def save_changes(store: Store, path: Path, items: Items, seen: Seen) -> None:
    """Store agreed items that replace those of the base, and the state at this sync."""
    key, changes = _key(store, path), {**_changes(store, path), **items}
    if len(changes) > _MOST_CHANGES:
        saved = _whole(store, path, {**(load_base(store, path) or {}), **items})
    else:
        saved = {_CHANGES + key: {"items": changes}}
    store.save_snapshots(seen.version, {**saved, _SEEN + key: {"digest": seen.digest}})


def _whole(store: Store, path: Path, items: Items) -> dict[str, Any]:
    """The snapshots of a base without changes."""
    key = _key(store, path)
    return {_BASE + key: {"items": items}, _CHANGES + key: {"items": {}}}


def load_seen(store: Store, path: Path) -> Seen | None:
    """The state at the last full sync, or None."""
    found = store.read_snapshot(_SEEN + _key(store, path))
    return Seen(found[1]["digest"], found[0]) if found else None


def save_seen(store: Store, path: Path, seen: Seen) -> None:
    """Store the state at a full sync."""
    if load_seen(store, path) != seen:
        store.save_snapshot(_SEEN + _key(store, path), seen.version, {"digest": seen.digest})


def digest_of(path: Path) -> str | None:
    """The SHA-256 of the file's bytes; None if it cannot be read.

    A cycle asks a dozen times. A file that was at rest when it was read, and has the same times,
    size and place now, is not read again.
    """
    try:
        with open_regular(path) as stream:  # in pieces, which is faster and saves memory
            before, now = identity_of(os.fstat(stream.fileno())), time.time_ns()
            name = os.path.realpath(path)
            known = _digests.get(name)
            if known is not None and known[0] == before:
                return known[1]
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            _digests.pop(name, None)
            if is_at_rest(before, now) and identity_of(os.fstat(stream.fileno())) == before:
                _digests[name] = before, digest
            return digest
    except (OSError, BadFileError):
        return None


def known_digest(path: Path) -> tuple[Identity, str] | None:
    """The digest of a file at rest that this process has read, for `believe_digest` in another."""
    return _digests.get(os.path.realpath(path))


def believe_digest(path: Path, identity: Identity, digest: str) -> None:
    """Take over a `known_digest`. It is dropped as soon as the file has another identity."""
    known = _digests.get(name := os.path.realpath(path))
    if known is None or known[0] != identity:  # what this process has read itself stays
        _digests[name] = identity, digest


def _key(store: Store, path: Path) -> str:
    folder = Path(os.path.realpath(store.path)).parent
    try:
        place = os.path.relpath(os.path.realpath(path), folder)
    except ValueError:  # another drive of Windows
        place = os.path.realpath(path)
    return store.folder + Path(place).as_posix()
