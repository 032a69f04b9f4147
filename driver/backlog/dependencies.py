"""Dependencies between items (`dependsOn`). Pure. A dependency names an id or, if no item has this
id, a slug."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """The finished items that open items depend on."""
    asking = [item for item in items if KEY in item and is_open(item)]
    if not asking:
        return []
    known = _Known(items)
    named = (name for item in asking for name in _named(item[KEY]) or ())
    found = {id(item): item for name in named if (item := known.find(name)) is not None}
    return [item for item in found.values() if is_finished(item)]


def linked_numbers(
    entries: Sequence[Any], ids: Sequence[str | None], asking: Iterable[tuple[int, Item]]
) -> set[int]:
    """The numbers of the unfinished items with dependencies, `asking`, and of the entries that they
    depend on. `needed` and `waiting` give the same result for these as for all entries. Entries,
    whose `ids` are given, are read only for names that are no id."""
    numbers, names = set[int](), set[str]()
    for number, item in asking:
        numbers.add(number)
        names.update(_named(item[KEY]) or ())
    of_id = {name: number for number, name in enumerate(ids) if name in names} if names else {}
    slugs = names - of_id.keys()
    of_slug: dict[str, int] = {}
    for number, item in enumerate(entries if slugs else ()):
        slug = item.get("slug") if isinstance(item, dict) else None
        if isinstance(slug, str) and slug in slugs:
            of_slug[slug] = number
    return numbers.union(of_id.values(), of_slug.values())


def waiting(
    items: Sequence[Item], absent: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Skipped]:
    """The open items that must wait, by id, with the reason.

    `absent` has, by id, the reason why a finished item cannot be built on: it is not in the base of
    the next wave. An invalid `dependsOn` holds back its own item only. Only unfinished items are
    checked. Raises InputError for a cycle.
    """
    if not any(KEY in item for item in items):
        return {}  # a fast way for long backlogs without dependencies
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
    _check_cycles(known, needs)
    found: dict[str, Skipped] = {}
    for item in items:
        name = id_of(item)
        if name is None or not is_open(item):
            continue
        if name in wrong:
            why = f"{KEY} must be a text or a list of ids and slugs"
            found[name] = Skipped(name, INVALID, detail=why)
        elif skipped := _wait(name, needs.get(name, ()), known, absent):
            found[name] = skipped
    return found


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
    """The names in a `dependsOn`; None for an invalid value."""
    if value is None:
        return []
    entries = value if isinstance(value, list | tuple) else [value]
    names = [id_of({"id": entry}) for entry in entries]
    return None if None in names else [name for name in names if name is not None]


def _wait(
    name: str, needs: Iterable[str], known: _Known, absent: Mapping[str, str]
) -> Skipped | None:
    for needed in needs:
        found = known.find(needed)
        if found is None:
            why = f"{KEY} names {needed!r}, but no item has this id or slug"
            return Skipped(name, UNKNOWN_DEPENDENCY, needed, why)
        if is_finished(found):
            lacking = absent.get(id_of(found) or "", "")
        else:
            lacking = f"whose status is {found.get('status')!r}"
        if lacking:
            return Skipped(name, WAITS, needed, f"waits for {needed!r}, {lacking}")
    return None


def _check_cycles(known: _Known, needs: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError for the first cycle among unfinished items."""
    graph: dict[str, list[str]] = {}
    for name, named in needs.items():
        ids = (id_of(item) for each in named if (item := known.find(each)) is not None)
        graph[name] = [other for other in ids if other is not None and other in needs]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        problem = f"{KEY} has a cycle: {circle}; remove one of these dependencies"
        raise InputError([problem]) from None
