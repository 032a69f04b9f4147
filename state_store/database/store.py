"""`EventStore`: streams of events in one SQLite file, and the items computed from them.

Safe for many threads and processes. Appends of one process share commits. Every completed write is
durable. The store does not know the meaning of events: the caller supplies folds.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self, TypeVar

from state_store.database import snapshot_rows
from state_store.database.connections import Database
from state_store.database.errors import DamagedStoreError, StoreBusyError, translated
from state_store.database.event_rows import COLUMNS, Event, decode_rows, to_event, warn
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, ITEMS_IMPORTED, TRACKER
from state_store.database.integrity import Head, Problem, compare, examine, head, heads
from state_store.database.kept_items import Fold, blocks, every, fetch, one, replace_all, replayed
from state_store.database.leases import Lease, LeaseLostError, LeaseRow
from state_store.database.projections import apply_tracker
from state_store.database.publications import Publication, PublicationBook
from state_store.database.schema import PUBLICATIONS_SINCE, SPEND_SINCE
from state_store.database.spend import SpendBook
from state_store.database.transaction import ConcurrencyConflict, Transaction, drafted, lease_row
from state_store.documents.clock import Clock, SystemClock
from state_store.documents.group_commit import GroupCommit
from state_store.documents.locks import QUEUE_PATIENCE_S

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
_FOLDS: Mapping[str, Fold] = {
    TRACKER: Fold(apply_tracker, ITEM_UPDATED, ITEM_CREATED, ITEMS_IMPORTED)
}


class EventStore:
    """Opens the database, and creates it if it is missing.

    `folds` maps each stream with items to its fold. `busy_timeout_s` is the wait for other programs
    that hold the database, `queue_patience_s` the wait for stopped writers of ours. A forked child
    may continue to use it. Every method may raise CannotRunError, StoreBusyError or
    DamagedStoreError."""

    def __init__(
        self,
        db_path: str | Path,
        *,
        folds: Mapping[str, Fold] = _FOLDS,
        clock: Clock | None = None,
        busy_timeout_s: float = 5.0,
        queue_patience_s: float = QUEUE_PATIENCE_S,
    ) -> None:
        self.path = Path(db_path)
        self.clock = clock or SystemClock()
        self._folds = folds
        self._database = Database(self.path, self._refold, busy_timeout_s, queue_patience_s)
        self._start()
        _stores.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        """Append one event and return its version, which counts from 1 in each stream.

        Joins an open transaction of this thread. Raises ConcurrencyConflict if the stream is not at
        `expected_version`, ValueError or TypeError if the payload is not JSON, and writes nothing.
        """
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

        def job(transaction: Transaction) -> int:
            return transaction.append_drafts(stream, drafts, actor, expected_version)

        if self._database.is_writing:
            assert self._open
            return job(self._open)
        return self._commits.submit(job)

    def append_held(
        self,
        events: Sequence[tuple[str, str, Any]],
        leases: Sequence[Lease],
        actor: str = "system",
        note: Note = lambda: None,
        change: Change = lambda _: None,
    ) -> None:
        """Append (stream, type, payload) events, all or none, if all `leases` are current.

        Shares its commit with other threads, which a `transaction` does not. `note` is called
        after the leases were checked and before anything is written; its TidegateError keeps the
        events out. The folder it returns is flushed before the commit, once for all callers that
        return it. `change` adds to the commit what is no event; it raises nothing of ours. No
        other process writes meanwhile, so both must be quick. Raises LeaseLostError.
        """
        drafts = [(stream, drafted(stream, actor, [(kind, it)])) for stream, kind, it in events]

        def job(transaction: Transaction) -> int:
            for lease in leases:
                transaction.require(lease)
            transaction.flush_at_end(note())
            for stream, draft in drafts:
                transaction.append_drafts(stream, draft, actor, None)
            change(transaction)
            return 0

        self._commits.submit(job)

    def read(self, stream: str, after: int = 0) -> list[Event]:
        """The events of a stream after a version, in order: dicts of `COLUMNS`. Skips an event with
        a damaged payload, with a warning on stderr; `verify` lists them all."""
        return list(self.scan(stream, after))

    def get(self, stream: str) -> list[Event]:
        """All events of a stream, as `read` returns them."""
        return self.read(stream)

    def scan(self, stream: str, after: int = 0) -> Iterator[Event]:
        """Like `read`, with constant memory, for long streams."""
        return self._scanned("stream = ? AND version > ? ORDER BY version", (stream,), after, 6)

    def scan_several(self, streams: Sequence[str], after_id: int = 0) -> Iterator[Event]:
        """The events of some streams after an id, in the order of writing, with constant memory."""
        marks = ", ".join("?" * len(streams))  # `+` keeps SQLite from reading whole streams
        where = f"+stream IN ({marks}) AND id > ? ORDER BY id"
        return self._scanned(where, tuple(streams), after_id, 0)

    def read_all(self, after_id: int = 0) -> list[Event]:
        """The events of all streams after an id, in the order of writing."""
        return list(self._scanned("id > ? ORDER BY id", (), after_id, 0))

    def _scanned(
        self, where: str, given: tuple[str, ...], after: int, column: int
    ) -> Iterator[Event]:
        query = f"SELECT {COLUMNS} FROM events WHERE {where} LIMIT ?"
        with translated(self.path):
            for rows in blocks(self._database.reader(), query, given, after, column=column):
                for row, payload in decode_rows(rows, warn):
                    yield to_event(row, payload)

    @contextmanager
    def transaction(self, lease: Lease | None = None) -> Iterator[Transaction]:
        """A transaction: durable at its end, rolled back after an exception inside.

        Checks the token of `lease` first. Keep the block short, because all other writers wait.
        Raises LeaseLostError.
        """
        with self._session as transaction:
            if lease is not None:
                transaction.require(lease)
            yield transaction

    def joined(self, job: Callable[[Transaction], int]) -> int:
        """Run `job` in a commit shared with other threads, and return its number.

        The job may raise a TidegateError only before its first write.
        """
        return self._commits.submit(job)

    def read_spend(self, look: Callable[[SpendBook], T], nothing: T) -> T:
        """Return `look(spend_table)`; `nothing` if the store has no such table yet."""
        with translated(self.path):
            book = SpendBook(self._database.reader())
            return look(book) if self._database.version >= SPEND_SINCE else nothing

    def publications(self, *, only_open: bool = False) -> tuple[Publication, ...]:
        """All publications, or those with open items, the oldest first."""
        with translated(self.path):
            book, version = PublicationBook(self._database.reader()), self._database.version
            return book.all(only_open=only_open) if version >= PUBLICATIONS_SINCE else ()

    def lease_row(self, resource: str) -> LeaseRow | None:
        """The newest grant on a resource, even if ended; None if there was none."""
        with translated(self.path):
            return lease_row(self._database.reader(), resource)

    def item(self, item_id: str, stream: str = TRACKER) -> dict[str, Any] | None:
        """The item with this id, or None."""
        with translated(self.path):
            return one(self._database.reader(), stream, item_id)

    def items(self, stream: str = TRACKER) -> list[dict[str, Any]]:
        """All items in order of creation."""
        with translated(self.path):
            return [kept.item for _, kept in every(self._database.reader(), stream)]

    def look(self, at: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `at`, a query of this package that does not read all items."""
        with translated(self.path):
            return at(self._database.reader())

    def rebuild_items(self, stream: str = TRACKER) -> int:
        """Rebuild the items from the events, and return their number."""
        with self._database.writing() as connection:
            return self._rebuild(connection, stream)

    def verify(self) -> tuple[Problem, ...]:
        """All faults: links, gaps, payloads, items.

        Only `check_anchor` finds events missing at a stream's end.
        """
        with translated(self.path):
            return tuple(examine(self._database.reader(), self._folds))

    def head(self, stream: str) -> Head:
        """Version and link of a stream's last event, for use as an anchor; (0, "") without
        events."""
        with translated(self.path):
            return head(self._database.reader(), stream)

    def heads(self) -> dict[str, Head]:
        """`head` of every stream."""
        with translated(self.path):
            return heads(self._database.reader())

    def links(self, stream: str) -> dict[int, str]:
        """The link of each event by version. It is the same in every copy of the stream."""
        query = "SELECT version, hash FROM events WHERE stream = ? ORDER BY version"
        with translated(self.path):
            rows = fetch(self._database.reader(), query, (stream,))
        return {version: link.hex() for version, link in rows}

    def check_anchor(self, anchor: Mapping[str, Head]) -> tuple[Problem, ...]:
        """The events in an earlier result of `heads` that are missing or changed."""
        with translated(self.path):
            return tuple(compare(self._database.reader(), anchor))

    def save_snapshot(self, stream: str, event_version: int, projection: Any) -> None:
        """`save_snapshots` for one stream."""
        self.save_snapshots(event_version, {stream: projection})

    def save_snapshots(self, event_version: int, projections: Mapping[str, Any]) -> None:
        """Replace the projections of streams, all or none. Joins an open transaction."""
        saved = {stream: snapshot_rows.snapshot_text(one) for stream, one in projections.items()}
        with nullcontext(self._open) if self._database.is_writing else self._session as transaction:
            assert transaction
            for stream, texts in saved.items():
                transaction.put_snapshot(stream, event_version, *texts)

    def read_snapshot(self, stream: str) -> tuple[int, Any, str] | None:
        """(version, projection, checksum); None if missing, or damaged (with a warning)."""
        with translated(self.path):
            return snapshot_rows.read_snapshot(self._database.reader(), stream)

    def _start_in_child(self) -> None:
        self._database.start_in_child()
        self._start()

    def _start(self) -> None:
        self._open: Transaction | None = None  # of the writing thread
        self._session = _Session(self, self._database)
        self._commits = GroupCommit(lambda: self._session)

    def _refold(self, connection: sqlite3.Connection) -> None:
        for stream in self._folds:
            self._rebuild(connection, stream)

    def _rebuild(self, connection: sqlite3.Connection, stream: str) -> int:
        found = replayed(connection, stream, self._folds[stream], warn)
        replace_all(connection, stream, found)
        return len(found)


class _Session:
    """The context of a transaction. A class, because it is entered for every event."""

    __slots__ = ("_database", "_heads", "_store", "_translated")

    def __init__(self, store: EventStore, database: Database) -> None:
        self._store, self._database = store, database
        self._translated = translated(store.path)
        self._heads: dict[str, tuple[int, bytes]] = {}

    def __enter__(self) -> Transaction:
        store = self._store
        with self._translated:
            connection = self._database.begin()
            try:
                now = store.clock.now()
                store._open = Transaction(connection, store._folds, now, self._heads)
            except BaseException:
                self._database.end(good=False)
                raise
        return store._open

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        done, self._store._open = self._store._open, None
        with self._translated:
            try:
                if error is None and done and done.folders:
                    done.flush()
            except BaseException:
                self._database.end(good=False)
                raise
            self._database.end(good=error is None)
        self._translated.__exit__(kind, error, trace)
        if error is None and done:
            self._heads = done.heads


_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()


def _start_in_child() -> None:
    for store in _stores:
        store._start_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
