"""`dependsOn`: which items have to wait for which others. Pure.

A dependency is named by its id or, where no item has that id, by its slug.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

from driver.backlog.selection import UNKNOWN_DEPENDENCY, WAITS, Skipped
from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of
from state_store.documents.item_status import is_finished, is_open

Item = Mapping[str, Any]

KEY = "dependsOn"
INVALID = "invalid_dependsOn"


def needed(items: Sequence[Item]) -> list[Item]:
    """The finished items that items to do depend on."""
    asking = [item for item in items if KEY in item and is_open(item)]
    if not asking:
        return []
    known = _Known(items)
    named = (name for item in asking for name in _named(item[KEY]) or ())
    found = {id(item): item for name in named if (item := known.find(name)) is not None}
    return [item for item in found.values() if is_finished(item)]


def linked(items: Sequence[Item], unfinished: Iterable[Item]) -> list[Item]:
    """The unfinished items that depend on others, and those others. `needed` and `waiting` find
    among them what they find among all `items`."""
    asking = [item for item in unfinished if KEY in item]
    if not asking:
        return []
    known = _Known(items)
    names = (name for item in asking for name in _named(item[KEY]) or ())
    kept = {id(item) for name in names if (item := known.find(name)) is not None}
    kept.update(map(id, asking))
    return [item for item in items if id(item) in kept]


def waiting(
    items: Sequence[Item], absent: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Skipped]:
    """The items to do, by id, that must not be begun yet, and why.

    `absent` says, by id, why nobody can build on a finished item: what the next wave starts from
    does not have it. A `dependsOn` that is no text, number or list of them keeps its item only;
    only items that are not finished are judged. Raises InputError for items that wait for each
    other.
    """
    if not any(KEY in item for item in items):
        return {}  # a long backlog without dependencies costs one look at each item
    known = _Known(items)
    needs: dict[str, list[str]] = {}
    wrong: set[str] = set()
    for item in items:
        name = id_of(item)
        if name is None or KEY not in item or is_finished(item):
            continue
        named = _named(item[KEY])
        if named is None:
            wrong.add(name)
        else:
            needs[name] = named
    if problems := _cycles(known, needs):
        raise InputError(problems)
    ready = _Ready(known, absent)
    todo = (name for item in items if is_open(item) and (name := id_of(item)) is not None)
    answers = {
        name: _unreadable(name) if name in wrong else _wait(name, needs.get(name, ()), ready)
        for name in todo
    }
    return {name: skipped for name, skipped in answers.items() if skipped}


class _Known:
    def __init__(self, items: Iterable[Item]) -> None:
        self._of_slug: dict[str, Item] = {}
        self._of_id: dict[str, Item] = {}
        for item in items:
            if isinstance(item.get("slug"), str):
                self._of_slug[item["slug"]] = item
            if (name := id_of(item)) is not None:
                self._of_id[name] = item

    def find(self, name: str) -> Item | None:
        return self._of_id.get(name) or self._of_slug.get(name)


def _named(value: object) -> list[str] | None:
    """The names in a `dependsOn`; None for anything else."""
    if value is None:
        return []
    entries = value if isinstance(value, list | tuple) else [value]
    names = [id_of({"id": entry}) for entry in entries]
    return None if None in names else [name for name in names if name is not None]


@dataclass(frozen=True, slots=True)
class _Ready:
    known: _Known
    absent: Mapping[str, str]

    def lacking(self, item: Item) -> str:
        """Why nobody can build on an item yet; "" when they can."""
        if not is_finished(item):
            return f"whose status is {item.get('status')!r}"
        return self.absent.get(id_of(item) or "", "")


def _wait(name: str, needs: Iterable[str], ready: _Ready) -> Skipped | None:
    for needed in needs:
        found = ready.known.find(needed)
        if found is None:
            return Skipped(name, UNKNOWN_DEPENDENCY, needed, f"{KEY} names {needed!r}, which is"
                           " no item's id or slug")  # fmt: skip
        if lacking := ready.lacking(found):
            return Skipped(name, WAITS, needed, f"waits for {needed!r}, {lacking}")
    return None


def _unreadable(name: str) -> Skipped:
    return Skipped(name, INVALID, detail=f"{KEY} must be a text or a list of ids and slugs")


def _cycles(known: _Known, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """One sentence for the first cycle among items that are not finished."""
    graph = {
        name: [other for other in _ids(known, named) if other in needs]
        for name, named in needs.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        way = " -> ".join(reversed(error.args[1]))
        return [f"{KEY} goes in a circle: {way}; take one of them out"]
    return []


def _ids(known: _Known, named: Iterable[str]) -> list[str]:
    found = (known.find(name) for name in named)
    return [name for item in found if item is not None and (name := id_of(item)) is not None]
