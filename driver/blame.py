"""Questions about items on one tree, their answers, and who is left out for them. Data only.

Items are numbers in the order of their commits, tests are numbers too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
class Blame:
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
    blamed: tuple[Blame, ...]
