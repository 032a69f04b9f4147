"""The fields of some hundred items, each field as a list: a column.

A long tracker is checked and ordered by a dozen passes over each block of its items. Where all of a
block have the same fields, as most do, one pass makes all columns, and the others find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Item = Mapping[str, Any]


class Block(tuple[Item, ...]):
    """Items that do not change, with their columns and the names of all their fields."""

    fields: set[str]
    _columns: dict[str, Sequence[Any]]

    def __new__(cls, items: Sequence[Item]) -> Block:
        made = super().__new__(cls, items)
        made._columns = {}
        keys = set(map(tuple, made))
        made.fields = set().union(*keys)
        if len(keys) == 1:
            rows = (item.values() for item in made)
            made._columns = dict(zip(*keys, zip(*rows, strict=True), strict=True))
        return made

    def column(self, key: str) -> Sequence[Any]:
        """The value of each item, None where it has no such field."""
        if key not in self._columns:
            self._columns[key] = [item.get(key) for item in self]
        return self._columns[key]


def column(items: Sequence[Item], key: str) -> Sequence[Any]:
    """The value of a field in each item, None where there is none."""
    return items.column(key) if isinstance(items, Block) else [item.get(key) for item in items]
