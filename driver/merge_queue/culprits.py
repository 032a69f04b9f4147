"""Questions about items on one tree, the answers, and the evicted items. Data only. Items are
numbers in the order of their commits; tests are numbers too."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from state_store.values.lazy_dataclass import dataclass

Items = frozenset[int]


class Answer(Enum):
    """The answer of a test on a tree. SILENT and FLAKY say nothing about the items."""

    GREEN = auto()
    RED = auto()
    SILENT = auto()
    FLAKY = auto()


@dataclass(frozen=True, slots=True)
class Question:
    """A test, by its number, on the tree of `items`."""

    items: Items
    test: int


Ask = Callable[[Sequence[Question]], Mapping[Question, Answer]]


@dataclass(frozen=True, slots=True)
class Culprit:
    """The cause of an item's eviction: the answer of `test` on the tree of `items`. `items` is a
    smallest set that is red together, empty if the test is red without any item."""

    item: int
    test: int
    answer: Answer
    items: Items

    @property
    def company(self) -> tuple[int, ...]:
        """The others of `items`, in order."""
        return tuple(sorted(self.items - {self.item}))


@dataclass(frozen=True, slots=True)
class Found:
    """The items of the batch, in order, and the culprits."""

    kept: tuple[int, ...]
    culprits: tuple[Culprit, ...]


_EXACT_MEMBERS = 12  # more members have too many combinations to try


def minimal_removal(cores: Sequence[Items]) -> Items:
    """The fewest items whose removal breaks all `cores`; among equal choices the last items. Exact
    if not too many cores share items; else the items in most cores go first."""
    parts: list[list[Items]] = []  # groups of cores without shared items
    for core in cores:
        joined = [part for part in parts if any(core & other for other in part)]
        parts = [part for part in parts if part not in joined]
        parts.append([core, *itertools.chain.from_iterable(joined)])
    return frozenset[int]().union(*map(_removal_of, parts))


def _removal_of(cores: Sequence[Items]) -> Items:
    """The removal for cores that share items. It is exact for few items, greedy for many."""
    members = sorted(frozenset[int]().union(*cores), reverse=True)
    if len(members) <= _EXACT_MEMBERS:
        sizes = range(1, len(members) + 1)
        sets = (frozenset(s) for size in sizes for s in itertools.combinations(members, size))
        return next(chosen for chosen in sets if all(chosen & core for core in cores))
    chosen = frozenset[int]()
    while left := [core for core in cores if not core & chosen]:
        counts = Counter(item for core in left for item in core)
        chosen |= {max(counts, key=lambda item: (counts[item], item))}
    return chosen
