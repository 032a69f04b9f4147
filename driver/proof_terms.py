"""What the tracker's items say about their proofs, and what of it changed while a wave ran.

The tracker is people's, who may edit it at any time, but an agent could reach it as well. So a
change of what a later wave will take for a proof is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.tracker import load_tracker_items
from state_store.item_id import id_of
from state_store.item_status import is_open

_TERMS = (
    "testCmd",
    "ownsFiles",
    "workDir",
    "baseline",
    "fewerTests",
    "moreSkipped",
    "repairCap",
    "pipeline",
)

Terms = Mapping[str, Mapping[str, str]]


def proof_terms(tracker: Path) -> Terms:
    """By item id: the text of each key that says how an item that is to do is proven."""
    return {
        str(item_id): {key: json.dumps(item.get(key), sort_keys=True) for key in _TERMS}
        for item in load_tracker_items(tracker)
        if (item_id := id_of(item)) is not None and is_open(item)
    }


def changed_terms(before: Terms, now: Terms) -> str:
    """A warning that names what changed in items that are still to do; "" for nothing."""
    changed = ", ".join(_changes(before, now))
    if not changed:
        return ""
    return f"changed in the tracker while the wave ran, look whether that was you: {changed}"


def _changes(before: Terms, now: Terms) -> Iterator[str]:
    for item_id in sorted(before.keys() & now.keys()):
        keys = [key for key in _TERMS if before[item_id][key] != now[item_id][key]]
        if keys:
            yield f"{' and '.join(keys)} of {item_id}"
