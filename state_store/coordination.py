"""Acquires, renews and releases leases, which give a resource to one holder for a time.

The lease rows decide. The events of stream `claims` are only their history. Every function takes an
`EventStore`, or an object with a `store`. Every change is a job that the store may run again, so a
lost connection to a server fails none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from state_store.database.interface import Store, StoreTransaction
from state_store.database.leases import Lease, LeaseLostError, LeaseRow, grant, required
from state_store.database.store import EventStore
from state_store.documents.errors import TidegateError

__all__ = ["Lease", "LeaseLostError"]

STREAM = "claims"
REQUESTED = "claim_requested"
RELEASED = "claim_released"
DEFAULT_TTL_S = 300.0
_log = logging.getLogger(__name__)


def acquire(store: Any, resource: str, holder: str, ttl: float = DEFAULT_TTL_S) -> Lease | None:
    """Acquire the lease for `ttl` seconds; None while another holder has it.

    The present holder gets the same grant with new time. Every other grant has a new, higher token.
    Raises ValueError unless ttl is a positive number.
    """
    return acquire_all(store, (resource,), holder, ttl).get(resource)


def acquire_all(
    store: Any, resources: Iterable[str], holder: str, ttl: float = DEFAULT_TTL_S
) -> dict[str, Lease]:
    """Acquire many leases in one transaction. The result omits leases of other holders."""
    if not (math.isfinite(ttl) and ttl > 0):
        raise ValueError(f"a lease needs a positive time in seconds, not {ttl!r}")
    names, acquired = tuple(resources), dict[str, Lease]()
    "".join((holder, *map(str, names))).encode("utf-8")  # raises here, not in a shared commit

    def job(transaction: StoreTransaction) -> int:
        acquired.clear()
        for name in names:
            row = transaction.lease_row(name)
            if row is None or not row.held_at(transaction.now):
                new = _granted(transaction, row, name, holder, ttl)
            elif row.holder == holder:
                new = grant(name, row.token, holder, ttl, transaction.now)
            else:
                continue
            acquired[name] = _kept(transaction, new)
        return 0

    _store(store).joined(job)
    return acquired


def extend(store: Any, lease: Lease) -> Lease:
    """Renew a grant for its full time. Raises LeaseLostError."""
    renewed: list[Lease] = []

    def job(transaction: StoreTransaction) -> int:
        renewed[:] = [_kept(transaction, transaction.require(lease).extended(transaction.now))]
        return 0

    _store(store).joined(job)
    return renewed[0]


def check(store: Any, lease: Lease) -> None:
    """Raise LeaseLostError unless the lease has the current token.

    The answer is true only now: effects belong into `store.transaction(lease=lease)`.
    """
    required(_store(store).lease_row(lease.resource), lease)


def give_back(store: Any, lease: Lease) -> None:
    """End the grant. Raises LeaseLostError if it has already ended."""
    _store(store).joined(lambda open_: _end(open_, open_.require(lease), "released"))


def give_back_all(store: Any, leases: Iterable[Lease]) -> None:
    """End the grants in one transaction. Skips ended grants."""
    given = tuple(leases)

    def job(transaction: StoreTransaction) -> int:
        return sum(_end(transaction, row, "released") for row in _rows(transaction, given))

    _store(store).joined(job)


def extend_all(store: Any, leases: Iterable[Lease]) -> None:
    """Renew the grants in one transaction. Skips lost grants."""
    given = tuple(leases)

    def job(transaction: StoreTransaction) -> int:
        renewed = [row.extended(transaction.now) for row in _rows(transaction, given)]
        return len([_kept(transaction, row) for row in renewed])

    _store(store).joined(job)


def try_claim(store: Any, resource: str, instance_id: str, ttl: float = DEFAULT_TTL_S) -> bool:
    """Acquire a lease; False if another holder has it or the store is not available."""
    try:
        return acquire(store, resource, instance_id, ttl) is not None
    except (TidegateError, TypeError, ValueError) as error:
        _log.warning("claim of %s refused: %s", resource, error)
        return False


def renew(store: Any, resource: str, instance_id: str) -> bool:
    """Renew a lease; False if the instance does not hold it.

    An expired lease can still be renewed if no other instance has acquired it.
    """

    def job(transaction: StoreTransaction) -> int:
        row = transaction.lease_row(resource)
        if row is None or row.holder != instance_id:
            return 0
        _kept(transaction, row.extended(transaction.now))
        return 1

    return bool(_store(store).joined(job))


def release(store: Any, resource: str, instance_id: str) -> bool:
    """Release the resource; False, without a change, if the instance does not hold it."""

    def job(transaction: StoreTransaction) -> int:
        row = transaction.lease_row(resource)
        is_ours = row is not None and row.holder == instance_id
        return _end(transaction, row, "released") if row is not None and is_ours else 0

    return bool(_store(store).joined(job))


def current_holder(store: Any, resource: str) -> str | None:
    """The holder of the resource; None if there is none or its lease has expired."""
    events = _store(store)
    row = events.lease_row(resource)
    return row.holder if row is not None and row.held_at(events.clock.now()) else None


def fold_claims(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The holder of each resource by the events alone: the oldest claim without release.

    A takeover also writes a release, so this finds the new holder.
    """
    claims: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda event: event["version"]):
        if event["type"] not in (REQUESTED, RELEASED):
            continue
        payload = event["payload"]
        held = claims.setdefault(payload["resource"], [])
        holder = payload["instance_id"]
        if event["type"] == RELEASED and holder in held:
            held.remove(holder)
        elif event["type"] == REQUESTED and holder not in held:
            held.append(holder)
    return {resource: held[0] for resource, held in claims.items() if held}


def _rows(transaction: StoreTransaction, leases: Iterable[Lease]) -> Iterator[LeaseRow]:
    """The rows of the given leases, without lost leases."""
    for lease in leases:
        row = transaction.lease_row(lease.resource)
        if row is not None and row.is_of(lease):
            yield row


def _granted(
    transaction: StoreTransaction, before: LeaseRow | None, resource: str, holder: str, ttl: float
) -> LeaseRow:
    """Write a new grant with a higher token. Records the release of an expired holder."""
    if before is not None and before.holder is not None:
        _end(transaction, before, "expired")
    row = grant(resource, transaction.next_token(before), holder, ttl, transaction.now)
    claim = {"resource": resource, "instance_id": holder, "ttl": ttl, "token": row.token}
    transaction.append(STREAM, REQUESTED, claim, actor=holder)
    return row


def _end(transaction: StoreTransaction, row: LeaseRow, reason: str) -> int:
    """End a grant, and return the number of ended grants."""
    assert row.holder is not None
    claim = {"resource": row.resource, "instance_id": row.holder, "token": row.token}
    transaction.append(STREAM, RELEASED, claim | {"reason": reason}, actor=row.holder)
    transaction.put_lease(grant(row.resource, row.token, None, row.ttl, transaction.now))
    return 1


def _kept(transaction: StoreTransaction, row: LeaseRow) -> Lease:
    assert row.holder is not None
    transaction.put_lease(row)
    return Lease(row.resource, row.holder, row.token, row.expires_at)


def _store(store: Any) -> Store:
    found = getattr(store, "store", store)
    if not isinstance(found, EventStore):
        raise TypeError(f"leases are kept in an EventStore, not in {type(store).__name__}")
    return found
