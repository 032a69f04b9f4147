"""Items in the order of their urgency, each read only when it is looked at. Pure.

Of a long backlog a choice looks at the head; names and levels are all it needs of the rest. What
the order is, is `selection`'s.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Items, what each is called (`selection.name_of`) and its level (`selection.level_of`)."""

    items: Sequence[Item]
    names: Sequence[str]
    levels: Sequence[int]

    def part(self, numbers: Sequence[int]) -> Ranked:
        """Those of some numbers, which rise."""
        if len(numbers) == len(self.names):
            return self
        names, levels = self.names, self.levels
        return Ranked(
            Part(self.items, numbers), [names[n] for n in numbers], [levels[n] for n in numbers]
        )


class _Items(Sequence[Item]):
    """A sequence of items, of which one knows its length and the item of a number."""

    @abstractmethod
    def _at(self, number: int) -> Item: ...

    @overload
    def __getitem__(self, number: int) -> Item: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Item]: ...
    def __getitem__(self, number: int | slice) -> Item | Sequence[Item]:
        if isinstance(number, slice):
            return [self._at(n) for n in range(len(self))[number]]
        return self._at(number)


class Part(_Items):
    """Some items of a sequence."""

    def __init__(self, items: Sequence[Item], numbers: Sequence[int]) -> None:
        self._items, self._numbers = items, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def _at(self, number: int) -> Item:
        return self._items[self._numbers[number]]


class Unread(_Items):
    """Items as JSON texts; one that was read once stays the same object."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._read: dict[int, Item] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def _at(self, number: int) -> Item:
        if number not in self._read:
            self._read[number] = json.loads(self._texts[number])
        return self._read[number]
