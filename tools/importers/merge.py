"""Merges drafts into a tracker, as new items or changes of items. Pure except for `write`.

An item keeps the name of its draft in `source` and a digest of its content in `sourceHash`. An
unchanged draft changes nothing. A changed draft updates the item, unless work on it has begun or a
person has edited it; then the change is only reported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import make_folder, replace_unchanged, write_json_atomic
from state_store.documents.item_id import id_of
from state_store.documents.item_status import PROPOSED, TODO
from state_store.documents.locks import locked
from state_store.tracker.file import read_tracker_file, real_path, with_changes
from state_store.tracker.merge import Change
from state_store.values.lazy_dataclass import dataclass, field
from tools.importers.drafts import Draft, slug_of

Item = Mapping[str, Any]
Problems = Callable[[Item], Sequence[str]]

ADDED, UPDATED, CHANGED, SAME = "new", "updated", "changed at its source", "unchanged"
# The fields from a source, which show if a person edited the item. Without notes, because
# Tidegate writes notes.
_FROM_SOURCE = ("title", "priority", "createdAt", "labels", "lane", "repo", "workDir", "dependsOn",
         "prompt", "ownsFiles", "testCmd", "selfCheckCmd", "effort")  # fmt: skip
_ORDER = ("id", "slug", "title", "status", "priority", "createdAt", "labels", "lane", "repo",
          "workDir", "dependsOn", "prompt", "ownsFiles", "testCmd")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fate:
    """The outcome of a draft: the item's id and slug, a word above, the new status, and missing
    parts."""

    id: str
    slug: str
    what: str
    status: str
    lacks: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """New items, changes of existing items by id, and the outcome of each draft, in order."""

    added: list[Item] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)


def plan(
    items: Sequence[Item], drafts: Iterable[Draft], problems: Problems, *, ready: bool
) -> Plan:
    """Decides the changes by `drafts` in a tracker of `items`.

    `problems` returns the reasons why an item cannot run. A runnable item is `todo` if `ready` is
    set or its source says so. All other items are `proposed`, and no wave takes them.
    """
    made = Plan()
    names = _Names(items)
    of_source = {item["source"]: item for item in items if isinstance(item.get("source"), str)}
    for draft in drafts:
        there = of_source.get(draft.source)
        if there is not None:
            made.fates.append(_kept(there, draft, problems, made, ready=ready))
            continue
        fields = {key: value for key, value in draft.fields.items() if key != "status"}
        wanted = str(fields.pop("slug", "")) or slug_of(str(fields["title"]), draft.number)
        slug = names.slug(wanted)
        item = {"id": names.id(draft.number or slug), "slug": slug, "status": TODO, **fields}
        item = {key: item[key] for key in (*_ORDER, *item) if key in item}
        lacks = _lacks(item, problems)
        item["status"] = _status(draft, lacks, ready=ready)
        of_draft = {"source": draft.source, "sourceHash": digest(draft.fields)}
        made.added.append({**item, **of_draft})
        made.fates.append(Fate(item["id"], slug, ADDED, item["status"], lacks))
    return made


def write(tracker: Path, decide: Callable[[Sequence[Item]], Plan]) -> Plan:
    """Applies the plan of `decide` to the tracker, or creates it. All other text stays.

    Raises InputError if the tracker cannot be read, CannotRunError if it cannot be written.
    """
    tracker = real_path(tracker)
    make_folder(tracker.parent)
    with locked(tracker):
        while True:
            if not tracker.exists():
                made = decide(())
                write_json_atomic(tracker, {"version": 1, "items": made.added})
                return made
            file = read_tracker_file(tracker)
            if file.ambiguous:
                raise InputError(file.problems)
            made = decide(file.entries)
            text = with_changes(file.text, made.changes, made.added)
            if text == file.text or replace_unchanged(tracker, text.encode(), file.digest):
                return made


def _status(draft: Draft, lacks: Sequence[str], *, ready: bool) -> str:
    wanted = ready or draft.fields.get("status") == TODO
    return TODO if wanted and not lacks else PROPOSED


def _kept(item: Item, draft: Draft, problems: Problems, made: Plan, *, ready: bool) -> Fate:
    name, status = id_of(item) or "", str(item.get("status"))
    slug = str(item.get("slug") or "")
    before, now = item.get("sourceHash"), digest(draft.fields)
    if before == now:
        return Fate(name, slug, SAME, status)
    if status not in (PROPOSED, TODO) or not name or digest(item) != before:
        return Fate(name, slug, CHANGED, status)
    fields = {key: draft.fields[key] for key in _FROM_SOURCE if key in draft.fields}
    gone = tuple(key for key in _FROM_SOURCE if key in item and key not in fields)
    lacks = _lacks(Change(fields, gone).applied(item), problems)
    status = _status(draft, lacks, ready=ready or status == TODO)
    made.changes[name] = Change({**fields, "status": status, "sourceHash": now}, gone)
    return Fate(name, slug, UPDATED, status, lacks)


def _lacks(item: Item, problems: Problems) -> tuple[str, ...]:
    return tuple(problem.partition(": ")[2] or problem for problem in problems(item))


def digest(fields: Item) -> str:
    """Returns a digest of the fields from the source, in any order."""
    from_source = {key: fields[key] for key in _FROM_SOURCE if key in fields}
    text = json.dumps(from_source, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Names:
    """Finds free ids and slugs in a growing tracker."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._ids = {name for item in items if (name := id_of(item)) is not None}
        self._slugs = {str(item.get("slug", "")).lower() for item in items}

    def id(self, wanted: str) -> str:
        return _free(wanted, self._ids)

    def slug(self, wanted: str) -> str:
        return _free(wanted, self._slugs)


def _free(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken or name.lower() in taken:
        count += 1
        name = f"{wanted}-{count}"
    taken |= {name, name.lower()}
    return name
