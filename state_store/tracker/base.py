"""The items that store and tracker file last agreed on: the base of the next three-way merge.

Kept as snapshots in the store, one for each file, named by its path relative to the store so that
both may move together.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state_store.database.store import EventStore
from state_store.tracker.merge import Items

_BASE = "tracker_base:"
_SEEN = "tracker_seen:"


@dataclass(frozen=True, slots=True)
class Seen:
    """The SHA-256 of the file and the version of the tracker stream at the last full agreement."""

    digest: str
    version: int


def load_base(store: EventStore, path: Path) -> dict[str, Any] | None:
    """The agreed items by id; None when this file and the store never met."""
    found = store.read_snapshot(_BASE + _key(store, path))
    return dict(found[1]["items"]) if found else None


def save_base(
    store: EventStore, path: Path, version: int, items: Items, old: Items | None = None
) -> None:
    """Remember the agreed items, unless they are the `old` ones."""
    if items != old:
        store.save_snapshot(_BASE + _key(store, path), version, {"items": items})


def load_seen(store: EventStore, path: Path) -> Seen | None:
    """The last full agreement; None when there was none."""
    found = store.read_snapshot(_SEEN + _key(store, path))
    return Seen(found[1]["digest"], found[0]) if found else None


def save_seen(store: EventStore, path: Path, seen: Seen) -> None:
    """Remember a full agreement."""
    if load_seen(store, path) != seen:
        store.save_snapshot(_SEEN + _key(store, path), seen.version, {"digest": seen.digest})


def digest_of(path: Path) -> str | None:
    """The SHA-256 of the file's bytes; None when it cannot be read."""
    try:
        with path.open("rb") as stream:  # a long file in one piece takes longer, and its memory
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _key(store: EventStore, path: Path) -> str:
    folder = Path(os.path.realpath(store.path)).parent
    try:
        return Path(os.path.relpath(os.path.realpath(path), folder)).as_posix()
    except ValueError:  # another drive of Windows
        return Path(os.path.realpath(path)).as_posix()
