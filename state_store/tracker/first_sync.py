"""Takes a long tracker into a store that has no items, by some hundred events.

A shorter tracker has one event for each item. File and store agree from then on, so nothing is
compared. The items' text is copied as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from state_store.database import events as names
from state_store.database.interface import Store
from state_store.database.item_blocks import packed
from state_store.tracker import base as tracker_base
from state_store.tracker.base import Seen, digest_of
from state_store.tracker.scan import BLOCK, LONG, ScannedTracker, scanned, scanned_before


def first_sync(store: Store, path: Path, actor: str) -> int | None:
    """The number of items, all of which are new; None if only a full sync can tell what is to do.
    The caller holds the file's lock. Raises as `read_tracker_file` does."""
    if path.stat().st_size < LONG or store.head(names.TRACKER)[0]:
        return None
    file = scanned_before(path, digest_of(path))
    if file is None or file.data is None or not file.fields:
        file = scanned(path)
    ids = set(file.ids)
    if len(ids) < len(file.ids) or None in ids or not ids:
        return None  # a full sync names them
    drafts = list(_drafts(file))
    with store.transaction():
        if store.head(names.TRACKER)[0] or tracker_base.load_base(store, path) is not None:
            return None
        version = store.append_many(names.TRACKER, drafts, actor)
        tracker_base.save_imported(store, path, Seen(file.digest, version))
    return len(ids)


def _drafts(file: ScannedTracker) -> Iterator[tuple[str, dict[str, Any]]]:
    """An event for each block of the scan, with a copy of the block's text."""
    assert file.data is not None
    for number, start in enumerate(range(0, len(file.ids), BLOCK)):
        ids = [str(name) for name in file.ids[start : start + BLOCK]]
        end = file.ends[start + len(ids) - 1]
        text = b"[%b]" % file.data[file.starts[start] : end]
        yield names.ITEMS_IMPORTED, packed(ids, file.fields[number], text)
