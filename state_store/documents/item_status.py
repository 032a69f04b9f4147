"""The values of an item's `status`, and the rules for open and finished items.

Other values that people write are kept and have no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROPOSED = "proposed"  # a person has to set it to `todo` first
TODO, CLAIMED = "todo", "claimed"
IN_PROGRESS = "in_progress"  # shipped, but not yet merged into the target
DONE, BLOCKED, ARCHIVED = "done", "blocked", "archived"

OPEN = (TODO, CLAIMED)  # a tuple, because a status may be an unhashable value

# A shipped item is finished, although its commit may not be in the base of the next wave yet.
FINISHED = frozenset({IN_PROGRESS, DONE, ARCHIVED})


def is_open(item: Mapping[str, Any]) -> bool:
    """True for an item to do, also if it is claimed.

    Only the lease shows if a run works on the item, because a killed run leaves it claimed.
    """
    return item.get("status") in OPEN


def is_finished(item: Mapping[str, Any]) -> bool:
    """True for an item that is shipped, done or archived."""
    status = item.get("status")
    return isinstance(status, str) and status in FINISHED
