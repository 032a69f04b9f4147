"""What a cycle needs of a tracker: its open items in order and judged, and the few others that
count for them. Pure.

Made from a whole tracker once; of most of a long one, which is done, nothing is held. How it
outlives a process is `kept_docket`'s; what is taken of it `intake`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driver.attempts import NEXT
from driver.dependencies import linked
from driver.ranked import Ranked
from driver.selection import filter_todo_items, ranked
from driver.shipped_items import is_shipped
from driver.tracker import tracker_problems, validate_item
from state_store.item_id import id_of
from state_store.item_status import FINISHED, IN_PROGRESS
from state_store.tracker_glance import Glance

Item = Mapping[str, Any]
_FINISHED = tuple(FINISHED)  # a status may be anything, also what has no hash


@dataclass(frozen=True, slots=True)
class Docket:
    """A tracker whose bytes have the SHA-256 `digest`.

    `todo` are its open items, most urgent first; `faults` say, by number in that line, why some
    cannot be built. `linked` are the items that wait for a time or for others, with those others,
    in the tracker's order; `shipped` those on their way to a target. `problems` are the doubles
    that keep a run from starting, `strays` the entries that are no objects, `twice` the ids that
    are nobody's.
    """

    digest: str
    todo: Ranked
    faults: Mapping[int, tuple[str, ...]]
    linked: tuple[Item, ...]
    shipped: tuple[Item, ...]
    problems: tuple[str, ...]
    strays: tuple[str, ...]
    twice: frozenset[str]

    def own_todo(self) -> list[Item]:
        """The open items whose id is theirs alone."""
        return [
            item
            for name, item in zip(self.todo.names, self.todo.items, strict=True)
            if name not in self.twice and id_of(item) is not None
        ]


def docket_of(tracker: Glance) -> Docket:
    """The docket of a tracker as read."""
    # Most of a long tracker is done, and all that it costs is this.
    unfinished = [item for item in tracker.entries if item.get("status") not in _FINISHED]
    todo = filter_todo_items(unfinished)
    judged = enumerate(map(validate_item, todo))
    on_the_way = [item for item in tracker.entries if item.get("status") == IN_PROGRESS]
    return Docket(
        digest=tracker.digest,
        todo=ranked(todo),
        faults={number: problems for number, problems in judged if problems},
        linked=_linked(tracker, unfinished),
        shipped=tuple(i for i in on_the_way if is_shipped(i) and _is_own(id_of(i), tracker)),
        problems=tracker_problems(todo, tracker.ambiguous),
        strays=tracker.strays,
        twice=tracker.ambiguous,
    )


def _is_own(name: str | None, tracker: Glance) -> bool:
    return name is not None and name not in tracker.ambiguous


def _linked(tracker: Glance, unfinished: Sequence[Item]) -> tuple[Item, ...]:
    timed = {id(item) for item in unfinished if item.get(NEXT) is not None}
    kept = timed.union(map(id, linked(tracker.entries, unfinished)))
    return tuple(item for item in tracker.entries if id(item) in kept) if kept else ()
