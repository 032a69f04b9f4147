"""Watched fields of the tracker: how open items are proven, and what changed while a wave ran.

Users may edit the tracker at any time, but an agent could reach it as well. So a change of a field
that later waves prove by is reported. So is a changed request of a claimed item, because the wave
ships it as it was when the wave took it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from driver.backlog.tracker import load_tracker_items
from state_store.documents.item_id import id_of
from state_store.documents.item_status import CLAIMED, is_open

_PROOF = (
    "testCmd",
    "ownsFiles",
    "workDir",
    "baseline",
    "fewerTests",
    "moreSkipped",
    "repairCap",
    "pipeline",
)
_REQUEST = ("slug", "title", "prompt")

Fields = Mapping[str, Mapping[str, str]]


def watched_fields(tracker: Path) -> Fields:
    """The watched fields of each open item, as JSON texts by item id; a claimed item's request is
    watched too."""
    found: dict[str, dict[str, str]] = {}
    for item in load_tracker_items(tracker):
        item_id = id_of(item)
        if item_id is not None and is_open(item):
            keys = (*_REQUEST, *_PROOF) if item.get("status") == CLAIMED else _PROOF
            found[item_id] = {key: json.dumps(item.get(key), sort_keys=True) for key in keys}
    return found


def changed_fields(before: Fields, now: Fields) -> str:
    """A warning that names the changed fields of items that are still open; "" for none."""
    changed: list[str] = []
    for item_id in sorted(before.keys() & now.keys()):
        was, is_now = before[item_id], now[item_id]
        keys = [key for key in (*_REQUEST, *_PROOF) if key in was and key in is_now]
        keys = [key for key in keys if was[key] != is_now[key]]
        if keys:
            changed.append(f"{' and '.join(keys)} of {item_id}")
    if not changed:
        return ""
    return (
        "changed in the tracker while the wave ran, which ships what it took as it was;"
        f" look whether that was you: {', '.join(changed)}"
    )
