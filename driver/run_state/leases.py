"""The leases of a wave's items: acquired before work, renewed while it runs, given back after.

`state_store` decides which run holds a lease. Everything that lasts is written in a transaction
that checks the lease's token, so a late writer changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from driver.execution.process_identity import holder_name, is_gone
from driver.execution.worker_pool import repeating
from state_store import coordination
from state_store.database.interface import Change, Note, Store, StoreTransaction
from state_store.database.leases import Lease, LeaseLostError
from state_store.documents.errors import StoppedByPolicyError, TidegateError


class LeasedElsewhereError(StoppedByPolicyError):
    """Another run works on the item, or has taken it over from this one."""


class LeaseManager:
    """All leases of this run; renewed by a thread of its own from entering to leaving."""

    def __init__(self, store: Store, ttl_s: float) -> None:
        self._store = store
        self._holder = holder_name()
        self._ttl_s = ttl_s
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._renewing = repeating(ttl_s / 3, self._renew)

    def __enter__(self) -> LeaseManager:
        self._renewing.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._renewing.__exit__(kind, error, trace)
        with suppress(TidegateError):  # those that stay run out by themselves
            coordination.give_back_all(self._store, self._all())

    def take_all(self, resources: Iterable[str]) -> None:
        """Hold those of `resources` that nobody else has, in one transaction; `take` tells which
        one it was not."""
        names = map(self._shared, resources)
        taken = coordination.acquire_all(self._store, names, self._holder, self._ttl_s)
        with self._lock:
            self._held |= taken

    def take(self, resource: str) -> None:
        """Hold `resource` from now on; who died holding it is not waited for.

        Raises LeasedElsewhereError.
        """
        resource = self._shared(resource)
        if self._is_held(resource):
            return
        lease = self._acquired(resource)
        holder = None if lease else coordination.current_holder(self._store, resource)
        if holder is not None and is_gone(holder):
            coordination.release(self._store, resource, holder)
            lease = self._acquired(resource)
        if lease is None:
            who = (holder or "another run").partition("@")[0]
            raise LeasedElsewhereError(f"{resource} is being worked on by {who}")
        with self._lock:
            self._held[resource] = lease

    def _acquired(self, resource: str) -> Lease | None:
        return coordination.acquire(self._store, resource, self._holder, self._ttl_s)

    def effect(self, resources: Iterable[str], job: Callable[[StoreTransaction], object]) -> None:
        """Run `job` in a transaction that commits only while all of `resources` are ours. It may
        run again after a lost connection.

        Raises LeasedElsewhereError when one is not, and then nothing of it has happened.
        """
        names = [self._shared(one) for one in resources]

        def checked(transaction: StoreTransaction) -> int:
            for name in names:
                transaction.require(self._mine(name))
            job(transaction)
            return 0

        try:
            self._store.joined(checked)
        except LeaseLostError as lost:
            raise LeasedElsewhereError(str(lost)) from lost

    def holds(self, resource: str) -> bool:
        """True while this run holds the lease. Only a hint: each transaction checks it again."""
        return self._is_held(self._shared(resource))

    def append(
        self,
        resources: Iterable[str],
        entries: Sequence[tuple[str, str, Any]],
        actor: str,
        note: Note = lambda: None,
        change: Change = lambda _: None,
    ) -> None:
        """Append (stream, type, payload) events as an effect, in a commit shared with others'.

        `note` is called once all of `resources` are known to be ours, before anything is written,
        and `change` after the events; see `EventStore.append_held`. Raises LeasedElsewhereError, as
        `effect`.
        """
        try:
            mine = [self._mine(self._shared(one)) for one in resources]
            self._store.append_held(entries, mine, actor, note, change)
        except LeaseLostError as lost:
            raise LeasedElsewhereError(str(lost)) from lost

    def _shared(self, resource: str) -> str:
        """The name of a lease. Machines that share the store have the repository in different
        folders, and an item is named by its slug alone."""
        return f"#{resource.rpartition('#')[2]}" if self._store.folder else resource

    def _is_held(self, resource: str) -> bool:
        with self._lock:
            lease = self._held.get(resource)
        row = self._store.lease_row(resource) if lease else None
        return row is not None and lease is not None and row.is_of(lease)

    def _mine(self, resource: str) -> Lease:
        with self._lock:
            lease = self._held.get(resource)
        if lease is None:
            raise LeaseLostError(resource, 0, None)
        return lease

    def _all(self) -> list[Lease]:
        with self._lock:
            return list(self._held.values())

    def _renew(self) -> None:
        with suppress(TidegateError):  # the disk is full, say: the next effect will tell
            coordination.extend_all(self._store, self._all())
