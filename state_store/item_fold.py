"""How one event changes one tracker item: the fold that the store keeps up to date.

Total and pure: whatever an event holds, there is an answer, and nothing handed in is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Item = dict[str, Any]


def apply_tracker(item: Item | None, event: Mapping[str, Any]) -> Item | None:
    """The item after `event`; what was handed in when the event says nothing about it."""
    kind, payload = event["type"], event["payload"]
    if kind == "item_created":
        return dict(payload)
    if item is None:
        return None
    if kind == "item_updated":
        return {**item, **payload}
    if kind == "item_archived":
        done = {"completed_at": payload["completed_at"]} if "completed_at" in payload else {}
        return {**item, "status": "archived", **done}
    return item
