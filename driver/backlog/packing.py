"""The best set of items without a clash: an exact search over bit masks, with a budget.

Pure. An item is only a number; number 0 is the most urgent. The best set has the most items of the
highest level, then the most of the next level, and so on. Among equal sets it has the most urgent
first item, then the most urgent second item, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from state_store.values.lazy_dataclass import dataclass, field

EXACT_CANDIDATES = 64
NODE_BUDGET = 4_000


class TooHardError(Exception):
    """The search exceeded its budget of steps."""


@dataclass(slots=True)
class Packing:
    """Items to pack: their levels in ascending order, 0 the highest, and a bit mask of clashes for
    each."""

    levels: Sequence[int]
    clashes: Sequence[int]
    budget: int = NODE_BUDGET
    _weights: list[int] = field(init=False)
    _known: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.levels)
        # A single number is the weight of a set: the count of each level in its high digits, and
        # the items in its low bits, the most urgent as the highest bit. The larger number is the
        # better set.
        lowest = max(self.levels, default=0)
        digit = size.bit_length()
        self._weights = [
            1 << (size + digit * (lowest - level)) | 1 << (size - 1 - number)
            for number, level in enumerate(self.levels)
        ]
        self._known = {0: 0}

    def best(self, limit: int) -> tuple[int, ...]:
        """The numbers of the best set of at most `limit` items. Raises TooHardError."""
        everything = (1 << len(self.levels)) - 1
        whole = self._heaviest(everything)
        chosen = self._numbers(whole)
        return chosen if len(chosen) <= limit else self._best_of(limit, self._counts(whole))

    def _best_of(self, limit: int, counts: Sequence[int]) -> tuple[int, ...]:
        """The best set of exactly `limit` items, fewer than the best set of all. The last levels
        are cut short. So an item is chosen, the most urgent first, if the remaining counts can
        still be reached."""
        goal = _cut(counts, limit)
        free = (1 << len(self.levels)) - 1
        had = [0] * len(goal)
        chosen: list[int] = []
        while free and len(chosen) < limit:
            number = _lowest(free)
            left = free & ~(1 << number)
            trial = [n + (level == self.levels[number]) for level, n in enumerate(had)]
            if self._reaches(goal, trial, left & ~self.clashes[number], limit):
                chosen.append(number)
                had, left = trial, left & ~self.clashes[number]
            free = left
        return tuple(chosen)

    def _reaches(self, goal: Sequence[int], had: Sequence[int], free: int, limit: int) -> bool:
        """True if `goal` can be reached. Tries the cheap first fit before the exact search."""
        quick = self._first_fit(free)
        if _cut([a + b for a, b in zip(had, quick, strict=True)], limit) == goal:
            return True
        more = self._counts(self._heaviest(free))
        return _cut([a + b for a, b in zip(had, more, strict=True)], limit) == goal

    def _first_fit(self, free: int) -> list[int]:
        """The counts by level if each item is chosen in order as it fits."""
        counts = [0] * (max(self.levels) + 1)
        while free:
            number = _lowest(free)
            counts[self.levels[number]] += 1
            free &= ~(1 << number | self.clashes[number])
        return counts

    def _heaviest(self, free: int) -> int:
        """The weight of the best set within `free`, which also encodes the set."""
        if (known := self._known.get(free)) is not None:
            return known
        if len(self._known) > self.budget:
            raise TooHardError
        total, rest = self._obvious(free)
        for part in self._parts(rest):
            total += self._branched(part)
        self._known[free] = total
        return total

    def _branched(self, part: int) -> int:
        if (known := self._known.get(part)) is not None:
            return known
        members = (n for n in range(part.bit_length()) if part >> n & 1)
        number = max(members, key=lambda n: (self.clashes[n] & part).bit_count())
        without = part & ~(1 << number)
        taken = self._weights[number] + self._heaviest(without & ~self.clashes[number])
        found = max(taken, self._heaviest(without))
        self._known[part] = found
        return found

    def _obvious(self, free: int) -> tuple[int, int]:
        """The weight of items that are surely in the best set, and the undecided items."""
        total, doubtful = 0, free
        while doubtful:
            number = _lowest(doubtful)
            doubtful &= doubtful - 1
            if not free >> number & 1:
                continue
            near = self.clashes[number] & free
            worse = self._outdone(number, near, free)
            if worse:
                free &= ~worse
                # An item that lost a neighbour may have become obvious.
                doubtful |= self._around(worse) & free
                near &= ~worse
            if not near:
                total += self._weights[number]
                free &= ~(1 << number)
        return total, free

    def _outdone(self, number: int, near: int, free: int) -> int:
        """The neighbours that `number` could replace in every set without loss."""
        own = near | 1 << number
        worse = 0
        later = near >> number << number
        while later:
            bit = later & -later
            if not own & ~(self.clashes[bit.bit_length() - 1] & free | bit):
                worse |= bit
            later ^= bit
        return worse

    def _around(self, members: int) -> int:
        found = 0
        while members:
            found |= self.clashes[(members & -members).bit_length() - 1]
            members &= members - 1
        return found

    def _parts(self, free: int) -> Iterator[int]:
        """The connected parts: no item clashes with an item of another part."""
        while free:
            part, fresh = 0, free & -free
            while fresh:
                part |= fresh
                fresh = self._around(fresh) & free & ~part
            yield part
            free &= ~part

    def _numbers(self, weight: int) -> tuple[int, ...]:
        size = len(self.levels)
        return tuple(n for n in range(size) if weight >> (size - 1 - n) & 1)

    def _counts(self, weight: int) -> list[int]:
        counts = [0] * (max(self.levels, default=0) + 1)
        for number in self._numbers(weight):
            counts[self.levels[number]] += 1
        return counts


def _cut(counts: Sequence[int], limit: int) -> list[int]:
    """The counts of the first `limit` items."""
    cut = []
    for count in counts:
        cut.append(min(count, limit))
        limit -= cut[-1]
    return cut


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
