"""The retry policy: the cost of a wave for an item that it did not ship. Pure; the clock is an
argument. The waits double and are not random, so the tracker shows the time of the next attempt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from driver.backlog.order import seconds_of
from driver.backlog.selection import WAITS_FOR_ITS_TIME, Skipped
from driver.domain.results import Verdict
from driver.terminal.safe_text import with_note
from state_store.documents.item_id import id_of
from state_store.documents.item_status import BLOCKED, CLAIMED, TODO, is_open
from state_store.values.lazy_dataclass import dataclass

Item = Mapping[str, Any]

NEXT = "nextAttemptAt"
NO_TIME = "invalid_nextAttemptAt"


class Cost(Enum):
    """The cost of a verdict for its item."""

    ATTEMPT = "an attempt, and a wait that grows"
    PAUSE = "a short wait"
    PERSON = "no agent until a person has decided"
    NOTHING = "nothing"


# Only the work's own failures count against it. An undecided item waits a short time. An item that
# was stopped from outside, or waits only for its ship, is open again at once.
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
    """The maximum of attempts, and the wait after a failure. The wait is `pause_s` seconds after
    the first attempt and doubles after each attempt, up to `longest_s`; 0 means no wait."""

    most: int
    pause_s: float
    longest_s: float

    def wait_s(self, attempts: int) -> float:
        """The wait after this number of attempts."""
        doublings = min(max(attempts - 1, 0), 64)  # every maximum is reached long before
        return min(self.pause_s * 2.0**doublings, self.longest_s)


def after_try(
    item: Item,
    verdict: object,
    why: str | None,
    policy: RetryPolicy,
    now: datetime,
    *,
    waits: bool = False,
) -> dict[str, Any]:
    """The fields to set in an item that a wave took and did not ship. An unknown verdict, from a
    replaced `run_wave`, counts as a failure. An item that `waits` for a person pays no attempt."""
    known = verdict if isinstance(verdict, str) and verdict in set(Verdict) else None
    cost = _COSTS[Verdict(known)] if known else Cost.ATTEMPT
    cost = Cost.PERSON if waits else cost
    attempts = attempts_of(item) + (cost is Cost.ATTEMPT)
    fields: dict[str, Any] = {"attempts": attempts, "lastError": why}
    if not is_open(item):
        return fields  # a status that the user set meanwhile stays
    if cost is Cost.PERSON:
        note = (
            f"[waits for a person{f': {why}' if why else ''}; its work is kept: set status to todo,"
            " and it is proven again without an agent]"
        )
        notes = with_note(item.get("notes"), note)
        return {**fields, "status": BLOCKED, **no_wait(item), "notes": notes}
    if cost is Cost.ATTEMPT and attempts >= policy.most:
        note = (
            f"[blocked after {attempts} attempts{f': {why}' if why else ''}; to try it again,"
            " set status to todo and attempts to 0]"
        )
        notes = with_note(item.get("notes"), note)
        return {**fields, "status": BLOCKED, **no_wait(item), "notes": notes}
    fields |= opened(item)
    wait_s = {Cost.ATTEMPT: policy.wait_s(attempts), Cost.PAUSE: policy.wait_s(1)}.get(cost, 0)
    if not wait_s:
        return fields | no_wait(item)
    due = now.astimezone(UTC) + timedelta(seconds=math.ceil(wait_s))
    return fields | {NEXT: due.replace(microsecond=0).isoformat().replace("+00:00", "Z")}


def opened(item: Item) -> dict[str, Any]:
    """The fields that return a claimed item to the backlog."""
    return {"status": TODO} if item.get("status") == CLAIMED else {}


def no_wait(item: Item) -> dict[str, Any]:
    """The fields that end a wait; none without a wait."""
    return {NEXT: None} if item.get(NEXT) is not None else {}


def attempts_of(item: Item) -> int:
    """The number of an item's attempts. An invalid number counts as 0."""
    value = item.get("attempts")
    counts = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value or 0) if counts else 0


def in_backoff(items: Iterable[Item], now: datetime) -> dict[str, Skipped]:
    """The open items in backoff, by id, each with the end of its wait."""
    found: dict[str, Skipped] = {}
    for item in items:
        name = id_of(item)
        if name is None or item.get(NEXT) is None or not is_open(item):
            continue
        due = seconds_of(item[NEXT])
        if due == math.inf:
            why = f"{NEXT} is no time: correct or remove it"
            found[name] = Skipped(name, NO_TIME, detail=why)
        elif due > now.timestamp():
            why = f"not before {item[NEXT]}; --only {name} takes it now"
            found[name] = Skipped(name, WAITS_FOR_ITS_TIME, detail=why)
    return found
