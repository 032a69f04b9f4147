"""Copies a store, checks the copy, and shows it to other programs only then.

Events come first, in the order of their ids, some thousand in a transaction. So a copy that was
killed goes on after the last event that it wrote. The other tables come in one transaction. The
source is only read, as it was at one moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from state_store.archives.examination import examine_archives
from state_store.archives.reading import with_archived
from state_store.database.integrity import examine, heads, last_id
from state_store.database.leases import LeaseRow
from state_store.database.store import FOLDS
from state_store.documents.errors import CannotRunError, InputError, StoppedByPolicyError
from state_store.moving.ends import End, Source, Target
from state_store.sql.tables import EVENTS, LEASES, OTHERS, SNAPSHOTS, Table, blocks_of, count_of
from state_store.values.lazy_dataclass import dataclass

Row = tuple[Any, ...]
Rename = Callable[[str], str]
_BATCH = 5_000  # events in a transaction
_BASES = ("tracker_base:", "tracker_base_changes:", "tracker_seen:")
_STREAM = 2  # the column of a snapshot with its name


@dataclass(frozen=True, slots=True)
class Copied:
    """A finished copy: the number of rows by table. `resumed` if an earlier copy had begun it,
    `already` if it had even ended."""

    rows: dict[str, int]
    resumed: bool = False
    already: bool = False


def copy(source: Source, target: Target, *, strip: str = "", add: str = "") -> Copied:
    """Copy everything. The names of tracker bases lose the prefix `strip` and get the prefix `add`:
    a store of many machines has the bases of many state folders.

    Raises InputError if the target has rows of another store, StoppedByPolicyError if a run has
    leases in the source, CannotRunError if source or copy is not sound.
    """
    with source.translated, target.translated:
        return _copied(source, target, _renamer(strip, add))


def _copied(source: Source, target: Target, rename: Rename) -> Copied:
    _require_rest(source)
    _require_archives(source)
    is_begun = target.is_begun
    if not is_begun and target.has_rows:
        return _already(source, target, rename)
    target.begin()
    _copy_events(source, target)
    _copy_others(source, target, rename)
    rows = _compared(source, target, rename)
    seen = last_id(source.reader())
    source.renewed()
    _require_rest(source)
    if last_id(source.reader()) != seen:
        raise StoppedByPolicyError(
            f"{source.name} was written meanwhile; run again, which copies the rest"
        )
    if reason := source.halt_reason():
        target.put_halt(reason)
    target.finish()
    return Copied(rows, resumed=is_begun)


def _require_rest(source: Source) -> None:
    """Raise StoppedByPolicyError while a run has leases."""
    now = source.now()
    query = f"SELECT {LEASES.columns} FROM {LEASES.name} WHERE holder IS NOT NULL"
    for row in (LeaseRow(*found) for found in source.reader().execute(query).fetchall()):
        if row.held_at(now):
            left = max(row.expires_wall - now.wall_s, 0)
            raise StoppedByPolicyError(
                f"{row.holder} works on {row.resource} for at most {left:.0f} s from now; copy "
                "after the end of all runs"
            )


def _require_archives(source: Source) -> None:
    """Raise CannotRunError if events of an archive are not there."""
    found = examine_archives(source.reader(), source.archives) if source.archives else iter(())
    for _, why in found:
        raise CannotRunError(f"{source.name} is not whole: {why}")


def _already(source: Source, target: Target, rename: Rename) -> Copied:
    """The answer for a target that other programs see: an earlier copy may have ended there."""
    if heads(source.reader()) == heads(target.reader()):
        try:
            return Copied(_compared(source, target, rename), already=True)
        except CannotRunError:
            pass
    raise InputError(
        f"{target.name} has rows of another store already; copy into an empty one, or remove it"
    )


def _copy_events(source: Source, target: Target) -> None:
    after = last_id(target.reader())
    if after and not _has_same(source, target, after):
        target.start_over()
        after = 0
    batch: list[Row] = []
    for rows in _events_after(source, after):
        batch += rows
        if len(batch) >= _BATCH:
            with target.transaction():
                target.put(EVENTS, batch)
            batch = []
    with target.transaction():
        target.put(EVENTS, batch)


def _has_same(source: Source, target: Target, event_id: int) -> bool:
    """True if both have this event, and so all before it in its stream. The comparison at the end
    would find another stream that differs."""
    query = f"SELECT {EVENTS.columns} FROM events WHERE id = ?"
    there = target.reader().execute(query, (event_id,)).fetchone()
    here = next(iter(_events_after(source, event_id - 1)), [None])[0]
    return here is not None and _plain(there) == _plain(here)


def _events_after(source: Source, after: int) -> Iterator[list[Row]]:
    """The events after an id, those of archives too, some at a time."""
    reader = source.reader()
    with source.translated:
        found = blocks_of(reader, EVENTS, after)
        yield from with_archived(found, reader, source.archives, None, after, 0)


def _copy_others(source: Source, target: Target, rename: Rename) -> None:
    with target.transaction():
        for table in OTHERS:
            target.clear(table)
            for rows in _rows(source, table, rename):
                target.put(table, rows)
        found = target.reader().execute("SELECT MAX(token) FROM leases").fetchone()[0]
        target.count_on([table for table in OTHERS if table.counts], found or 0)


def _rows(end: End, table: Table, rename: Rename) -> Iterator[list[Row]]:
    if not end.has(table):
        return
    with end.translated:
        for rows in blocks_of(end.reader(), table):
            if table is SNAPSHOTS:
                yield [(*row[:_STREAM], rename(row[_STREAM]), *row[_STREAM + 1 :]) for row in rows]
            else:
                yield rows


def _compared(source: Source, target: Target, rename: Rename) -> dict[str, int]:
    """The number of rows by table. Raises CannotRunError for the first fault that the checks of
    both stores or the comparison of their rows find."""
    for end in (source, target):
        with end.translated:
            if problem := next(examine(end, FOLDS), None):
                why = f"{end.name} is not sound: {problem}"
                raise CannotRunError(f"{why}; see `tidegate verify-state`")
    if heads(source.reader()) != heads(target.reader()):
        raise CannotRunError(f"{target.name} lacks events of {source.name}; run again")
    counts = {EVENTS.name: count_of(target.reader(), EVENTS)}
    for table in OTHERS:
        here, there = _digest(source, table, rename), _digest(target, table, str)
        if here != there:
            raise CannotRunError(f"table {table.name} of {target.name} differs; run again")
        counts[table.name] = here[0]
    return counts


def _digest(end: End, table: Table, rename: Rename) -> tuple[int, str]:
    """The number of rows and a hash of them. The kinds of databases differ in flags and keys."""
    found, count = hashlib.sha256(), 0
    for rows in _rows(end, table, rename):
        count += len(rows)
        for row in rows:
            found.update(repr(_plain(row)).encode("utf-8", "surrogatepass"))
    return count, found.hexdigest()


def _plain(row: Sequence[Any]) -> Row:
    return tuple(int(value) if isinstance(value, bool) else value for value in row)


def _renamer(strip: str, add: str) -> Rename:
    def renamed(name: str) -> str:
        for base in _BASES:
            if name.startswith(base):
                return base + add + name.removeprefix(base).removeprefix(strip)
        return name

    return renamed
