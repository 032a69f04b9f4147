"""What a wave that did not ship an item costs it: an attempt, a wait before the next, its turn.

Pure; the clock is an argument. The waits grow by doubling and have no chance in them, so that
anyone can tell from the tracker when an item is taken again. What ships is `shipped_items`'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from driver.backlog.selection import WAITS_FOR_ITS_TIME, Skipped, seconds_of
from driver.domain.results import Verdict
from driver.terminal.safe_text import with_note
from state_store.documents.item_id import id_of
from state_store.documents.item_status import BLOCKED, CLAIMED, TODO, is_open

Item = Mapping[str, Any]

NEXT = "nextAttemptAt"
NO_TIME = "invalid_nextAttemptAt"


class Cost(Enum):
    """What a verdict costs the item it is about."""

    ATTEMPT = "an attempt, and a wait that grows"
    PAUSE = "a short wait"
    NOTHING = "nothing"


# Only the work's own failures count against it. A machine that cannot decide is not asked again
# at once; what was stopped from outside, or waits for its ship only, is.
_COSTS = {
    Verdict.FAILED: Cost.ATTEMPT,
    Verdict.REFUSED: Cost.ATTEMPT,
    Verdict.NO_CHANGE: Cost.ATTEMPT,
    Verdict.ALREADY_GREEN: Cost.ATTEMPT,
    Verdict.FLAKY: Cost.ATTEMPT,
    Verdict.UNDECIDED: Cost.PAUSE,
    Verdict.HALTED: Cost.NOTHING,
    Verdict.OVER_BUDGET: Cost.NOTHING,
    Verdict.LEASED_ELSEWHERE: Cost.NOTHING,
    Verdict.SHIPPED_ELSEWHERE: Cost.NOTHING,
    Verdict.WITHDRAWN: Cost.NOTHING,
    Verdict.VERIFIED: Cost.NOTHING,
}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often an item is tried, and how many seconds lie between: `pause_s` after the first
    time, twice as many after each further one, `longest_s` at most; 0 is no wait."""

    most: int
    pause_s: float
    longest_s: float

    def wait_s(self, attempts: int) -> float:
        """The wait after so many attempts."""
        doublings = min(max(attempts - 1, 0), 64)  # beyond, every cap is long reached
        return min(self.pause_s * 2.0**doublings, self.longest_s)


def after_try(
    item: Item, verdict: object, why: str | None, patience: RetryPolicy, now: datetime
) -> dict[str, Any]:
    """The fields to set in an item that a wave had and did not ship. An unknown verdict, of
    somebody else's wave, counts as a failure."""
    cost = _cost(verdict)
    attempts = attempts_of(item) + (cost is Cost.ATTEMPT)
    fields: dict[str, Any] = {"attempts": attempts, "lastError": why}
    if not is_open(item):
        return fields  # whoever moved it on meanwhile knows more
    if cost is Cost.ATTEMPT and attempts >= patience.most:
        return {**fields, "status": BLOCKED, **no_wait(item), "notes": _blocked(item, fields)}
    fields |= opened(item)
    wait_s = {Cost.ATTEMPT: patience.wait_s(attempts), Cost.PAUSE: patience.wait_s(1)}.get(cost, 0)
    return fields | ({NEXT: _told(now, wait_s)} if wait_s else no_wait(item))


def opened(item: Item) -> dict[str, Any]:
    """The fields that give a claimed item back."""
    return {"status": TODO} if item.get("status") == CLAIMED else {}


def no_wait(item: Item) -> dict[str, Any]:
    """The fields that end a wait, where there is one."""
    return {NEXT: None} if item.get(NEXT) is not None else {}


def attempts_of(item: Item) -> int:
    """How many attempts an item has had; what is no number of them counts as none."""
    value = item.get("attempts")
    counts = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value or 0) if counts else 0


def in_backoff(items: Iterable[Item], now: datetime) -> dict[str, Skipped]:
    """The open items, by id, that must not be tried yet, each with the time that it waits for."""
    told = {id_of(i): _rest(i, now) for i in items if i.get(NEXT) is not None and is_open(i)}
    return {name: skipped for name, skipped in told.items() if name is not None and skipped}


def _rest(item: Item, now: datetime) -> Skipped | None:
    name, due = str(id_of(item)), seconds_of(item[NEXT])
    if due == math.inf:
        return Skipped(name, NO_TIME, detail=f"{NEXT} is no time: correct it or take it out")
    if due <= now.timestamp():
        return None
    return Skipped(
        name, WAITS_FOR_ITS_TIME, detail=f"not before {item[NEXT]}; --only {name} takes it now"
    )


def _cost(verdict: object) -> Cost:
    if isinstance(verdict, str) and verdict in set(Verdict):
        return _COSTS[Verdict(verdict)]
    return Cost.ATTEMPT


def _told(now: datetime, wait_s: float) -> str:
    due = now.astimezone(UTC) + timedelta(seconds=math.ceil(wait_s))
    return due.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _blocked(item: Item, fields: Item) -> Any:
    why = f": {fields['lastError']}" if fields["lastError"] else ""
    note = f"[blocked after {fields['attempts']} attempts{why}; to have it tried again set status"
    return with_note(item.get("notes"), f"{note} to todo and attempts to 0]")
