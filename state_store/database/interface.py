"""`Store` is all that the engine asks of a store; tests/contracts/test_store.py says the same.

`EventStore` keeps it in a SQLite file. Another kind of store derives from it, or fulfils `Store` by
its own means, and passes the same tests. No caller knows which kind it has.

What every store promises:

- A write that returned is durable. A write that raised a TidegateError changed nothing.
- The events of a stream are numbered from 1 without a gap. The ids of all events rise in the order
  of their commits, so a reader that remembers the last id misses none.
- Transactions have an order, and each sees all before it. So a token that was current when an
  effect was written is the newest of its resource in that order.
- Leases end by one clock, `clock`, however many machines share the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from state_store.database.event_rows import Event
from state_store.database.events import TRACKER
from state_store.database.integrity import Head, Problem
from state_store.database.leases import Lease, LeaseRow
from state_store.database.publications import Publication, PublicationBook
from state_store.database.spend import SpendBook
from state_store.documents.clock import Clock, Instant
from state_store.sql.addresses import HaltRow
from state_store.sql.unshipped import UnshippedBook

T = TypeVar("T")
Item = dict[str, Any]
Note = Callable[[], Path | None]


class StoreAccess(Protocol):
    """Both a store and a transaction do this. A transaction sees its own changes."""

    def append(
        self,
        stream: str,
        event_type: str,
        payload: Any,
        actor: str = ...,
        expected_version: int | None = ...,
    ) -> int:
        """Append one event and return its version. A store joins an open transaction of this
        thread. Raises ConcurrencyConflict if the stream is not at `expected_version`, ValueError or
        TypeError if the payload is not JSON."""

    def item(self, item_id: str, stream: str = ...) -> Item | None:
        """The present item with this id, or None."""

    def lease_row(self, resource: str) -> LeaseRow | None:
        """The newest grant on a resource, even if ended; None if there was none."""


class StoreTransaction(StoreAccess, Protocol):
    """An open transaction: its changes come all or none, and have the time `now`."""

    @property
    def now(self) -> Instant:
        """The store's time at the begin."""

    @property
    def spend(self) -> SpendBook:
        """Reservations and charges."""

    @property
    def publications(self) -> PublicationBook:
        """Batches of commits on their way."""

    @property
    def unshipped(self) -> UnshippedBook:
        """Work that other machines can go on with. Only for a store with a `folder`."""

    def version(self, stream: str) -> int:
        """The version of the stream's last event; 0 without events."""

    def next_token(self, before: LeaseRow | None) -> int:
        """The token of a new grant, above all earlier ones of its resource."""

    def put_lease(self, row: LeaseRow) -> None:
        """Store `row` as the newest grant on its resource."""

    def require(self, lease: Lease) -> LeaseRow:
        """Check that `lease` still has the current token; return its row. Raises LeaseLostError."""


Change = Callable[[StoreTransaction], None]


class Store(StoreAccess, Protocol):
    """Events, items, leases, reservations and spend, publications and snapshots.

    Every method may raise CannotRunError, StoreBusyError and DamagedStoreError. `path` names the
    store beside the files of its state folder, also where the rows are elsewhere."""

    @property
    def path(self) -> Path:
        """The place of the store in its state folder."""

    @property
    def folder(self) -> str:
        """A prefix for what belongs to this state folder alone; "" if no other shares the rows."""

    @property
    def clock(self) -> Clock:
        """The clock that decides about leases."""

    def close(self) -> None:
        """Close the connections of this process. A later use opens new connections."""

    # Events

    def append_many(
        self,
        stream: str,
        events: Sequence[tuple[str, Any]],
        actor: str = ...,
        expected_version: int | None = ...,
    ) -> int:
        """Append (type, payload) events, all or none, and return the stream's last version."""

    def append_held(
        self,
        events: Sequence[tuple[str, str, Any]],
        leases: Sequence[Lease],
        actor: str = ...,
        note: Note = ...,
        change: Change = ...,
    ) -> None:
        """Append (stream, type, payload) events, all or none, if all `leases` are current.

        `note` is called after the leases were checked and before anything is written; the folder
        that it returns is flushed before the commit. `change` adds what is no event."""

    def transaction(self, lease: Lease | None = ...) -> AbstractContextManager[StoreTransaction]:
        """A transaction that first checks the token of `lease`. All other writers wait."""

    def joined(self, job: Callable[[StoreTransaction], int]) -> int:
        """Run `job` in a commit shared with other threads, and return its number."""

    def read(self, stream: str, after: int = ...) -> list[Event]:
        """The events of a stream after a version, in order."""

    def get(self, stream: str) -> list[Event]:
        """All events of a stream, as `read` returns them."""

    def scan(self, stream: str, after: int = ...) -> Iterator[Event]:
        """Like `read`, with constant memory."""

    def scan_several(self, streams: Sequence[str], after_id: int = ...) -> Iterator[Event]:
        """The events of some streams after an id, in the order of writing."""

    def read_all(self, after_id: int = ...) -> list[Event]:
        """The events of all streams after an id, in the order of writing."""

    def wait(self, timeout_s: float) -> None:
        """Return when there may be new events, at the latest after a time."""

    # Items, leases, spend, publications

    def items(self, stream: str = ...) -> list[Item]:
        """All items in order of creation."""

    def items_with(self, field: str, value: Any = ..., stream: str = ...) -> list[Item]:
        """The items with a field, and with this value unless it is None."""

    def changed_items(self, version: int, stream: str = ...) -> Iterator[tuple[int, Item]]:
        """The items of events after a version, each with its position in order of creation."""

    def read_spend(self, look: Callable[[SpendBook], T], nothing: T) -> T:
        """Return `look(spend_table)`; `nothing` if the store has no such table yet."""

    def publications(
        self, *, only_open: bool = ..., commits: Collection[str] | None = ...
    ) -> tuple[Publication, ...]:
        """All publications, or those with open items or with one of `commits`, the oldest first."""

    def read_unshipped(self, look: Callable[[UnshippedBook], T]) -> T | None:
        """Return `look(rows)`; None if no other machine shares the store."""

    def publication_tips(self) -> frozenset[str]:
        """The last commits of all publications."""

    def save_snapshot(self, stream: str, event_version: int, projection: Any) -> None:
        """Replace the projection of a stream. Joins an open transaction."""

    def save_snapshots(self, event_version: int, projections: Mapping[str, Any]) -> None:
        """Replace the projections of streams, all or none. Joins an open transaction."""

    def read_snapshot(self, stream: str) -> tuple[int, Any, str] | None:
        """(version, projection, checksum); None if missing, or damaged (with a warning)."""

    # The halt of all machines, which a store of one machine does not have: its halt is a file.

    def halt_row(self) -> HaltRow | None:
        """The halt of all machines, if it is set."""

    def put_halt(self, reason: str, by: str) -> HaltRow | None:
        """Set the halt of all machines; None if no other machine shares the rows."""

    def drop_halt(self) -> bool:
        """End the halt of all machines; False if there was none."""

    # Integrity

    def rebuild_items(self, stream: str = TRACKER) -> int:
        """Rebuild the items from the events, and return their number."""

    def verify(self) -> tuple[Problem, ...]:
        """All faults but events missing at a stream's end, which `check_anchor` finds."""

    def head(self, stream: str) -> Head:
        """Version and link of a stream's last event, an anchor; (0, "") without events."""

    def heads(self) -> dict[str, Head]:
        """`head` of every stream."""

    def check_anchor(self, anchor: Mapping[str, Head]) -> tuple[Problem, ...]:
        """The events of an earlier `heads` that are missing or changed."""

    def links(self, stream: str) -> dict[int, str]:
        """The link of each event by version. It is the same in every copy of the stream."""

    def links_of(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The links of events by stream and version; a missing event has none."""

    def last_id(self) -> int:
        """The id of the last event of all streams; 0 without events."""

    def streams_since(self, after_id: int, prefix: str) -> list[str]:
        """The streams with this prefix that have events after an id."""
