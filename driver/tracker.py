"""tracker.json, the backlog that people edit: read, checked, and changed item by item.

Owns the file's shape and the way it is written. A change re-reads the file under a lock and
touches only the values it sets, so what people edited meanwhile stays. Which items a wave takes
is decided in `selection`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.manifest import check_item
from driver.ownership import comparison_key
from state_store.errors import InputError
from state_store.files import replace_unchanged
from state_store.item_id import id_of
from state_store.json_document import JsonDocument, item_spans, object_with, read_json
from state_store.locks import locked

Item = Mapping[str, Any]
Edit = Callable[[Item], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker as read: the whole document, its items, the SHA-256 of the file's bytes.

    `strays` names the entries of the list that are no objects, a sentence each.
    """

    document: Any
    items: tuple[Item, ...]
    digest: str
    strays: tuple[str, ...] = ()


def read_tracker(path: Path) -> Tracker:
    """Read `{"version": 1, "items": [...]}` or a bare list. Raises InputError."""
    return _tracker(path, read_json(path, "tracker"))


def load_tracker_items(path: Path | str) -> list[Item]:
    """The tracker's items, or none when it is missing or broken."""
    try:
        return list(read_tracker(Path(path)).items)
    except InputError:
        return []


def validate_item(item: Item) -> tuple[str, ...]:
    """Why an item cannot be built, each as "reason: detail"; empty when it can.

    Reasons: no_file_ownership, invalid_ownsFiles_entries, invalid_path, missing_or_empty_slug,
    missing_or_empty_prompt, missing_or_empty_testCmd, missing_id, and invalid_<key> for any other
    key the manifest would refuse.
    """
    problems = [f"{problem.reason}: {problem.text}" for problem in check_item(item)[1]]
    if item.get("id") is None:
        problems.append("missing_id: an item needs an id for its status to be written back")
    return tuple(problems)


def tracker_problems(items: Sequence[Item]) -> tuple[str, ...]:
    """Ids and slugs that make a todo item ambiguous, each as "reason: detail".

    An id must be the only one in the tracker; a slug only among the todo items, for finished work
    may have had the same name.
    """
    todo = [item for item in items if item.get("status") == "todo"]
    open_ids = set(map(id_of, todo))
    ids = _repeated(found for item in items if (found := id_of(item)) in open_ids)
    slugs = _repeated(comparison_key(str(item["slug"])) for item in todo if item.get("slug"))
    return (
        *(f"duplicate_id: two items have the id {name!r}; give each its own" for name in ids),
        *(f"duplicate_slug: two todo items have the slug {name!r}; rename one" for name in slugs),
    )


def update_items(path: Path, edits: Mapping[str, Edit]) -> tuple[str, ...]:
    """Set fields of the items with these ids; returns the ids that are not there.

    An edit is given the item as it is in the file now and answers with the fields to set.
    Everything else in the file keeps its text. Raises InputError for a tracker that cannot be
    read, CannotRunError when it cannot be written.
    """
    found: set[str] = set()

    def change(item: Item) -> Mapping[str, Any]:
        name = id_of(item)
        if name is None or name not in edits:
            return {}
        found.add(name)
        return edits[name](item)

    rewrite_items(path, change)
    return tuple(name for name in edits if name not in found)


def rewrite_items(path: Path, change: Edit, expected: str | None = None) -> bool:
    """Set what `change` answers for each item; False, and nothing written, when the file's SHA-256
    is not `expected`. Raises like `update_items`."""
    path = Path(os.path.realpath(path))  # replacing a link would leave the file behind it stale
    if not path.is_file():
        read_json(path, "tracker")  # says why not
    with locked(path):
        while True:
            read = read_json(path, "tracker")
            if expected not in (None, read.digest):
                return False
            _tracker(path, read)
            text = _changed(read.text, change)
            if text == read.text or replace_unchanged(path, text.encode(), read.digest):
                return True


def _repeated(names: Iterable[str | None]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name is not None and name in seen:
            twice[name] = None
        seen.add(name or "")
    return list(twice)


def _tracker(path: Path, read: JsonDocument) -> Tracker:
    document = read.value
    if isinstance(document, dict):
        if document.get("version", 1) != 1:
            raise InputError(
                f"the tracker {path} has version {document['version']!r}; this program knows 1"
            )
        document = document.get("items")
    if not isinstance(document, list):
        raise InputError(f'the tracker {path} has no list of items; write {{"items": [...]}}')
    strays = tuple(
        f"entry {number} of the tracker is not an object; correct or remove it"
        for number, item in enumerate(document, start=1)
        if not isinstance(item, dict)
    )
    items = tuple(item for item in document if isinstance(item, dict))
    return Tracker(read.value, items, read.digest, strays)


def _changed(text: str, change: Edit) -> str:
    pieces, at = [], 0
    for item, start, end in item_spans(text, "items"):
        changes = change(item) if isinstance(item, dict) else {}
        real = {k: v for k, v in changes.items() if k not in item or item[k] != v}
        if real:
            pieces += [text[at:start], object_with(text, start, end, real)]
            at = end
    return "".join([*pieces, text[at:]])
