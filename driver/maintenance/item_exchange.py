"""Plans the import of a document of items: all of them or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from driver.backlog.tracker import tracker_problems, validate_item
from state_store.documents import strict_json
from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of
from state_store.documents.item_status import (
    ARCHIVED,
    BLOCKED,
    CLAIMED,
    DONE,
    IN_PROGRESS,
    PROPOSED,
    TODO,
    is_open,
)
from state_store.tracker.file import listed
from state_store.tracker.merge import Change
from tools.importers.merge import Item, Plan

_STATUSES = (PROPOSED, TODO, CLAIMED, IN_PROGRESS, DONE, BLOCKED, ARCHIVED)


def imported(text: str, source: str, *, update: bool) -> Callable[[Sequence[Item]], Plan]:
    """Return a function that plans the import of a document into a backlog. With `update` it
    changes the items that are there already. Raises InputError for a text that is no backlog.

    The function raises InputError with all problems of all items."""
    try:
        entries = listed(Path(source), strict_json.parse(text))
    except ValueError as error:
        raise InputError(f"{source} is not valid JSON: {error}") from error

    def plan(items: Sequence[Item]) -> Plan:
        there = {id_of(item): item for item in items}
        problems: list[str] = []
        made = Plan()
        for number, entry in enumerate(entries, start=1):
            found = list(_problems_of(entry))
            problems += [f"entry {number}{_called(entry)}: {one}" for one in found]
            if found:
                continue
            name = str(id_of(entry))
            known = there.get(name)
            if known is None:
                made.added.append(entry)
            elif change := _change(known, entry):
                made.changes[name] = change
                if not update:
                    fields = ", ".join(sorted([*change.set, *change.removed]))
                    problems.append(
                        f"entry {number}{_called(entry)}: the item is there with another {fields}; "
                        "--update changes it"
                    )
        if not problems:
            problems += dict.fromkeys((*_repeated(entries), *_together(items, made)))
        if problems:
            raise InputError(problems)
        return made

    return plan


def _problems_of(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "it is not an object"
        return
    if id_of(entry) is None:
        yield "it has no id"
    status = entry.get("status")
    if status not in _STATUSES:
        yield f"status must be one of {', '.join(_STATUSES)}, not {status!r:.60}"
    elif is_open(entry):
        yield from (one.partition(": ")[2] or one for one in validate_item(entry))


def _called(entry: Any) -> str:
    name = id_of(entry) if isinstance(entry, dict) else None
    return "" if name is None else f" ({name})"


def _repeated(entries: Sequence[Item]) -> Iterator[str]:
    """The ids that the document has twice, finished items among them."""
    for name, count in Counter(map(id_of, entries)).items():
        if count > 1:
            yield f"two items have the id {name!r}; give each its own"


def _change(known: Item, entry: Item) -> Change | None:
    """The change that makes the known item equal to the entry; None if it is."""
    fields = {k: v for k, v in entry.items() if k != "id" and (k not in known or known[k] != v)}
    gone = tuple(key for key in known if key not in entry)
    return Change(fields, gone) if fields or gone else None


def _together(items: Sequence[Item], made: Plan) -> list[str]:
    """The problems of ids, slugs and dependencies in the backlog after the import."""
    changes = made.changes
    after = [
        changes[name].applied(item) if (name := str(id_of(item))) in changes else item
        for item in items
    ]
    after += made.added
    known = {str(one) for it in after for one in (id_of(it), it.get("slug")) if one is not None}
    problems = [problem.partition(": ")[2] for problem in tracker_problems(after)]
    for item in (*made.added, *(changes[n].applied({"id": n}) for n in changes)):
        needs = item.get("dependsOn") or ()
        for need in needs if isinstance(needs, list | tuple) else [needs]:
            if str(need) not in known:
                problems.append(f"{id_of(item)}: no item has the id or slug {need!r}")
    return problems
