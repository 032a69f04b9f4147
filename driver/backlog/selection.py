"""Which tracker items the next wave takes: priority first, then age, and no file owned twice.

Works on the tracker's plain objects and is pure. As many P1 as fit together, then as many P2
beside them, then P3: no number of less important items outweighs a more important one. The search
for such a set is `packing`'s; who may be searched at all is `wanted`'s and `dependencies`'.
"""

from __future__ import annotations

import math
import posixpath
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, overload

from driver.backlog.packing import EXACT_CANDIDATES, Packing, TooHardError
from driver.domain.item_fields import is_absolute
from driver.domain.ownership import Conflict, OwnedPath, OwnershipMap, parents_of, parse_owned
from driver.domain.work_item import ItemProblem, ownership_problems
from state_store.documents.item_id import id_of
from state_store.documents.item_status import is_open

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OrderedQueue:
    """Items, what each is called (`selection.name_of`) and its level, which is of its priority."""

    items: Sequence[Item]
    names: Sequence[str]
    levels: Sequence[int]

    def part(self, numbers: Sequence[int]) -> OrderedQueue:
        """Those of some numbers, which rise."""
        if len(numbers) == len(self.names):
            return self
        names, levels = self.names, self.levels
        return OrderedQueue(
            Part(self.items, numbers), [names[n] for n in numbers], [levels[n] for n in numbers]
        )


class Part(Sequence[Item]):
    """Some items of a sequence, each looked up when it is asked for."""

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

# Nothing is wrong with these items: their turn comes by itself, or was not asked for.
PATIENT = frozenset({OVERLAP, MAX_ITEMS, NOT_ASKED_FOR, WAITS, WAITS_FOR_ITS_TIME})

_PRIORITIES = {"P1": 1, "P2": 2, "P3": 3}
# A number of this size cannot be seconds; JavaScript writes dates as milliseconds.
_LEAST_MILLISECONDS = 10**11
_MOST_MILLISECONDS = 10**15


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item left out: `reason` is one of this module's words, `clash` the item in its way."""

    id: str
    reason: str
    clash: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a wave takes, most urgent first, and why each other item is not in it.

    `exact` is False when the best set was too hard to find and a part of it was taken greedily.
    """

    selected: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    exact: bool = True


def order_key(item: Item) -> tuple[int, float, int]:
    """Sorts by priority (P1 to P3, anything else as P3), then age, then number of files.

    Items of unknown age come last in their priority: whoever dates an item gets served by date.
    """
    files = item.get("ownsFiles")
    count = len(files) if isinstance(files, list | tuple) else 0
    return _level(item), _created(item), count


def select_disjoint(
    items: Iterable[Item],
    max_count: int,
    default_repo: str | None = None,
    first: Collection[str] = (),
    real: Callable[[str], str] = str,
) -> Selection:
    """The best set of up to `max_count` items, in order, none owning a file of another.

    Best: as many of those named in `first` as can be, then P1, P2 and P3, and among equals the
    oldest. Where that is too hard to find (see `_Queue.best`), items are taken in order as they
    fit. `default_repo` is the repository of the items that name none, and `real` says of each
    where it is, so that all spellings meet.
    """
    levelled = [(0 if first and name_of(item) in first else _level(item), item) for item in items]
    levelled.sort(key=lambda pair: (pair[0], order_key(pair[1])))
    line = [item for _, item in levelled]
    names, levels = [name_of(item) for item in line], [level for level, _ in levelled]
    return select_ordered(OrderedQueue(line, names, levels), max_count, default_repo, real)


def ordered(items: Iterable[Item]) -> OrderedQueue:
    """The items, which must be in order, with their names and levels."""
    line = tuple(items)
    return OrderedQueue(line, tuple(map(name_of, line)), tuple(map(_level, line)))


def select_ordered(
    line: OrderedQueue, max_count: int, default_repo: str | None, real: Callable[[str], str]
) -> Selection:
    """`select_disjoint` of items that are in order already, none of them before its turn."""
    queue = _Queue(line.items, line.names, line.levels, default_repo, real)
    chosen, exact = queue.best(max(max_count, 0))
    selected = tuple(queue.items[number] for number in chosen)
    return Selection(selected, tuple(queue.left_out(chosen, max_count)), exact)


def filter_todo_items(items: Iterable[Item]) -> list[Item]:
    """The items that are to be done, most urgent first."""
    return sorted(filter(is_open, items), key=order_key)


def select_disjoint_items(items: Sequence[Item], max_count: int) -> tuple[list[Item], list[str]]:
    """`select_disjoint` as plain lists: the items taken, the ids of those left out."""
    selection = select_disjoint(items, max_count)
    return list(selection.selected), [left_out.id for left_out in selection.skipped]


@dataclass(slots=True)
class _Queue:
    """Items in order. Their files are read when they are asked for: of a long backlog only the
    head is ever looked at."""

    items: Sequence[Item]
    names: Sequence[str]
    levels: Sequence[int]
    default_repo: str | None
    real: Callable[[str], str]
    _read: dict[int, tuple[tuple[OwnedPath, ...], ItemProblem | None]] = field(default_factory=dict)

    def best(self, limit: int) -> tuple[list[int], bool]:
        """The numbers of the best set, and whether it is proven to be the best.

        Level by level: while those above are settled, taking what fits is right for a level that
        fills the wave. Exact for `EXACT_CANDIDATES` items and within the search's budget; from
        the level on where either ends, items are taken in order.
        """
        settled: list[int] = []
        for start, end in self._levels():
            filled = self._fitting(settled, start, limit)
            if len(filled) >= limit and max(filled, default=0) < end:
                return filled, True
            candidates = self._sound(end)
            if set(filled).issuperset(candidates):
                settled = candidates
                continue
            if len(candidates) > EXACT_CANDIDATES:
                return filled, False
            try:
                if len(self.items) <= EXACT_CANDIDATES:
                    return self._packed(self._sound(len(self.items)), limit), True
                settled = self._packed(candidates, limit)
            except TooHardError:
                return filled, False
        return settled, True

    def _sound(self, end: int) -> list[int]:
        return [n for n in range(end) if not self.problem(n)]

    def _levels(self) -> list[tuple[int, int]]:
        """Where each priority that is there starts and ends."""
        ends = [bisect_right(self.levels, level) for level in (0, *sorted(_PRIORITIES.values()))]
        return [(start, end) for start, end in pairwise([0, *ends]) if start < end]

    def _fitting(self, settled: Sequence[int], start: int, limit: int) -> list[int]:
        """`settled` and, from `start` on, each item that still fits."""
        taken = OwnershipMap()
        for number in settled:
            taken.add("", None, self.paths(number))
        chosen = list(settled)
        for number in range(start, len(self.items)):
            if len(chosen) >= limit:
                break
            paths = self.paths(number)
            if not self.problem(number) and not any(taken.clash(None, path) for path in paths):
                taken.add("", None, paths)
                chosen.append(number)
        return chosen

    def _packed(self, candidates: Sequence[int], limit: int) -> list[int]:
        levels = [self.levels[n] for n in candidates]
        clashes = _clashes([self.paths(n) for n in candidates])
        top = levels[0]
        packing = Packing([level - top for level in levels], clashes)
        return [candidates[n] for n in packing.best(limit)]

    def paths(self, number: int) -> tuple[OwnedPath, ...]:
        """What an item owns; nothing where it cannot be told."""
        return self._placed(number)[0]

    def problem(self, number: int) -> ItemProblem | None:
        """Why an item can be in no wave."""
        return self._placed(number)[1]

    def left_out(self, chosen: Sequence[int], limit: int) -> Iterator[Skipped]:
        """Every item that is not chosen; what comes after a full wave is not looked into."""
        taken = OwnershipMap()
        for number in chosen:
            taken.add(self.names[number], None, self.paths(number))
        last = max(chosen, default=-1) if len(chosen) >= limit else len(self.items)
        selected = set(chosen)
        for number, name in enumerate(self.names):
            if number not in selected:
                why = self._why_not(taken, number) if number <= last else None
                yield why or Skipped(name, MAX_ITEMS)

    def _why_not(self, taken: OwnershipMap, number: int) -> Skipped | None:
        item, name = self.items[number], self.names[number]
        if problem := self.problem(number):
            return Skipped(name, problem.reason, detail=problem.text)
        for owned in self.paths(number):
            if found := taken.clash(None, owned):
                other, held = found
                mine, theirs = self._as_written(item, owned.path, held.path)
                conflict = Conflict(mine, owned.key, None, (other, name), theirs)
                return Skipped(name, OVERLAP, other, conflict.describe())
        return None

    def _placed(self, number: int) -> tuple[tuple[OwnedPath, ...], ItemProblem | None]:
        if number not in self._read:
            self._read[number] = _placed(self.items[number], self._top)
        return self._read[number]

    def _top(self, item: Item) -> tuple[str, str]:
        """The repository, without its leading slash, and the folder in it."""
        folder = item.get("workDir") or "."
        top = item.get("repo") or self.default_repo or ""
        if is_absolute(folder):
            top, folder = folder, "."
        top = self.real(top) if top else ""
        return posixpath.normpath(top.replace("\\", "/")).strip("/"), folder

    def _as_written(self, item: Item, *paths: str) -> list[str]:
        """Placed paths as they stand in their repository, where that is the item's."""
        top, _ = self._top(item)
        return [path.removeprefix(f"{top}/") for path in paths]


def _clashes(owners: Sequence[tuple[OwnedPath, ...]]) -> list[int]:
    """For each owner, as a bit mask, the others that own a path of it, above it or below it."""
    of_key: dict[str, int] = {}
    below: dict[str, int] = {}
    for number, paths in enumerate(owners):
        for key in (path.key for path in paths):
            of_key[key] = of_key.get(key, 0) | 1 << number
            for parent in parents_of(key):
                below[parent] = below.get(parent, 0) | 1 << number
    return [_met(paths, of_key, below) & ~(1 << n) for n, paths in enumerate(owners)]


def _met(paths: Iterable[OwnedPath], of_key: Mapping[str, int], below: Mapping[str, int]) -> int:
    met = 0
    for key in (path.key for path in paths):
        met |= below.get(key, 0)
        for name in (key, *parents_of(key)):
            met |= of_key.get(name, 0)
    return met


def _placed(
    item: Item, top_of: Callable[[Item], tuple[str, str]]
) -> tuple[tuple[OwnedPath, ...], ItemProblem | None]:
    """The owned paths below the item's repository, so that all repositories compare in one map."""
    problem = next(iter(ownership_problems(item)), None)
    if problem:
        return (), problem
    top, folder = top_of(item)
    placed = (parse_owned(entry, folder) for entry in item["ownsFiles"])
    return tuple(OwnedPath(posixpath.join(top, p.path), p.is_dir) for p in placed), None


def name_of(item: Item) -> str:
    """What an item that is left out is called: its id, else its slug."""
    return id_of(item) or str(item.get("slug") or "")


def _level(item: Item) -> int:
    priority = item.get("priority")
    return _PRIORITIES.get(priority, 3) if isinstance(priority, str) else 3


def _created(item: Item) -> float:
    value = item.get("createdAt")
    return seconds_of(item.get("created_at") if value is None else value)


def seconds_of(value: object) -> float:
    """A time as people and programs write it, in seconds since 1970; infinite for what is none."""
    if isinstance(value, str):
        return _seconds_of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf
    if not abs(value) < _MOST_MILLISECONDS:  # also true for NaN
        return math.inf
    return value / 1000 if value >= _LEAST_MILLISECONDS else float(value)


def _seconds_of_text(text: str) -> float:
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return math.inf
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
