"""Items in the order of their urgency, with what a choice needs of all of them. Pure.

Of a long backlog it looks at the head, and of the rest at names and levels. What the order is, is
`selection`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ranked:
    """Items, what each is called (`selection.name_of`) and its level, which is of its priority."""

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
