"""Syncs tracker.json and the store in both directions.

Owns the order of the steps. Each step can be repeated, so a killed process loses nothing, and the
next run continues. `merge` decides. The file lock is always acquired before the store's lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from state_store.database import events as names
from state_store.database.interface import Store
from state_store.database.projections import tracker_document
from state_store.database.store import ConcurrencyConflict
from state_store.documents.errors import InputError, InvalidValue, NoSuchFile
from state_store.documents.files import replace_unchanged, write_json_atomic
from state_store.documents.interpreter import collector_paused
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.item_status import ARCHIVED
from state_store.documents.locks import locked
from state_store.tracker import base as tracker_base
from state_store.tracker.base import Seen
from state_store.tracker.file import (
    TrackerFile,
    TrackerShapeError,
    read_tracker_file,
    real_path,
    with_changes,
)
from state_store.tracker.first_sync import first_sync
from state_store.tracker.merge import Item, Items, Merge, MergeConflict, agreed, merge
from state_store.tracker.quick_sync import quick_sync
from state_store.values.lazy_dataclass import dataclass

Draft = tuple[str, dict[str, Any]]
_TRIES = 3
_READ_ONE_BY_ONE = 1_000


class HasStore(Protocol):
    """A `StateAPI` or another object with a store."""

    @property
    def store(self) -> Store:
        """The store."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of a sync: events written to the store, and items written to the file.

    An item with a conflict must not be built until a person has resolved it. `problems` has a
    sentence for each entry that cannot be merged (no id, duplicate id, not an object).
    """

    ingested: int = 0
    exported: int = 0
    conflicts: tuple[MergeConflict, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def held_back(self) -> frozenset[str]:
        """The ids of items with a conflict."""
        return frozenset(conflict.item_id for conflict in self.conflicts)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A merge that is written to the store: both sides after it."""

    merge: Merge
    drafts: tuple[Draft, ...]
    version: int
    store_after: Items


def ingest_tracker_json(
    api: HasStore, tracker_json_path: Path | str, actor: str = "migration"
) -> int:
    """Copy the file's changes into the store and return the number of events.

    A new item gives one `item_created`, an unchanged file no event. Conflicts stay open;
    `sync_tracker` reports them. Raises FileNotFoundError for a missing file, ValueError for an
    unreadable one, TypeError for a file that is not a tracker; all are InputErrors too.
    """
    where = real_path(Path(tracker_json_path))
    with api.store.transaction():
        try:
            file = read_tracker_file(where)
        except TrackerShapeError:
            raise
        except InputError as error:
            kind = InvalidValue if where.exists() else NoSuchFile
            raise kind(error.problems) from error
        if file.non_objects:
            raise TrackerShapeError(file.non_objects)
        base = tracker_base.load_base(api.store, where)
        done = _ingest_once(api.store, file, base, actor, {})
        met = _agreed(base, done, file, file.items)
        tracker_base.save_base(api.store, where, done.version, met, base)
    return len(done.drafts)


@collector_paused()  # a long tracker is a million objects without cycles
def sync_tracker(
    api: HasStore,
    path: Path | str,
    actor: str = "sync",
    prefer: Mapping[str, str] | None = None,
) -> SyncReport:
    """Merge file and store, and write both. The file keeps its layout. A missing file is created.

    `prefer` resolves conflicts: it maps an item id to `merge.FILE` or `merge.STORE`. Raises
    InputError if the file cannot be read, CannotRunError if it cannot be written.
    """
    where, store = real_path(Path(path)), api.store
    seen = tracker_base.load_seen(store, where)
    if (
        seen is not None
        and seen.version == store.head(names.TRACKER)[0]
        and seen.digest == tracker_base.digest_of(where)
    ):
        return SyncReport()
    with locked(where):
        if not where.exists():
            export_tracker(api, where, archived=False)
        elif seen is not None and not prefer:
            written = quick_sync(store, where, seen)
            if written is not None:
                return SyncReport(exported=written)
        elif not prefer and (taken := first_sync(store, where, actor)) is not None:
            return SyncReport(ingested=taken)
        while True:
            file = read_tracker_file(where)
            report = _sync_once(store, where, file, actor, prefer or {})
            if report is not None:
                return report


def export_tracker(api: HasStore, out_path: Path | str, *, archived: bool = True) -> None:
    """Overwrite the file at `out_path`; `sync_tracker` would keep people's changes.

    Raises CannotRunError if it cannot be written.
    """
    where = real_path(Path(out_path))
    items = [i for i in api.store.items() if archived or i.get("status") != ARCHIVED]
    write_json_atomic(where, tracker_document(items))
    version, _ = api.store.head(names.TRACKER)
    tracker_base.save_base(api.store, where, version, _by_id(items))


def _sync_once(
    store: Store, path: Path, file: TrackerFile, actor: str, prefer: Mapping[str, str]
) -> SyncReport | None:
    """Sync; None if the file changed during the sync. The caller then repeats it safely."""
    base = tracker_base.load_base(store, path)
    if base is None and store.folder:  # the first meeting: what others have shared counts
        known = {item["id"] for item in store.items()}
        base = {name: item for name, item in file.items.items() if name in known}
    done = _ingest(store, file, base, actor, prefer)
    text = with_changes(file.text, done.merge.to_file, done.merge.added_to_file)
    if text != file.text:
        if done.drafts:
            # The ingested items are agreed from now on, even if the file cannot be written: an
            # item that a person deletes before our write would look like the store's addition.
            met = _agreed(base, done, file, file.items)
            tracker_base.save_base(store, path, done.version, met, base)
            base = met
        if not replace_unchanged(path, text.encode(), file.digest):
            return None
    to_file = done.merge.to_file
    changed = {name: change.applied(file.items[name]) for name, change in to_file.items()}
    after = {**file.items, **changed, **_by_id(done.merge.added_to_file)}
    tracker_base.save_base(store, path, done.version, _agreed(base, done, file, after), base)
    report = SyncReport(
        ingested=len(done.drafts),
        exported=len(to_file) + len(done.merge.added_to_file),
        conflicts=done.merge.conflicts,
        problems=file.problems + file.non_objects,
    )
    if not report.conflicts and not report.problems:
        digest = hashlib.sha256(text.encode()).hexdigest()
        tracker_base.save_seen(store, path, Seen(digest, done.version))
    return report


def _ingest(
    store: Store, file: TrackerFile, base: Items | None, actor: str, prefer: Mapping[str, str]
) -> _Merged:
    """Merge and append. If another process writes to the tracker during the merge, it is repeated.
    After `_TRIES` it holds the store's lock."""
    for _ in range(_TRIES):
        with suppress(ConcurrencyConflict):
            return _ingest_once(store, file, base, actor, prefer)
    with store.transaction():
        return _ingest_once(store, file, base, actor, prefer)


def _ingest_once(
    store: Store, file: TrackerFile, base: Items | None, actor: str, prefer: Mapping[str, str]
) -> _Merged:
    """Merge and append. Raises ConcurrencyConflict if another process wrote during the merge."""
    version, _ = store.head(names.TRACKER)
    items = _by_id(store.items())
    out = file.ambiguous
    known = None if base is None else _without(base, out)
    found = merge(known, _without(items, out), file.items, prefer)
    drafts = tuple(_drafts(found))
    if drafts:
        version = store.append_many(names.TRACKER, drafts, actor, version)
        changed = {*found.to_store, *found.archived}
        if len(changed) > _READ_ONE_BY_ONE:
            items = _by_id(store.items())
        else:
            items |= _by_id(map(_as_created, found.created))
            items |= {name: item for name in changed if (item := store.item(name)) is not None}
    elif (now := store.head(names.TRACKER)[0]) != version:
        raise ConcurrencyConflict(version, now)
    return _Merged(found, drafts, version, items)


def _as_created(item: Item) -> dict[str, Any]:
    """The item with its id as text; the same object if it is one, which saves memory."""
    if isinstance(item, dict) and isinstance(item.get("id"), str):
        return item
    return {**item, "id": id_of(item)}


def _drafts(found: Merge) -> Iterator[Draft]:
    for item in found.created:
        yield names.ITEM_CREATED, _as_created(item)
    for name, change in found.to_store.items():
        if change.set:
            yield names.ITEM_UPDATED, {**change.set, "id": name}
        if change.removed:
            yield names.ITEM_FIELDS_REMOVED, {"id": name, "fields": list(change.removed)}
    for name in found.archived:
        yield names.ITEM_ARCHIVED, {"id": name, "reason": "deleted in the file"}


def _agreed(
    base: Items | None, done: _Merged, file: TrackerFile, after: Items
) -> dict[str, dict[str, Any]]:
    """The new base. Duplicate ids in the file were not merged and keep their old base."""
    held = {name: dict(item) for name, item in (base or {}).items() if name in file.ambiguous}
    return agreed(base, done.store_after, after) | held


def _by_id(given: Iterable[Item]) -> dict[str, Item]:
    items = list(given)
    if (ids := plain_ids(items)) is not None:
        return dict(zip(ids, items, strict=True))
    named = ((id_of(item), item) for item in items)
    return {name: item for name, item in named if name is not None}


def _without(items: Items, names_out: frozenset[str]) -> Items:
    return {k: v for k, v in items.items() if k not in names_out} if names_out else items
