"""Selection of a wave's items: priority first, then age, and no file owned twice. Pure.

The set has as many P1 items as possible, then as many P2, then P3. No number of less important
items outweighs a more important item. `packing` searches for the set; `item_filter` and
`dependencies` decide which items can be in it.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple, overload

from driver.backlog.order import LEVELS, OrderedQueue, unordered
from driver.backlog.packing import EXACT_CANDIDATES, Packing, TooHardError
from driver.domain.item_fields import is_absolute
from driver.domain.ownership import Conflict, OwnedPath, OwnershipMap, parents_of, parse_owned
from driver.domain.work_item import ItemProblem, ownership_problems
from state_store.values.lazy_dataclass import dataclass, field

Item = Mapping[str, Any]
ProblemOf = Callable[[Item], Sequence[ItemProblem]]

OVERLAP = "overlap"
MAX_ITEMS = "max_items"
LEASED_ELSEWHERE = "leased_elsewhere"
CONFLICT = "tracker_conflict"
NOT_ASKED_FOR = "not_asked_for"
NOT_OPEN = "not_open"  # asked for by name
WAITS = "waits_for_dependency"
UNKNOWN_DEPENDENCY = "unknown_dependency"
WAITS_FOR_ITS_TIME = "waits_for_next_attempt"

# Reasons that need no action: the item is selected later, or was not asked for.
PATIENT = frozenset({OVERLAP, MAX_ITEMS, NOT_ASKED_FOR, WAITS, WAITS_FOR_ITS_TIME})


class Skipped(NamedTuple):
    """An item that is not selected. `reason` is a word of this module; `clash` is the blocking
    item."""

    id: str
    reason: str
    clash: str | None = None
    detail: str = ""


class SkippedItems(Sequence[Skipped]):
    """All skipped items. Those for which a full wave has no room, named by `full`, stand between
    the others; of a long tracker they are most, so each is made when it is asked for."""

    def __init__(
        self, before: Sequence[Skipped], full: Sequence[str] = (), after: Sequence[Skipped] = ()
    ) -> None:
        self.before, self.full, self.after = before, full, after

    def __len__(self) -> int:
        return len(self.before) + len(self.full) + len(self.after)

    @overload
    def __getitem__(self, number: int) -> Skipped: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Skipped]: ...
    def __getitem__(self, number: int | slice) -> Skipped | Sequence[Skipped]:
        return tuple(self)[number]

    def __iter__(self) -> Iterator[Skipped]:
        return chain(self.before, self._for_full(len(self.full)), self.after)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def _for_full(self, most: int) -> Iterator[Skipped]:
        return (Skipped(name, MAX_ITEMS) for name in islice(self.full, most))

    def counts(self) -> Mapping[str, int]:
        """The number of items by reason, in the order of the first of each."""
        found = Counter(one.reason for one in self.before)
        if self.full:
            found[MAX_ITEMS] += len(self.full)
        found.update(one.reason for one in self.after)
        return found

    def first(self, most: int) -> Iterator[Skipped]:
        """The first items of each reason."""
        seen = Counter[str]()
        for one in chain(self.before, self._for_full(most), self.after):
            seen[one.reason] += 1
            if seen[one.reason] <= most:
                yield one


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of a wave, most urgent first, and the reason for each item that is not in it.
    `exact` is False if the search was too hard and a part of the set was chosen greedily."""

    selected: tuple[Item, ...]
    skipped: Sequence[Skipped]
    exact: bool = True
    kept_counts: Mapping[str, int] | None = None  # of all skipped items, if only some are here

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of skipped items by reason, in the order of the first of each."""
        return self.left_out.counts() if self.kept_counts is None else self.kept_counts

    @property
    def left_out(self) -> SkippedItems:
        """All skipped items."""
        there = self.skipped
        return there if isinstance(there, SkippedItems) else SkippedItems(there)

    def shortened(self, most: int) -> Selection:
        """This selection with at most `most` skipped items of each reason. Their texts are copies:
        one text of a long tracker would keep the memory of a thousand of its items."""
        first = self.left_out.first(most)
        kept = tuple(one._replace(id=f"{one.id} "[:-1]) for one in first)
        return replace(self, skipped=kept, kept_counts=self.counts)


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
    found = unordered(list(items))
    for number, name in enumerate(found.names if first else ()):
        if name in first:
            found.levels[number] = 0
    queue = found.queue(found.order())
    return select_ordered(queue, max_count, default_repo, real, problem_of)


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
    return Selection(selected, search.skipped(chosen, max_count), exact)


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
        levels = (0, *sorted(LEVELS.values()))
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

    def skipped(self, chosen: Sequence[int], limit: int) -> SkippedItems:
        """Every item that is not chosen. Items after a full wave are not examined."""
        taken, queue = OwnershipMap(), self.queue
        for number in chosen:
            taken.add(queue.names[number], None, self.paths(number))
        end = max(chosen, default=-1) + 1 if len(chosen) >= limit else len(queue.items)
        selected = set(chosen)
        examined = [
            self._why_not(taken, number) or Skipped(name, MAX_ITEMS)
            for number, name in enumerate(queue.names[:end])
            if number not in selected
        ]
        return SkippedItems(examined, queue.names[end:])

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
