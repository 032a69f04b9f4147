"""Reads tracker.json, and writes changes into its text.

`merge` decides the changes. The driver decides if an item can be built.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.json_document import (
    item_spans,
    list_with,
    object_text,
    object_with,
    read_json,
)
from state_store.tracker.merge import Change, Item
from state_store.values.lazy_dataclass import dataclass

Splice = tuple[int, int, str]  # start, end and the text in its place
ERRORS = ("tracker", "write it as README.md shows, or name yours with --tracker")


class TrackerShapeError(InputError, TypeError):
    """The JSON is not a tracker: it has no list of items, or entries that are not objects."""


@dataclass(frozen=True, slots=True)
class TrackerFile:
    """A parsed tracker: `digest` is the SHA-256 of its bytes, `entries` are its objects in order.

    `ambiguous` are duplicate ids, which are not in `items`. `problems` has a sentence for each
    duplicate or missing id, `non_objects` for each entry that is not an object.
    """

    text: str
    digest: str
    entries: tuple[Item, ...]
    items: Mapping[str, Item]
    ambiguous: frozenset[str]
    problems: tuple[str, ...]
    non_objects: tuple[str, ...]


def read_tracker_file(path: Path) -> TrackerFile:
    """Read `{"version": 1, "items": [...]}` or a bare list.

    Raises InputError, and TrackerShapeError (a TypeError too) if there is no list of items.
    """
    read = read_json(path, *ERRORS)
    there = listed(path, read.value)
    entries = tuple(item for item in there if isinstance(item, dict))
    items, twice, nameless = _by_id(entries)
    titles = (str(i.get("slug") or i.get("title") or "without a name")[:60] for i in nameless)
    problems = (
        *(f"two items of {path} have the id {name!r}; give each its own" for name in sorted(twice)),
        *(f"the item {title!r} of {path} has no id; give it one" for title in titles),
    )
    non_objects = tuple(non_object_entries(path, there)) if len(entries) < len(there) else ()
    return TrackerFile(read.text, read.digest, entries, items, twice, problems, non_objects)


def require_sound(path: Path) -> None:
    """Parse a tracker. Raises like `read_tracker_file`."""
    listed(path, read_json(path, *ERRORS).value)


def ids_twice(ids: Sequence[str | None]) -> frozenset[str]:
    """The duplicate ids among those of all items."""
    if len(set(ids)) == len(ids):
        return frozenset()  # the usual case
    return frozenset(name for name, count in Counter(ids).items() if name is not None and count > 1)


def _by_id(entries: Sequence[Item]) -> tuple[dict[str, Item], frozenset[str], list[Item]]:
    """The items with a unique id, the duplicate ids, and the items without id."""
    items: dict[str, Item] = dict(zip(plain_ids(entries) or (), entries, strict=False))
    if len(items) == len(entries):
        return items, frozenset(), []  # the usual case, in a third of the time
    items.clear()
    twice: set[str] = set()
    nameless = []
    for item in entries:
        name = id_of(item)
        if name is None:
            nameless.append(item)
        elif items.setdefault(name, item) is not item:
            twice.add(name)
    for name in twice:
        del items[name]
    return items, frozenset(twice), nameless


def with_changes(text: str, changes: Mapping[str, Change], added: Sequence[Item]) -> str:
    """The tracker's text with items changed in place and new items at the end."""
    changed = rewritten(text, lambda item: changes.get(id_of(item) or "")) if changes else text
    return list_with(changed, "items", added)


def rewritten(text: str, change_of: Callable[[Item], Change | None]) -> str:
    """The tracker's text with the changes of `change_of` made in place."""
    return spliced(text, splices(text, change_of))


def spliced(text: str, found: Iterable[Splice]) -> str:
    """The text with each of the splices."""
    pieces, at = [], 0
    for start, end, written in found:
        pieces += [text[at:start], written]
        at = end
    return "".join([*pieces, text[at:]])


def splices(
    text: str,
    change_of: Callable[[Item], Change | None],
    spans: Iterable[tuple[Any, int, int]] | None = None,
) -> Iterator[Splice]:
    """The replacements of `rewritten`, in the order of the text. `spans` are the items that may
    change, with their positions in order, if they are known."""
    for item, start, end in item_spans(text, "items") if spans is None else spans:
        if not (isinstance(item, dict) and (change := change_of(item))):
            continue
        if change.removed:
            lead = text[len(text[:start].rstrip(" \t\r\n")) : start]
            many_lines = "\n" in text[start:end]
            written = object_text(text, change.applied(item), lead, many_lines=many_lines)
        else:
            written = object_with(text, start, end, change.set)
        yield start, end, written


def real_path(path: Path) -> Path:
    """The path without links, because replacing a link would leave its target stale."""
    return Path(os.path.realpath(path))


def listed(path: Path, document: Any) -> list[Any]:
    """The items of a parsed tracker. Raises InputError, and TrackerShapeError."""
    if isinstance(document, dict):
        if document.get("version", 1) != 1:
            raise InputError(
                f"the tracker {path} has version {document['version']!r}; "
                "this program reads version 1 only"
            )
        document = document.get("items")
    if not isinstance(document, list):
        raise TrackerShapeError(
            f'the tracker {path} has no list of items; write {{"items": [...]}}'
        )
    return document


def non_object_entries(path: Path, entries: Sequence[Any]) -> Iterator[str]:
    """A sentence for each entry that is not an object."""
    for number, item in enumerate(entries, start=1):
        if not isinstance(item, dict):
            yield entry_problem(path, number)


def entry_problem(path: Path, number: int) -> str:
    """A sentence for an entry that is not an object. Entries are counted from 1."""
    return f"entry {number} of {path} is not an object; correct or remove it"
