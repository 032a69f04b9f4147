"""The words of an item's `status`, and which of them make an item open or finished.

Other words that people write are kept and mean nothing to the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROPOSED = "proposed"  # a person has to set it to `todo` first
TODO, CLAIMED = "todo", "claimed"
IN_PROGRESS = "in_progress"  # shipped, and not seen in the target yet
DONE, BLOCKED, ARCHIVED = "done", "blocked", "archived"

# A shipped item is finished, though its commit may not be where a wave starts from yet.
FINISHED = frozenset({IN_PROGRESS, DONE, ARCHIVED})


def is_open(item: Mapping[str, Any]) -> bool:
    """True for an item that is to be done, also when it is claimed.

    Only the lease says whether a run works on it; a run that dies leaves the item claimed.
    """
    return item.get("status") in (TODO, CLAIMED)


def is_finished(item: Mapping[str, Any]) -> bool:
    """True for an item that is shipped, done or filed away."""
    status = item.get("status")
    return isinstance(status, str) and status in FINISHED
