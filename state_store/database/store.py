"""`EventStore`: streams of events in one database, and the items computed from them.

`interface.Store` says what callers may ask. The database is a SQLite file, or what a subclass puts
below the tables. Safe for many threads and processes. The caller supplies the meaning of events.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self, TypeVar

from state_store.archives.reading import with_archived
from state_store.database import integrity, kept_items
from state_store.database.connections import Database
from state_store.database.errors import DamagedStoreError, StoreBusyError
from state_store.database.event_rows import COLUMNS, Event, decode_rows, to_event, warn
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, ITEMS_IMPORTED, TRACKER
from state_store.database.integrity import Head, Problem, compare, examine, head, heads, links
from state_store.database.kept_items import Fold, blocks, every, one, replace_all, replayed
from state_store.database.leases import Lease, LeaseLostError, LeaseRow
from state_store.database.projections import apply_tracker
from state_store.database.publications import Publication, PublicationBook
from state_store.database.schema import PUBLICATIONS_SINCE, SPEND_SINCE
from state_store.database.spend import SpendBook
from state_store.database.transaction import (
    ConcurrencyConflict,
    Draft,
    Session,
    Transaction,
    drafted,
    lease_row,
    read_snapshot,
    snapshot_text,
)
from state_store.documents.clock import Clock, SystemClock
from state_store.documents.group_commit import GroupCommit
from state_store.documents.locks import QUEUE_PATIENCE_S
from state_store.sql.addresses import HaltsAsFiles
from state_store.sql.connection import Connection, Connections, writing
from state_store.sql.unshipped import NoneUnshipped

__all__ = [
    "ConcurrencyConflict",
    "DamagedStoreError",
    "EventStore",
    "LeaseLostError",
    "Problem",
    "StoreBusyError",
    "Transaction",
]

T = TypeVar("T")
Note = Callable[[], Path | None]
Change = Callable[[Transaction], None]
FOLDS = {TRACKER: Fold(apply_tracker, ITEM_UPDATED, ITEM_CREATED, ITEMS_IMPORTED)}


class EventStore(HaltsAsFiles, NoneUnshipped):
    """Opens or creates the database; a forked child may use it. `folds` has the fold of each stream
    of items. Waits: `busy_timeout_s` for other programs, `queue_patience_s` for stopped writers."""

    def __init__(
        self,
        db_path: str | Path,
        *,
        folds: Mapping[str, Fold] = FOLDS,
        clock: Clock | None = None,
        busy_timeout_s: float = 5.0,
        queue_patience_s: float = QUEUE_PATIENCE_S,
    ) -> None:
        self.path, self._folds = Path(db_path), folds
        database = Database(self.path, self._refold, busy_timeout_s, queue_patience_s)
        self._use(database, clock or SystemClock())

    def _use(self, database: Connections, clock: Clock) -> None:
        """Put connections below the tables."""
        self._database, self.clock = database, clock
        self._start()
        _stores.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> str:
        """Nothing: no other folder shares the file."""
        return ""

    def close(self) -> None:
        """Close the connections of this process. A later use opens new connections."""
        self._database.close()

    def append(
        self,
        stream: str,
        event_type: str,
        payload: Any,
        actor: str = "system",
        expected_version: int | None = None,
    ) -> int:
        """Append one event and return its version, which counts from 1. Joins an open transaction.
        Raises ConcurrencyConflict, and ValueError or TypeError if the payload is not JSON."""
        return self.append_many(stream, ((event_type, payload),), actor, expected_version)

    def append_many(
        self,
        stream: str,
        events: Sequence[tuple[str, Any]],
        actor: str = "system",
        expected_version: int | None = None,
    ) -> int:
        """Append (type, payload) events, all or none, and return the stream's last version."""
        drafts = drafted(stream, actor, events)
        if self._database.is_writing:
            assert self._session.open
            return self._session.open.append_drafts(stream, drafts, actor, expected_version)
        return self._appended(stream, drafts, actor, expected_version)

    def _appended(self, stream: str, drafts: list[Draft], actor: str, wanted: int | None) -> int:
        """Append drafts in a commit shared with other threads."""
        return self.joined(lambda open_: open_.append_drafts(stream, drafts, actor, wanted))

    def append_held(
        self,
        events: Sequence[tuple[str, str, Any]],
        leases: Sequence[Lease],
        actor: str = "system",
        note: Note = lambda: None,
        change: Change = lambda _: None,
    ) -> None:
        """Append (stream, type, payload) events, all or none, if all `leases` are current. Shares
        its commit with other threads, which a `transaction` does not. `note` is called after the
        leases were checked and before anything is written; its TidegateError keeps the events out.
        The folder it returns is flushed before the commit, once for all callers that return it.
        `change` adds to the commit what is no event; it raises nothing of ours. No other process
        writes meanwhile, so both must be quick. Raises LeaseLostError."""
        drafts = [(stream, drafted(stream, actor, [(kind, it)])) for stream, kind, it in events]
        noted: list[Path | None] = []  # once, also if the job runs again

        def job(transaction: Transaction) -> int:
            for lease in leases:
                transaction.require(lease)
            noted[:] = noted or [note()]
            transaction.flush_at_end(noted[0])
            for stream, draft in drafts:
                transaction.append_drafts(stream, draft, actor, None)
            change(transaction)
            return 0

        self.joined(job)

    def read(self, stream: str, after: int = 0) -> list[Event]:
        """The events of a stream after a version, in order: dicts of `COLUMNS`. Warns on stderr of
        an event with a damaged payload, and skips it."""
        return list(self.scan(stream, after))

    def get(self, stream: str) -> list[Event]:
        """All events of a stream, as `read` returns them."""
        return self.read(stream)

    def scan(self, stream: str, after: int = 0) -> Iterator[Event]:
        """Like `read`, with constant memory, for long streams."""
        return self._scanned("stream = ? AND version > ? ORDER BY version", (stream,), after, 6)

    def scan_several(self, streams: Sequence[str], after_id: int = 0) -> Iterator[Event]:
        """The events of some streams after an id, in the order of writing, with constant memory."""
        marks = ", ".join("?" * len(streams))  # `||` keeps SQLite from reading whole streams
        where = f"stream || '' IN ({marks}) AND id > ? ORDER BY id"
        return self._scanned(where, tuple(streams), after_id, 0)

    def read_all(self, after_id: int = 0) -> list[Event]:
        """The events of all streams after an id, in the order of writing."""
        return list(self._scanned("id > ? ORDER BY id", (), after_id, 0))

    def _scanned(self, where: str, given: tuple[str, ...], after: int, by: int) -> Iterator[Event]:
        query = f"SELECT {COLUMNS} FROM events WHERE {where} LIMIT ?"
        with self._database.translated:
            reader, archives = self._database.reader(), self._database.archives
            found = blocks(reader, query, given, after, column=by)
            for rows in with_archived(found, reader, archives, given or None, after, by):
                for row, payload in decode_rows(rows, warn):
                    yield to_event(row, payload)

    def wait(self, timeout_s: float) -> None:
        """Return when there may be new events, at the latest after a time."""
        self._database.wait(timeout_s)

    @contextmanager
    def transaction(self, lease: Lease | None = None) -> Iterator[Transaction]:
        """A transaction: durable at its end, rolled back after an exception inside. Checks the
        token of `lease` first. All other writers wait. Raises LeaseLostError."""
        with self._session as transaction:
            if lease is not None:
                transaction.require(lease)
            yield transaction

    def joined(self, job: Callable[[Transaction], int]) -> int:
        """Run `job` in a commit shared with other threads, and return its number. It may raise a
        TidegateError only before its first write."""
        return self._database.repeated(lambda: self._commits.submit(job))

    def read_spend(self, look: Callable[[SpendBook], T], nothing: T) -> T:
        """Return `look(spend_table)`; `nothing` if the store has no such table yet."""
        with self._database.translated:
            book = SpendBook(self._database.reader())
            return look(book) if self._database.version >= SPEND_SINCE else nothing

    def publications(
        self, *, only_open: bool = False, commits: Collection[str] | None = None
    ) -> tuple[Publication, ...]:
        """All publications, or those with open items or with one of `commits`, the oldest first."""
        with self._database.translated:
            if self._database.version < PUBLICATIONS_SINCE:
                return ()
            book = PublicationBook(self._database.reader())
            return book.all(only_open=only_open, commits=commits)

    def publication_tips(self) -> frozenset[str]:
        """The last commits of all publications."""
        with self._database.translated:
            return PublicationBook(self._database.reader()).tips()

    def lease_row(self, resource: str) -> LeaseRow | None:
        """The newest grant on a resource, even if ended; None if there was none."""
        with self._database.translated:
            return lease_row(self._database.reader(), resource)

    def item(self, item_id: str, stream: str = TRACKER) -> dict[str, Any] | None:
        """The item with this id, or None."""
        with self._database.translated:
            return one(self._database.reader(), stream, item_id)

    def items(self, stream: str = TRACKER) -> list[dict[str, Any]]:
        """All items in order of creation."""
        with self._database.translated:
            return [kept.item for _, kept in every(self._database.reader(), stream)]

    def items_with(self, field: str, value: Any = None, stream: str = TRACKER) -> list[Any]:
        """The items with a field, and with this value unless it is None. Fast for few."""
        with self._database.translated:
            return kept_items.having(self._database.reader(), stream, field, value)

    def changed_items(self, version: int, stream: str = TRACKER) -> Iterator[tuple[int, Any]]:
        """The items of events after a version, each with its position in order of creation."""
        with self._database.translated:
            yield from kept_items.changed_since(self._database.reader(), stream, version)

    @property
    def connections(self) -> Connections:
        """The connections below the tables, for the work of `gc`."""
        return self._database

    def rebuild_items(self, stream: str = TRACKER) -> int:
        """Rebuild the items from the events, and return their number."""
        with writing(self._database) as connection:
            return self._rebuild(connection, stream)

    def verify(self) -> tuple[Problem, ...]:
        """All faults but events missing at a stream's end, which `check_anchor` finds."""
        with self._database.translated:
            return tuple(examine(self._database, self._folds))

    def head(self, stream: str) -> Head:
        """Version and link of a stream's last event, an anchor; (0, "") without events."""
        with self._database.translated:
            return head(self._database.reader(), stream)

    def heads(self) -> dict[str, Head]:
        """`head` of every stream."""
        with self._database.translated:
            return heads(self._database.reader())

    def last_id(self) -> int:
        """The id of the last event of all streams; 0 without events."""
        with self._database.translated:
            return integrity.last_id(self._database.reader())

    def streams_since(self, after_id: int, prefix: str) -> list[str]:
        """The streams with this prefix that have events after an id."""
        with self._database.translated:
            return integrity.streams_since(self._database.reader(), after_id, prefix)

    def links_of(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The links of events by stream and version; a missing event has none."""
        with self._database.translated:
            return integrity.links_of(self._database.reader(), places, self._database.archives)

    def links(self, stream: str) -> dict[int, str]:
        """The link of each event by version. It is the same in every copy of the stream."""
        with self._database.translated:
            return links(self._database.reader(), stream, self._database.archives)

    def check_anchor(self, anchor: Mapping[str, Head]) -> tuple[Problem, ...]:
        """The events in an earlier result of `heads` that are missing or changed."""
        with self._database.translated:
            return tuple(compare(self._database.reader(), anchor, self._database.archives))

    def save_snapshot(self, stream: str, event_version: int, projection: Any) -> None:
        """`save_snapshots` for one stream."""
        self.save_snapshots(event_version, {stream: projection})

    def save_snapshots(self, event_version: int, projections: Mapping[str, Any]) -> None:
        """Replace the projections of streams, all or none. Joins an open transaction."""
        saved = {stream: snapshot_text(one) for stream, one in projections.items()}
        joined = nullcontext(self._session.open) if self._database.is_writing else self._session
        with joined as transaction:
            assert transaction
            for stream, texts in saved.items():
                transaction.put_snapshot(stream, event_version, *texts)

    def read_snapshot(self, stream: str) -> tuple[int, Any, str] | None:
        """(version, projection, checksum); None if missing, or damaged (with a warning)."""
        with self._database.translated:
            return read_snapshot(self._database.reader(), stream)

    def _start_in_child(self) -> None:
        self._database.start_in_child()
        self._start()

    def _start(self) -> None:
        self._session = Session(self._database, self._folds, self.clock)
        self._commits = GroupCommit(lambda: self._session)

    def _refold(self, connection: Connection) -> None:
        for stream in self._folds:
            self._rebuild(connection, stream)

    def _rebuild(self, connection: Connection, stream: str) -> int:
        found = replayed(connection, stream, self._folds[stream], warn)
        replace_all(connection, stream, found)
        return len(found)


_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()


def _start_in_child() -> None:
    for store in _stores:
        store._start_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
