"""Merges backlog items three-way: the file, the store and their last agreed state.

Pure, and safe to repeat: merging again after half of a merge gives the same result. `ingest` reads
the three states and writes the merge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from state_store.documents.item_status import ARCHIVED, CLAIMED
from state_store.values.lazy_dataclass import dataclass, field

Item = Mapping[str, Any]
Items = Mapping[str, Item]


class Absent(Enum):
    """Marks a missing field; `None` is JSON's null."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent.ABSENT
GROWING_TEXTS = frozenset({"notes"})
# A claim is not a decision: any status that a person sets overrides it.
PASSING = {"status": CLAIMED}
FILE, STORE = "file", "store"


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A field that file and store changed to different values. Both stay unchanged.

    `base` is the agreed value. A missing field has the value `ABSENT`.
    """

    item_id: str
    field: str
    base: Any
    store: Any
    file: Any

    def __str__(self) -> str:
        return (
            f"item {self.item_id}: {self.field} is {_shown(self.file)} in the file and "
            f"{_shown(self.store)} in the store; write the store's value into the file, "
            f"or sync again preferring the file for this item"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one item: fields to set, and fields to remove."""

    set: Item = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.removed)

    def applied(self, item: Item) -> dict[str, Any]:
        """`item` with this change."""
        return {key: item[key] for key in item if key not in self.removed} | dict(self.set)


@dataclass(frozen=True, slots=True)
class ItemMerge:
    """The changes of one item that the store and the file still need, and its conflicts."""

    to_store: Change
    to_file: Change
    conflicts: tuple[MergeConflict, ...] = ()


_NOTHING = ItemMerge(Change(), Change())


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of a backlog: items to create or archive in the store, and changes of both
    sides."""

    created: tuple[Item, ...]
    archived: tuple[str, ...]
    to_store: Mapping[str, Change]
    to_file: Mapping[str, Change]
    added_to_file: tuple[Item, ...]
    conflicts: tuple[MergeConflict, ...]


def merge(
    base: Items | None, store: Items, file: Items, prefer: Mapping[str, str] | None = None
) -> Merge:
    """Merge by id. `base` is None before the first sync.

    `prefer` names the side (`FILE` or `STORE`) that wins the conflicts of an item.

    If an item is in the base but not in the file, a person deleted it, so it is archived. An item
    that is archived in the store is not added to the file again.
    """
    known = base or {}
    merged = {
        name: _merge_one(name, base, store[name], item, (prefer or {}).get(name))
        for name, item in file.items()
        if name in store
    }
    gone = [name for name in store if name not in file]
    return Merge(
        created=tuple(item for name, item in file.items() if name not in store),
        archived=tuple(n for n in gone if n in known and not _is_archived(store[n])),
        to_store={name: one.to_store for name, one in merged.items() if one.to_store},
        to_file={name: one.to_file for name, one in merged.items() if one.to_file},
        added_to_file=tuple(
            store[name] for name in gone if name not in known and not _is_archived(store[name])
        ),
        conflicts=tuple(conflict for one in merged.values() for conflict in one.conflicts),
    )


def merge_item(
    name: str, base: Item | None, store: Item, file: Item, prefer: str | None = None
) -> ItemMerge:
    """Merge field by field. Without a base, a field of only one side is new there."""
    if same(store, file):
        return _NOTHING
    sides: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    conflicts = []
    for key in dict.fromkeys([*file, *store]):
        if key == "id":  # the same id, on one side perhaps as a number
            continue
        ours, theirs = store.get(key, ABSENT), file.get(key, ABSENT)
        value = _merged(key, base, ours, theirs)
        if value is _UNDECIDED and prefer:
            value = theirs if prefer == FILE else ours
        if value is _UNDECIDED:
            before = ABSENT if base is None else base.get(key, ABSENT)
            conflicts.append(MergeConflict(name, key, before, ours, theirs))
            continue
        for is_store, side in ((True, ours), (False, theirs)):
            if not same(value, side):
                sides[is_store][key] = value
    return ItemMerge(_change(sides[True]), _change(sides[False]), tuple(conflicts))


def agreed(base: Items | None, store: Items, file: Items) -> dict[str, dict[str, Any]]:
    """The new base: fields that are equal on both sides, else the fields of `base`.

    An item of only one side is not in it, so an addition never looks like a deletion.
    """
    known = base or {}
    return {
        name: _agreed_item(known.get(name, {}), store[name], item)
        for name, item in file.items()
        if name in store
    }


def same(left: Any, right: Any) -> bool:
    """True for equal JSON values. Unlike in Python, 1, True and 1.0 differ."""
    return left is right or (bool(left == right) and _alike(left, right))


def _alike(left: Any, right: Any) -> bool:
    """True if equal values have the same types at all levels."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return all(_alike(v, right[key]) for key, v in left.items() if type(v) is not str)
    if isinstance(left, list):
        pairs = zip(left, right, strict=True)
        return all(_alike(one, other) for one, other in pairs if type(one) is not str)
    return True


def _merge_one(
    name: str, base: Items | None, store: Item, file: Item, prefer: str | None
) -> ItemMerge:
    if base is not None and name not in base and _is_archived(store):
        # A person deleted the item from the file and wrote it again, so the file's item is new.
        gone = tuple(key for key in store if key not in file)
        changed = {key: v for key, v in file.items() if not same(v, store.get(key, ABSENT))}
        return ItemMerge(Change(changed, gone), Change())
    return merge_item(name, None if base is None else base.get(name), store, file, prefer)


_UNDECIDED = object()


def _merged(key: str, base: Item | None, store: Any, file: Any) -> Any:
    if same(store, file):
        return store
    if base is None:
        return file if store is ABSENT else store if file is ABSENT else _UNDECIDED
    before = base.get(key, ABSENT)
    if same(before, store):
        return file
    if same(before, file):
        return store
    if PASSING.get(key, ABSENT) == store:
        return file
    return _grown(before, store, file) if key in GROWING_TEXTS else _UNDECIDED


def _grown(base: Any, store: Any, file: Any) -> Any:
    """Merge a text that the store only extends: append its addition to people's version."""
    before = "" if base in (None, ABSENT) else base
    if not all(isinstance(text, str) for text in (before, store, file)):
        return _UNDECIDED
    if not store.startswith(before):  # an interrupted merge has already reached the store
        return store if store.startswith(file) else _UNDECIDED
    if file.startswith(before) and store.startswith(file):
        return store
    if file.startswith(store):
        return file
    return file + store[len(before) :]


def _agreed_item(base: Item, store: Item, file: Item) -> dict[str, Any]:
    """The fields that are equal on both sides, else those of `base`."""
    if same(store, file):
        return dict(file)
    fields = {
        key: store.get(key, ABSENT)
        if same(store.get(key, ABSENT), file.get(key, ABSENT))
        else base.get(key, ABSENT)
        for key in dict.fromkeys([*file, *store, *base])
    }
    return {key: value for key, value in fields.items() if value is not ABSENT}


def _change(fields: Mapping[str, Any]) -> Change:
    kept = {key: value for key, value in fields.items() if value is not ABSENT}
    return Change(kept, tuple(key for key in fields if key not in kept))


def _is_archived(item: Item) -> bool:
    return item.get("status") == ARCHIVED


def _shown(value: Any) -> str:
    text = "absent" if value is ABSENT else json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
