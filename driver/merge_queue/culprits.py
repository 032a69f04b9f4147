"""Questions about items on one tree, their answers, and who is left out for them. Data only.

Items are numbers in the order of their commits, tests are numbers too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

Items = frozenset[int]


class Answer(Enum):
    """What a test said of a tree; the last two say nothing of the items."""

    GREEN = auto()
    RED = auto()
    SILENT = auto()
    FLAKY = auto()


@dataclass(frozen=True, slots=True)
class Question:
    """One test, by its number, on the tree of `items`."""

    items: Items
    test: int


Ask = Callable[[Sequence[Question]], Mapping[Question, Answer]]


@dataclass(frozen=True, slots=True)
class Culprit:
    """Why `item` is left out: what `test` said of the tree of `items`.

    These are as few as are red together, none where the test is red without any item.
    """

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
    """Who stays, in order, and why the others do not."""

    kept: tuple[int, ...]
    blamed: tuple[Culprit, ...]


_EXACT_MEMBERS = 12  # of more, every choice is too many to try


def minimal_removal(cores: Sequence[Items]) -> Items:
    """The fewest items without which none of `cores` is whole, of equals the last in order.

    Exact where not too many cores hang together, else whoever is in most of them goes first.
    """
    parts = _parts(cores)
    return frozenset[int]().union(*map(_exact_or_greedy, parts))


def _parts(cores: Iterable[Items]) -> list[list[Items]]:
    """The cores in groups that share no item."""
    parts: list[list[Items]] = []
    for core in cores:
        joined = [part for part in parts if any(core & other for other in part)]
        parts = [part for part in parts if part not in joined]
        parts.append([core, *itertools.chain.from_iterable(joined)])
    return parts


def _exact_or_greedy(cores: Sequence[Items]) -> Items:
    members = sorted(frozenset[int]().union(*cores), reverse=True)
    if len(members) > _EXACT_MEMBERS:
        return _greedy(cores)
    sizes = range(1, len(members) + 1)
    sets = (frozenset(s) for size in sizes for s in itertools.combinations(members, size))
    return next(chosen for chosen in sets if all(chosen & core for core in cores))


def _greedy(cores: Sequence[Items]) -> Items:
    chosen = frozenset[int]()
    while left := [core for core in cores if not core & chosen]:
        members = sorted(frozenset[int]().union(*left))
        chosen |= {max(members, key=lambda item: (sum(item in core for core in left), item))}
    return chosen
