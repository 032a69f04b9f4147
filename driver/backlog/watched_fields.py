"""What the tracker's items say about their proofs, and what of it changed while a wave ran.

The tracker is people's, who may edit it at any time, but an agent could reach it as well. So a
change of what a later wave will take for a proof is told. Of items that a wave has, which it ships
as they were when it took them, so is any other change of what they ask for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.backlog.tracker import load_tracker_items
from state_store.documents.item_id import id_of
from state_store.documents.item_status import CLAIMED, is_open

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
_ASKED = ("slug", "title", "prompt")

Terms = Mapping[str, Mapping[str, str]]


def watched_fields(tracker: Path) -> Terms:
    """By item id: the text of each key that says how an item that is to do is proven, and of one
    that is claimed what it asks for."""
    return {
        str(item_id): {key: json.dumps(item.get(key), sort_keys=True) for key in _keys(item)}
        for item in load_tracker_items(tracker)
        if (item_id := id_of(item)) is not None and is_open(item)
    }


def _keys(item: Mapping[str, Any]) -> tuple[str, ...]:
    return (*_ASKED, *_TERMS) if item.get("status") == CLAIMED else _TERMS


def changed_fields(before: Terms, now: Terms) -> str:
    """A warning that names what changed in items that are still to do; "" for nothing."""
    changed = ", ".join(_changes(before, now))
    if not changed:
        return ""
    return (
        "changed in the tracker while the wave ran, which ships what it took as it was;"
        f" look whether that was you: {changed}"
    )


def _changes(before: Terms, now: Terms) -> Iterator[str]:
    for item_id in sorted(before.keys() & now.keys()):
        was, is_now = before[item_id], now[item_id]
        keys = [key for key in (*_ASKED, *_TERMS) if key in was and key in is_now]
        keys = [key for key in keys if was[key] != is_now[key]]
        if keys:
            yield f"{' and '.join(keys)} of {item_id}"
