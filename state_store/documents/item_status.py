"""The words of an item's `status`, one list for all, and which of them say that work is to be done.

What people write beside these is kept, and nothing is done with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROPOSED = "proposed"  # somebody has to say `todo` first
TODO, CLAIMED = "todo", "claimed"
IN_PROGRESS = "in_progress"  # shipped, and not seen in the target yet
DONE, BLOCKED, ARCHIVED = "done", "blocked", "archived"

# What ships is finished, though its commit may not be where a wave starts from yet.
FINISHED = frozenset({IN_PROGRESS, DONE, ARCHIVED})


def is_open(item: Mapping[str, Any]) -> bool:
    """Whether an item is to be done. One that is claimed is: whether somebody does work on it is
    the lease's word, not the tracker's, or whoever dies at work would take it along."""
    return item.get("status") in (TODO, CLAIMED)


def is_finished(item: Mapping[str, Any]) -> bool:
    """True for an item that is shipped, done or filed away."""
    status = item.get("status")
    return isinstance(status, str) and status in FINISHED
