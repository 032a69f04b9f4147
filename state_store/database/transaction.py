"""`Transaction`: appends events, updates items, grants and checks leases, all or none.

`connections` opens, queues and commits.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.archives.chain import START, row_hash
from state_store.database import item_blocks
from state_store.database.event_rows import decode, encode, to_event
from state_store.database.events import TRACKER
from state_store.database.integrity import last_id
from state_store.database.kept_items import Fold, create, create_all, fetch, keep, one
from state_store.database.leases import Lease, LeaseRow, required
from state_store.database.publications import PublicationBook
from state_store.database.schema import INSERT_EVENT, INSERT_EVENT_AT
from state_store.database.spend import SpendBook
from state_store.documents.clock import Clock, Instant
from state_store.documents.errors import TidegateError
from state_store.documents.files import sync_folder
from state_store.documents.item_id import id_of
from state_store.redaction.installed import redacted, redacted_value
from state_store.sql.connection import Connection, Connections
from state_store.sql.unshipped import UnshippedBook

Draft = tuple[str, str, str | None]  # type, payload as JSON, the id in the payload
Head = tuple[int, bytes]  # version, link
_MANY = 1_000
NO_HEADS: Mapping[str, Head] = {}


class ConcurrencyConflict(TidegateError):
    """The stream is not at the expected version. Nothing was written."""

    def __init__(self, expected_version: int, actual_version: int) -> None:
        self.expected_version, self.actual_version = expected_version, actual_version
        super().__init__(
            f"expected version {expected_version} of the stream, it is at {actual_version}; "
            f"read it again and decide again"
        )


def drafted(stream: str, actor: str, events: Sequence[tuple[str, Any]]) -> list[Draft]:
    """Encode events for writing. Raises ValueError or TypeError for events that are not
    storable."""
    drafts = []
    for kind, payload in events:
        "".join((stream, actor, kind)).encode("utf-8")  # raises for half a surrogate pair
        key = id_of(payload) if isinstance(payload, dict) else None
        text = encode(payload)
        if stream != TRACKER:  # its items are texts of the user, whose file keeps them as they are
            shown = redacted(text)
            text = text if shown == text else encode(redacted_value(payload))
        drafts.append((kind, text, key))
    return drafts


def lease_row(connection: Connection, resource: str) -> LeaseRow | None:
    """The newest grant on a resource, also when it is over; None when there was none."""
    row = connection.execute(
        "SELECT resource, token, holder, boot_id, expires_at, expires_wall, ttl "
        "FROM leases WHERE resource = ?",
        (resource,),
    ).fetchone()
    return LeaseRow(*row) if row else None


def snapshot_text(projection: Any) -> tuple[str, str]:
    """A projection as JSON, and its checksum. Raises ValueError or TypeError if it is not JSON."""
    text = json.dumps(projection, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text, _checksum(text)


def read_snapshot(connection: Connection, stream: str) -> tuple[int, Any, str] | None:
    """(version, projection, checksum); None if missing, or damaged (with a warning)."""
    query = (
        "SELECT event_version, projection, checksum FROM snapshots WHERE stream = ? "
        "ORDER BY id DESC LIMIT 1"
    )
    for version, text, checksum in fetch(connection, query, (stream,)):
        try:
            if _checksum(text) == checksum:
                return version, decode(text), checksum
        except (ValueError, RecursionError):
            pass
        sys.stderr.write(f"WARNING: the snapshot of stream {stream} is damaged and is not used\n")
    return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Transaction:
    """An open transaction of the store. All its changes get the time `now`."""

    def __init__(
        self,
        connection: Connection,
        folds: Mapping[str, Fold],
        now: Instant,
        guesses: Mapping[str, Head] = NO_HEADS,
        next_token: Callable[[Connection, int], int] = lambda _, newest: newest + 1,
    ) -> None:
        """`guesses` are the heads after this process's last commit, and nobody archived since.

        A guess saves a lookup for each append. An outdated guess fails at an existing row, before
        any write, so a guess must never be ahead of the last commit.
        """
        self.now = now
        self.heads: dict[str, Head] = {}
        self.folders: tuple[Path, ...] = ()
        self._ids: dict[str, set[str]] = {}  # of streams with imported items
        self._guesses = guesses
        self._connection = connection
        self._folds = folds
        self._next_token = next_token

    def append(
        self,
        stream: str,
        event_type: str,
        payload: Any,
        actor: str = "system",
        expected_version: int | None = None,
    ) -> int:
        """Append one event and return its version. Raises as `EventStore.append`."""
        drafts = drafted(stream, actor, [(event_type, payload)])
        return self.append_drafts(stream, drafts, actor, expected_version)

    def append_drafts(
        self, stream: str, drafts: Sequence[Draft], actor: str, expected_version: int | None
    ) -> int:
        """Append drafts and return the last version. Raises ConcurrencyConflict before any
        write."""
        head = None
        if expected_version is None and stream not in self.heads:
            head = self._guesses.get(stream)
        if head is not None:
            try:
                return self._write(stream, drafts, actor, head)
            except sqlite3.IntegrityError:
                pass  # another process has written; the next line reads the head
        head = self._head(stream)
        if expected_version is not None and expected_version != head[0]:
            raise ConcurrencyConflict(expected_version, head[0])
        return self._write(stream, drafts, actor, head)

    def _write(self, stream: str, drafts: Sequence[Draft], actor: str, head: Head) -> int:
        fold = self._folds.get(stream)
        rows = self._rows(stream, drafts, actor, head)
        if fold and len(drafts) >= _MANY and self._are_first_items(stream, drafts, fold):
            first = last_id(self._connection)
            self._connection.executemany(INSERT_EVENT, rows)
            keys = ((key, payload) for _, payload, key in drafts if key)
            create_all(self._connection, stream, first + 1, head[0] + 1, keys)
            return self.heads[stream][0]
        for (kind, payload, key), row in zip(drafts, rows, strict=True):
            if fold and kind == fold.imports:
                imported = decode(payload)
                if ids := item_blocks.ids_of(imported):
                    self._import(fold, row, imported, ids)
                    continue
            written = self._connection.execute(INSERT_EVENT, row)
            if fold is not None and key is not None:
                self._ids.pop(stream, None)
                self._apply(fold, (written.lastrowid or 0, *row), key)
        return self.heads[stream][0]

    def _apply(self, fold: Fold, row: tuple[Any, ...], key: str) -> None:
        """Change the item of an event; `row` has the event's id first."""
        position, _, _, stream, kind, payload, version, *_ = row
        if kind != fold.creates or not create(
            self._connection, stream, position, version, key, payload
        ):
            keep(self._connection, fold, to_event(row, decode(payload)), key)

    def _import(self, fold: Fold, row: tuple[Any, ...], payload: Any, ids: list[str]) -> None:
        """Write an event that creates many items, whose id leaves a position for each of them. They
        become a block, unless some of them are there already."""
        ts, actor, stream, _, _, version, _ = row
        last = last_id(self._connection) + len(ids)
        self._connection.execute(INSERT_EVENT_AT, (last, *row))
        if stream not in self._ids:
            self._ids[stream] = item_blocks.all_ids(self._connection, stream)
        if self._ids[stream].isdisjoint(ids):
            item_blocks.add(self._connection, stream, last, version, payload)
        else:
            for position, item in item_blocks.expanded(payload, last):
                made = (position, ts, actor, stream, fold.creates, encode(item), version)
                self._apply(fold, made, item["id"])
        self._ids[stream].update(ids)

    def _rows(
        self, stream: str, drafts: Sequence[Draft], actor: str, head: Head
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of drafts, each linked to the row before it. The last one is the new head."""
        version, link = head
        for kind, payload, _ in drafts:
            version += 1
            row = (self.now.wall_s, actor, stream, kind, payload, version)
            link = row_hash(link, row)
            yield *row, link
        self.heads[stream] = (version, link)

    def _are_first_items(self, stream: str, drafts: Sequence[Draft], fold: Fold) -> bool:
        """True if the drafts create different items of a stream that has none. Such a tracker is
        long, so it is written without a call for each row."""
        keys = {key for kind, _, key in drafts if kind == fold.creates}
        if len(keys) < len(drafts) or None in keys:
            return False
        query = (
            "SELECT 1 FROM items WHERE stream = ?1 "
            "UNION ALL SELECT 1 FROM item_blocks WHERE stream = ?1 LIMIT 1"
        )
        return self._connection.execute(query, (stream,)).fetchone() is None

    def version(self, stream: str) -> int:
        """The version of the stream's last event; 0 without events."""
        return self._head(stream)[0]

    def item(self, item_id: str, stream: str = "tracker") -> dict[str, Any] | None:
        """The present item, with the changes of this transaction."""
        return one(self._connection, stream, item_id)

    def lease_row(self, resource: str) -> LeaseRow | None:
        """The newest grant on a resource, also when it is over; None when there was none."""
        return lease_row(self._connection, resource)

    def next_token(self, before: LeaseRow | None) -> int:
        """The token of a new grant, above all earlier ones of its resource."""
        return self._next_token(self._connection, before.token if before else 0)

    def put_lease(self, row: LeaseRow) -> None:
        """Store `row` as the newest grant on its resource."""
        self._connection.execute(
            "INSERT INTO leases(resource, token, holder, boot_id, expires_at, expires_wall, ttl) "
            "VALUES(?,?,?,?,?,?,?) ON CONFLICT(resource) DO UPDATE SET token = excluded.token, "
            "holder = excluded.holder, boot_id = excluded.boot_id, "
            "expires_at = excluded.expires_at, expires_wall = excluded.expires_wall, "
            "ttl = excluded.ttl",
            (row.resource, row.token, row.holder, row.boot_id,
             row.expires_at, row.expires_wall, row.ttl),
        )  # fmt: skip

    def put_snapshot(self, stream: str, event_version: int, text: str, checksum: str) -> None:
        """Keep a projection, as `snapshot_text` gives it, in place of older ones."""
        self._connection.execute("DELETE FROM snapshots WHERE stream = ?", (stream,))
        self._connection.execute(
            "INSERT INTO snapshots(ts, stream, event_version, projection, checksum) "
            "VALUES(?,?,?,?,?)",
            (self.now.wall_s, stream, event_version, text, checksum),
        )

    @property
    def connection(self) -> Connection:
        """The connection, for the work of `gc` on archives."""
        return self._connection

    @property
    def spend(self) -> SpendBook:
        """The spend table, for changes in this transaction."""
        return SpendBook(self._connection)

    @property
    def publications(self) -> PublicationBook:
        """Batches of commits on their way, to be changed within this transaction."""
        return PublicationBook(self._connection)

    @property
    def unshipped(self) -> UnshippedBook:
        """Work that other machines can go on with, to be changed within this transaction."""
        return UnshippedBook(self._connection)

    def require(self, lease: Lease) -> LeaseRow:
        """Check that `lease` still has the current token; return its row. Raises LeaseLostError."""
        return required(self.lease_row(lease.resource), lease)

    def flush_at_end(self, folder: Path | None) -> None:
        """Flush `folder` before the commit, so that its renames are durable too."""
        if folder is not None and folder not in self.folders:
            self.folders += (folder,)

    def flush(self) -> None:
        """Flush the folders of `flush_at_end`. Raises CannotRunError."""
        for folder in self.folders:
            sync_folder(folder)

    def _head(self, stream: str) -> Head:
        known = self.heads.get(stream)
        if known is None:
            row = self._connection.execute(
                "SELECT version, hash FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1",
                (stream,),
            ).fetchone()
            known = self.heads[stream] = row or (0, START)
        return known


class Session:
    """The context of a transaction. A class, because it is entered for every event."""

    __slots__ = ("_clock", "_database", "_folds", "_heads", "open")

    def __init__(self, database: Connections, folds: Mapping[str, Fold], clock: Clock) -> None:
        self._database, self._folds, self._clock = database, folds, clock
        self._heads: Mapping[str, Head] = NO_HEADS
        self.open: Transaction | None = None  # of the writing thread

    def __enter__(self) -> Transaction:
        database = self._database
        with database.translated:
            connection = database.begin()
            try:
                now = self._clock.now()
                if not database.guesses_hold:
                    self._heads = NO_HEADS
                tokens = database.next_token
                opened = Transaction(connection, self._folds, now, self._heads, tokens)
                self.open = opened
            except BaseException:
                database.end(good=False)
                raise
        return opened

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        done, self.open = self.open, None
        with self._database.translated:
            try:
                if error is None and done and done.folders:
                    done.flush()
            except BaseException:
                self._database.end(good=False)
                raise
            self._database.end(good=error is None)
        if error is not None:
            self._database.translated.__exit__(kind, error, trace)
        elif done:
            self._heads = done.heads
