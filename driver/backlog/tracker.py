"""tracker.json, the backlog that users edit: checks of its items, and changes item by item. A
change re-reads the file under a lock and sets single values, so the user's edits stay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.domain.ownership import comparison_key
from driver.domain.work_item import ItemProblem, item_problems, shape_problems
from state_store.documents.errors import InputError
from state_store.documents.files import replace_unchanged
from state_store.documents.item_id import id_of
from state_store.documents.item_status import is_open
from state_store.documents.locks import locked
from state_store.tracker.file import read_tracker_file, real_path, rewritten
from state_store.tracker.merge import Change, Item
from state_store.values.columns import column

Edit = Callable[[Item], Mapping[str, Any]]


def load_tracker_items(tracker_path: Path | str) -> list[Item]:
    """The tracker's items; none if it is missing or broken."""
    try:
        return list(read_tracker_file(Path(tracker_path)).entries)
    except InputError:
        return []


def validate_item(item: Item) -> tuple[str, ...]:
    """The reasons why an item cannot be built, each as "reason: detail"; empty if it can be.

    Reasons: no_file_ownership, invalid_ownsFiles_entries, invalid_path, missing_or_empty_slug,
    missing_or_empty_prompt, missing_or_empty_testCmd, missing_id, and invalid_<key> for any other
    key that the manifest refuses.
    """
    return _described(item, item_problems(item))


def quick_problems(item: Item) -> tuple[str, ...]:
    """`validate_item` without a parser's view of the test command, which is slow."""
    found = shape_problems(item)
    return _described(item, found) if found or item.get("id") is None else ()


def _described(item: Item, found: Sequence[ItemProblem]) -> tuple[str, ...]:
    problems = tuple(f"{problem.reason}: {problem.text}" for problem in found)
    if item.get("id") is None:
        return *problems, "missing_id: an item needs an id for its status to be written back"
    return problems


def tracker_problems(
    items: Sequence[Item], duplicates: Collection[str] | None = None
) -> tuple[str, ...]:
    """Ids and slugs that make a todo item ambiguous, each as "reason: detail". An id must be unique
    in the tracker. A slug must be unique among the todo items only: finished work may have the same
    name. `duplicates` are the duplicate ids, if already known."""
    todo = list(filter(is_open, items))
    duplicates = _repeated(list(map(id_of, items))) if duplicates is None else duplicates
    return ambiguities(duplicates, map(id_of, todo), slug_keys(todo))


def ambiguities(
    duplicates: Collection[str], open_ids: Iterable[str | None], slugs: Sequence[str]
) -> tuple[str, ...]:
    """`tracker_problems` by the duplicate ids of the tracker, and the ids and the `slug_keys` of
    its open items."""
    ids = sorted(set(duplicates).intersection(open_ids)) if duplicates else ()
    return (
        *(f"duplicate_id: two items have the id {name!r}; give each its own" for name in ids),
        *(
            f"duplicate_slug: two todo items have the slug {name!r}; rename one"
            for name in _repeated(slugs)
        ),
    )


def slug_keys(items: Sequence[Item]) -> list[str]:
    """The slugs, as two of them are compared."""
    slugs: list[Any] = list(filter(None, column(items, "slug")))
    if set(map(type, slugs)) == {str}:
        together = "\n".join(slugs)
        if together.isascii() and together.count("\n") == len(slugs) - 1:
            return comparison_key(together).split("\n")  # in a tenth of the time
    return [comparison_key(str(slug)) for slug in slugs]


def withdrawn(path: Path, names: Collection[str]) -> dict[str, str]:
    """The items of a wave that the user withdrew, by id, with the reason. The user deleted them
    from the tracker, or set a status that is not open. An item of an unreadable tracker, or with a
    duplicate id, is not withdrawn."""
    try:
        file = read_tracker_file(path)
    except InputError:
        return {}
    found: dict[str, str] = {}
    for name in names:
        item = file.items.get(name)
        if name in file.ambiguous or (item is not None and is_open(item)):
            continue
        found[name] = (
            "deleted from the tracker while the wave ran; its work is kept as a patch"
            if item is None
            else f"its status was set to {json.dumps(item.get('status'))} in the tracker while the"
            " wave ran; set it to todo to have the next wave verify and ship its work"
        )
    return found


def rewrite_items(path: Path, edit: Edit, expected: str | None = None) -> bool:
    """Set the fields that `edit` returns for each item now in the file; all other text stays.
    Returns False and writes nothing if the file's SHA-256 is not `expected`. Raises InputError for
    a tracker that cannot be read, CannotRunError if it cannot be written."""
    path = real_path(path)
    if not path.is_file():
        read_tracker_file(path)  # raises the reason; the lock needs an existing folder

    def change(item: Item) -> Change:
        fields = edit(item)
        return Change({k: v for k, v in fields.items() if k not in item or item[k] != v})

    with locked(path):
        while True:
            file = read_tracker_file(path)
            if expected not in (None, file.digest):
                return False
            text = rewritten(file.text, change)
            if text == file.text or replace_unchanged(path, text.encode(), file.digest):
                return True


def _repeated(names: Sequence[str | None]) -> list[str]:
    if len(set(names)) == len(names):
        return []  # the usual case, in a third of the time
    counts = Counter(name for name in names if name is not None)
    return [name for name, count in counts.items() if count > 1]
