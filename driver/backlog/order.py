"""The order of items: priority first, then age, then number of files. Pure.

A tracker may have 100,000 items, so they are read field by field, not item by item: a list
comprehension takes a tenth of the time of a call for each item.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, overload

from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.item_status import OPEN
from state_store.values.columns import column
from state_store.values.lazy_dataclass import dataclass, field

Item = Mapping[str, Any]

_BLOCK = 256
LEVELS = {"P1": 1, "P2": 2, "P3": 3}
# A number of this size is in milliseconds, as JavaScript writes dates.
_LEAST_MILLISECONDS = 10**11
_MOST_MILLISECONDS = 10**15


@dataclass(frozen=True, slots=True)
class OrderedQueue:
    """Items in order, each with its name (`name_of`) and its level (its priority)."""

    items: Sequence[Item]
    names: Sequence[str]
    levels: Sequence[int]

    def part(self, numbers: Sequence[int]) -> OrderedQueue:
        """The items at these positions, in ascending order."""
        return self if len(numbers) == len(self.names) else self.at(numbers)

    def at(self, numbers: Sequence[int]) -> OrderedQueue:
        """The items at these positions. They are not touched, which would take longer than all of
        the sorts."""
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

    def __iter__(self) -> Iterator[Item]:
        return map(self._items.__getitem__, self._numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Unordered:
    """Items that are put in order once all are there."""

    items: list[Item] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    _ages: list[float] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def add(self, items: Sequence[Item], *, keep: bool = True) -> None:
        """Add some items, best a block of `blocks`; without `keep` only what orders them."""
        files = column(items, "ownsFiles")
        self.items += items if keep else ()
        self.names += names_in(items)
        self.levels += levels_in(items)
        self._ages += _ages_in(items)
        self._counts += [len(owned) if isinstance(owned, list | tuple) else 0 for owned in files]

    def order(self) -> list[int]:
        """The positions of the items, most urgent first."""
        numbers = list(range(len(self.names)))
        # Each sort keeps the order of equal items, so the last key counts most. Three sorts by a
        # number are faster than one by a tuple.
        for keys in self.keys():
            numbers.sort(key=keys.__getitem__)
        return numbers

    def keys(self) -> tuple[list[int], list[float], list[int]]:
        """The values that order the items, those that count most at the end."""
        return self._counts, self._ages, self.levels

    def queue(self, numbers: Sequence[int]) -> OrderedQueue:
        """The items at these positions."""
        return OrderedQueue(self.items, self.names, self.levels).at(numbers)


def blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in parts that fit into the processor's cache, for work that reads them often."""
    return (items[start : start + _BLOCK] for start in range(0, len(items), _BLOCK))


def unordered(items: Sequence[Item]) -> Unordered:
    """All of the items, to be put in order."""
    found = Unordered()
    for block in blocks(items):
        found.add(block)
    return found


def ordered(items: Iterable[Item]) -> OrderedQueue:
    """A queue of items that are already in order."""
    found = tuple(items)
    return OrderedQueue(found, tuple(names_in(found)), tuple(levels_in(found)))


def filter_todo_items(items: Iterable[Item]) -> list[Item]:
    """The open items, most urgent first. Items of unknown age come last in their priority."""
    found = unordered([item for item in items if item.get("status") in OPEN])
    return [found.items[number] for number in found.order()]


def levels_in(items: Sequence[Item]) -> list[int]:
    """The level of each item: its priority, 3 for any value but P1 and P2."""
    given = column(items, "priority")
    return [LEVELS.get(value, 3) if isinstance(value, str) else 3 for value in given]


def _ages_in(items: Sequence[Item]) -> list[float]:
    times = column(items, "createdAt")
    if None in times:
        both = zip(items, times, strict=True)
        times = [item.get("created_at") if time is None else time for item, time in both]
    try:
        dates = list(map(datetime.fromisoformat, times))
    except (TypeError, ValueError):
        return list(map(seconds_of, times))
    if any(date.tzinfo is None for date in dates):
        return list(map(seconds_of, times))
    return list(map(datetime.timestamp, dates))


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


def names_in(items: Sequence[Item]) -> list[str]:
    """`name_of` of each item."""
    return plain_ids(items) or list(map(name_of, items))


def name_of(item: Item) -> str:
    """The name of an item in reports: its id, else its slug."""
    return id_of(item) or str(item.get("slug") or "")
