"""The leases of a wave's items: taken before work, renewed while it runs, given back after.

Who holds a lease is decided in `state_store`; here is only the keeping of them. Everything that
lasts is written in a transaction that asks for the lease's token, so a late writer changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from driver.living import holder_name, is_gone
from driver.pool import repeating
from state_store import coordination
from state_store.errors import StoppedByPolicyError, TidegateError
from state_store.leases import Lease, LeaseLostError
from state_store.store import EventStore, Transaction


class LeasedElsewhereError(StoppedByPolicyError):
    """Another run works on the item, or has taken it over from this one."""


class Leases:
    """All leases of this run; renewed by a thread of its own from entering to leaving."""

    def __init__(self, store: EventStore, ttl_s: float) -> None:
        self._store = store
        self._holder = holder_name()
        self._ttl_s = ttl_s
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._renewing = repeating(ttl_s / 3, self._renew)

    def __enter__(self) -> Leases:
        self._renewing.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._renewing.__exit__(kind, error, trace)
        for lease in self._all():
            self._give_back(lease)

    def take(self, resource: str) -> None:
        """Hold `resource` from now on; who died holding it is not waited for.

        Raises LeasedElsewhereError.
        """
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

    @contextmanager
    def effect(self, *resources: str) -> Iterator[Transaction]:
        """A transaction that commits only while all of `resources` are ours.

        Raises LeasedElsewhereError when one is not, and then nothing of it has happened.
        """
        try:
            with self._store.transaction() as transaction:
                for resource in resources:
                    transaction.require(self._mine(resource))
                yield transaction
        except LeaseLostError as lost:
            raise LeasedElsewhereError(str(lost)) from lost

    def holds(self, resource: str) -> bool:
        """Whether `resource` is still ours."""
        try:
            with self.effect(resource):
                return True
        except LeasedElsewhereError:
            return False

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
        for lease in self._all():
            try:
                coordination.extend(self._store, lease)
            except TidegateError:
                continue  # lost, or the disk is full: the next effect will say so

    def _give_back(self, lease: Lease) -> None:
        try:
            coordination.give_back(self._store, lease)
        except TidegateError:
            return  # it is another's by now, or it will run out by itself
