"""The item filter of a run: named items, labels, a lane. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.backlog.order import name_of
from driver.backlog.selection import NOT_ASKED_FOR, NOT_OPEN, Skipped
from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of
from state_store.documents.item_status import TODO, is_open
from state_store.values.lazy_dataclass import dataclass

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Selects items by `only` (slugs or ids), `labels` (any of them) and the team's `lane`. An item
    must meet every part that is set."""

    only: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    lane: str | None = None

    def takes(self, item: Item) -> bool:
        """True if the item meets the filter."""
        return (
            (not self.only or bool(names_of(item) & set(self.only)))
            and (not self.labels or bool(labels_of(item) & set(self.labels)))
            and (self.lane is None or item.get("lane") == self.lane)
        )

    def split(self, items: Sequence[Item]) -> tuple[Sequence[int], list[Skipped]]:
        """The positions of the matching items, and the other items."""
        if self == ItemFilter():
            return range(len(items)), []
        asked: list[int] = []
        others: list[Skipped] = []
        for number, item in enumerate(items):
            if self.takes(item):
                asked.append(number)
            else:
                others.append(Skipped(name_of(item), NOT_ASKED_FOR))
        return asked, others

    def not_open(self, items: Sequence[Item]) -> list[Skipped]:
        """The items in `only` that are not open, if others are. Raises InputError for each name
        that no item has, or if no named item is open. Without this check a typing error would look
        like an empty backlog."""
        states = {name: item.get("status") for item in items for name in names_of(item)}
        states |= {name: TODO for item in items if is_open(item) for name in names_of(item)}
        missing = [name for name in self.only if name not in states]
        over = [name for name in self.only if states.get(name, TODO) != TODO]
        problems = [
            f"--only {name}: the tracker has no item with this slug or id" for name in missing
        ]
        details = {name: f"its status is {states[name]!r}, not 'todo'" for name in over}
        if missing or len(over) == len(self.only):
            raise InputError([*problems, *(f"--only {name}: {details[name]}" for name in over)])
        return [Skipped(name, NOT_OPEN, detail=detail) for name, detail in details.items()]


def names_of(item: Item) -> set[str]:
    """The names of an item: its slug and its id."""
    slug = item.get("slug")
    return {name for name in (slug if isinstance(slug, str) else None, id_of(item)) if name}


def labels_of(item: Item) -> set[str]:
    """The texts of `labels`, `tags` and `label`, each a text or a list of them."""
    found: set[str] = set()
    for key in ("labels", "tags", "label"):
        value = item.get(key)
        entries = value if isinstance(value, list | tuple) else [value]
        found |= {entry for entry in entries if isinstance(entry, str)}
    return found
