"""Selection of a wave's items: priority first, then age, and no file owned twice. Pure.

The set has as many P1 items as possible, then as many P2, then P3. No number of less important
items outweighs a more important item. `packing` searches for the set; `item_filter` and
`dependencies` decide which items can be in it.
"""

from __future__ import annotations

import math
import posixpath
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple, overload

from driver.backlog.packing import EXACT_CANDIDATES, Packing, TooHardError
from driver.domain.item_fields import is_absolute
from driver.domain.ownership import Conflict, OwnedPath, OwnershipMap, parents_of, parse_owned
from driver.domain.work_item import ItemProblem, ownership_problems
from state_store.documents.item_id import id_of
from state_store.documents.item_status import is_open

Item = Mapping[str, Any]
ProblemOf = Callable[[Item], Sequence[ItemProblem]]


@dataclass(frozen=True, slots=True)
class OrderedQueue:
    """Items in order, each with its name (`name_of`) and its level (its priority)."""

    items: Sequence[Item]
    names: Sequence[str]
    levels: Sequence[int]

    def part(self, numbers: Sequence[int]) -> OrderedQueue:
        """The items at these positions, in ascending order."""
        if len(numbers) == len(self.names):
            return self
        names, levels = self.names, self.levels
        return OrderedQueue(
            Part(self.items, numbers), [names[n] for n in numbers], [levels[n] for n in numbers]
        )


class Part(Sequence[Item]):
    """A lazy view of some items of a sequence."""

    def __init__(self, items: Sequence[Item], numbers: Sequence[int]) -> None:
        self._items, self._numbers = items, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, number: int) -> Item: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Item]: ...
    def __getitem__(self, number: int | slice) -> Item | Sequence[Item]:
        if isinstance(number, slice):
            return Part(self._items, self._numbers[number])
        return self._items[self._numbers[number]]


OVERLAP = "overlap"
MAX_ITEMS = "max_items"
LEASED_ELSEWHERE = "leased_elsewhere"
CONFLICT = "tracker_conflict"
NOT_ASKED_FOR = "not_asked_for"
WAITS = "waits_for_dependency"
UNKNOWN_DEPENDENCY = "unknown_dependency"
WAITS_FOR_ITS_TIME = "waits_for_next_attempt"

# Reasons that need no action: the item is selected later, or was not asked for.
PATIENT = frozenset({OVERLAP, MAX_ITEMS, NOT_ASKED_FOR, WAITS, WAITS_FOR_ITS_TIME})

_PRIORITIES = {"P1": 1, "P2": 2, "P3": 3}
# A number of this size is in milliseconds, as JavaScript writes dates.
_LEAST_MILLISECONDS = 10**11
_MOST_MILLISECONDS = 10**15


class Skipped(NamedTuple):  # made a hundred thousand times for a long tracker
    """An item that is not selected. `reason` is a word of this module; `clash` is the blocking
    item."""

    id: str
    reason: str
    clash: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of a wave, most urgent first, and the reason for each item that is not in it.
    `exact` is False if the search was too hard and a part of the set was chosen greedily."""

    selected: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    exact: bool = True


def order_key(item: Item) -> tuple[int, float, int]:
    """Sort key: priority (P1 to P3; any other value is P3), then age, then number of files. Items
    of unknown age come last in their priority."""
    files = item.get("ownsFiles")
    count = len(files) if isinstance(files, list | tuple) else 0
    created = item.get("createdAt")
    age = seconds_of(item.get("created_at") if created is None else created)
    return _level(item), age, count


def select_disjoint(
    items: Iterable[Item],
    max_count: int,
    default_repo: str | None = None,
    first: Collection[str] = (),
    real: Callable[[str], str] = str,
    problem_of: ProblemOf = lambda _: (),
) -> Selection:
    """The best set of up to `max_count` items, in order, without a file that two items own.

    The best set has as many items named in `first` as possible, then as many P1, P2 and P3, and
    among equal sets the oldest items. If the search is too hard (see `_Search.best`), items are
    chosen in order as they fit. `default_repo` is the repository of items that name none. `real`
    resolves the path of a repository. An item with a problem of `problem_of` is not chosen.
    """
    levelled = [(0 if first and name_of(item) in first else _level(item), item) for item in items]
    levelled.sort(key=lambda pair: (pair[0], order_key(pair[1])))
    found = [item for _, item in levelled]
    names, levels = [name_of(item) for item in found], [level for level, _ in levelled]
    queue = OrderedQueue(found, names, levels)
    return select_ordered(queue, max_count, default_repo, real, problem_of)


def ordered(items: Iterable[Item]) -> OrderedQueue:
    """A queue of items that are already in order."""
    found = tuple(items)
    return OrderedQueue(found, tuple(map(name_of, found)), tuple(map(_level, found)))


def select_ordered(
    queue: OrderedQueue,
    max_count: int,
    default_repo: str | None,
    real: Callable[[str], str],
    problem_of: ProblemOf = lambda _: (),
) -> Selection:
    """`select_disjoint` without `first`, for items that are already in order. `problem_of` is only
    asked about items that clash with none that is already chosen."""
    search = _Search(queue, default_repo, real, problem_of)
    chosen, exact = search.best(max(max_count, 0))
    selected = tuple(queue.items[number] for number in chosen)
    return Selection(selected, tuple(search.skipped(chosen, max_count)), exact)


def filter_todo_items(items: Iterable[Item]) -> list[Item]:
    """The open items, most urgent first."""
    return sorted(filter(is_open, items), key=order_key)


def select_disjoint_items(items: Sequence[Item], max_count: int) -> tuple[list[Item], list[str]]:
    """`select_disjoint` as plain lists: the selected items, the ids of the other items."""
    selection = select_disjoint(items, max_count)
    return list(selection.selected), [skipped.id for skipped in selection.skipped]


@dataclass(slots=True)
class _Search:
    """The search in a queue. It reads an item's files only when needed, mostly for the head of the
    queue, and asks `problem_of`, which is slow, only about items that could be chosen."""

    queue: OrderedQueue
    default_repo: str | None
    real: Callable[[str], str]
    problem_of: ProblemOf
    _read: dict[int, tuple[tuple[OwnedPath, ...], ItemProblem | None]] = field(default_factory=dict)
    _asked: dict[int, ItemProblem | None] = field(default_factory=dict)

    def best(self, limit: int) -> tuple[list[int], bool]:
        """The numbers of the best set, and True if it is proven to be the best.

        Works level by level. Once the higher levels are settled, a greedy choice is right for a
        level that fills the wave. Exact for `EXACT_CANDIDATES` items and within the search's
        budget; beyond, items of this level and below are chosen in order.
        """
        settled: list[int] = []
        levels = (0, *sorted(_PRIORITIES.values()))
        ends = [bisect_right(self.queue.levels, level) for level in levels]
        for start, end in pairwise([0, *ends]):
            if start == end:
                continue
            filled = self._fitting(settled, start, limit)
            if len(filled) >= limit and max(filled, default=0) < end:
                return filled, True
            candidates = self._sound(end, filled)
            if set(filled).issuperset(candidates):
                settled = candidates
                continue
            if len(candidates) > EXACT_CANDIDATES:
                return filled, False
            try:
                everything = self._sound(len(self.queue.items), filled)
                if len(everything) <= EXACT_CANDIDATES:
                    return self._packed(everything, limit), True
                settled = self._packed(candidates, limit)
            except TooHardError:
                return filled, False
        return settled, True

    def _sound(self, end: int, filled: Sequence[int]) -> list[int]:
        """The sound items before `end`. With more than `EXACT_CANDIDATES` of them, those of
        `filled` and some others."""
        found = {number for number in filled if number < end}
        for number in range(end):
            if number not in found and not self.problem(number):
                found.add(number)
                if len(found) > EXACT_CANDIDATES:
                    break
        return sorted(found)

    def _fitting(self, settled: Sequence[int], start: int, limit: int) -> list[int]:
        """`settled` and, from `start` on, each item that still fits."""
        taken = OwnershipMap()
        for number in settled:
            taken.add("", None, self.paths(number))
        chosen = list(settled)
        for number in range(start, len(self.queue.items)):
            if len(chosen) >= limit:
                break
            paths = self.paths(number)
            if not any(taken.clash(None, path) for path in paths) and not self.problem(number):
                taken.add("", None, paths)
                chosen.append(number)
        return chosen

    def _packed(self, candidates: Sequence[int], limit: int) -> list[int]:
        levels = [self.queue.levels[n] for n in candidates]
        clashes = _clashes([self.paths(n) for n in candidates])
        top = levels[0]
        packing = Packing([level - top for level in levels], clashes)
        return [candidates[n] for n in packing.best(limit)]

    def paths(self, number: int) -> tuple[OwnedPath, ...]:
        """The paths that an item owns, below its repository; none for a broken item."""
        return self._placed(number)[0]

    def problem(self, number: int) -> ItemProblem | None:
        """The reason why no wave can take the item; None if a wave can."""
        problem = self._placed(number)[1]
        if problem is None:
            if number not in self._asked:
                found = self.problem_of(self.queue.items[number])
                self._asked[number] = next(iter(found), None)
            problem = self._asked[number]
        return problem

    def skipped(self, chosen: Sequence[int], limit: int) -> Iterator[Skipped]:
        """Every item that is not chosen. Items after a full wave are not examined."""
        taken, queue = OwnershipMap(), self.queue
        for number in chosen:
            taken.add(queue.names[number], None, self.paths(number))
        last = max(chosen, default=-1) if len(chosen) >= limit else len(queue.items)
        selected = set(chosen)
        for number, name in enumerate(queue.names):
            if number not in selected:
                why = self._why_not(taken, number) if number <= last else None
                yield why or Skipped(name, MAX_ITEMS)

    def _why_not(self, taken: OwnershipMap, number: int) -> Skipped | None:
        item, name = self.queue.items[number], self.queue.names[number]
        top = "" if self._placed(number)[1] else self._top(item)[0]
        for owned in self.paths(number):
            if found := taken.clash(None, owned):
                other, held = found
                # Both paths are shown relative to the item's repository, if they are in it.
                mine, theirs = (path.removeprefix(f"{top}/") for path in (owned.path, held.path))
                conflict = Conflict(mine, owned.key, None, (other, name), theirs)
                return Skipped(name, OVERLAP, other, conflict.describe())
        problem = self.problem(number)
        return Skipped(name, problem.reason, detail=problem.text) if problem else None

    def _placed(self, number: int) -> tuple[tuple[OwnedPath, ...], ItemProblem | None]:
        if number not in self._read:
            item = self.queue.items[number]
            problem = next(iter(ownership_problems(item)), None)
            paths: tuple[OwnedPath, ...] = ()
            if problem is None:
                top, folder = self._top(item)
                owned = (parse_owned(entry, folder) for entry in item["ownsFiles"])
                paths = tuple(OwnedPath(posixpath.join(top, p.path), p.is_dir) for p in owned)
            self._read[number] = paths, problem
        return self._read[number]

    def _top(self, item: Item) -> tuple[str, str]:
        """The repository, without its leading slash, and the folder in it."""
        folder = item.get("workDir") or "."
        top = item.get("repo") or self.default_repo or ""
        if is_absolute(folder):
            top, folder = folder, "."
        top = self.real(top) if top else ""
        return posixpath.normpath(top.replace("\\", "/")).strip("/"), folder


def _clashes(owners: Sequence[tuple[OwnedPath, ...]]) -> list[int]:
    """For each owner a bit mask of the others that own a path of it, above it or below it."""
    of_key: dict[str, int] = {}
    below: dict[str, int] = {}
    for number, paths in enumerate(owners):
        for key in (path.key for path in paths):
            of_key[key] = of_key.get(key, 0) | 1 << number
            for parent in parents_of(key):
                below[parent] = below.get(parent, 0) | 1 << number
    clashes = []
    for number, paths in enumerate(owners):
        met = 0
        for key in (path.key for path in paths):
            met |= below.get(key, 0)
            for name in (key, *parents_of(key)):
                met |= of_key.get(name, 0)
        clashes.append(met & ~(1 << number))
    return clashes


def name_of(item: Item) -> str:
    """The name of an item in reports: its id, else its slug."""
    return id_of(item) or str(item.get("slug") or "")


def _level(item: Item) -> int:
    priority = item.get("priority")
    return _PRIORITIES.get(priority, 3) if isinstance(priority, str) else 3


def seconds_of(value: object) -> float:
    """A time in any usual notation, in seconds since 1970; infinite for any other value."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value.strip())
        except ValueError:
            return math.inf
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf
    if not abs(value) < _MOST_MILLISECONDS:  # also true for NaN
        return math.inf
    return value / 1000 if value >= _LEAST_MILLISECONDS else float(value)
