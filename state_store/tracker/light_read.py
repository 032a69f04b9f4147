"""Reads a summary of a tracker, with only a few fields of finished items.

Most items of a long tracker are done, so this needs less memory than a full parse. `file` reads a
tracker for changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.documents import strict_json
from state_store.documents.item_status import ARCHIVED, DONE
from state_store.tracker.file import ids_twice, non_object_entries, read_listed
from state_store.values.lazy_dataclass import dataclass

Item = Mapping[str, Any]
_PIECES, _PIECE_BYTES = 32, 8192
_PAST = (DONE, ARCHIVED)  # a tuple, because a status may be an unhashable value


@dataclass(frozen=True, slots=True)
class TrackerSummary:
    """A tracker's objects in order. A done or archived item may have only `id`, `slug`, `status`,
    `repo` and `shipped`, each None if missing. The other fields are those of `TrackerFile`."""

    digest: str
    entries: Sequence[Item]
    ambiguous: frozenset[str]
    non_objects: tuple[str, ...]


def read_summary(path: Path) -> TrackerSummary:
    """Read a tracker. Raises like `read_tracker_file`."""
    cut = _Cut()
    decoder = strict_json.decoder(cut.shortened) if _has_many_finished(path) else None
    digest, entries = read_listed(path, decoder)
    items = [entry for entry in entries if isinstance(entry, dict)]
    if cut.count and cut.count != len([item for item in items if item.get("status") in _PAST]):
        # An object inside an item, or the whole tracker, may have such a status too.
        digest, entries = read_listed(path)
        items = [entry for entry in entries if isinstance(entry, dict)]
    non_objects = non_object_entries(path, entries) if len(items) < len(entries) else ()
    return TrackerSummary(digest, items, ids_twice(items), tuple(non_objects))


def _has_many_finished(path: Path) -> bool:
    """A guess, from pieces of the file: a twelfth or more of the items are done or archived. To
    shorten items takes time, which a tracker of open items need not spend."""
    pieces = [b""]
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            for start in range(0, size, max(size // _PIECES, _PIECE_BYTES)):
                stream.seek(start)
                pieces.append(stream.read(_PIECE_BYTES))
    except OSError:  # the parse tells the reason
        return True
    sample = b"\n".join(pieces)
    past = sum(sample.count(f'"{status}"'.encode()) for status in _PAST)
    return 12 * past >= sample.count(b'"status"')


class _Cut:
    """Shortens each object that looks like a finished item, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def shortened(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            strict_json.unique(pairs)
        get = whole.get
        if (status := get("status")) not in _PAST or "items" in whole:  # the tracker itself
            return whole
        self.count += 1
        return {
            "id": get("id"),
            "slug": get("slug"),
            "status": status,
            "repo": get("repo"),
            "shipped": get("shipped"),
        }
