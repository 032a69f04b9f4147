"""Leases: who may work on a resource, until when, and with which token.

The rows decide; the events of stream `claims` tell the story and are never read to decide. Every
function takes an `EventStore`, or anything that has one as its `store`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

from state_store.database.leases import Lease, LeaseLostError, LeaseRow, grant, required
from state_store.database.store import EventStore, Transaction
from state_store.documents.errors import TidegateError

__all__ = ["Lease", "LeaseLostError"]

STREAM = "claims"
REQUESTED = "claim_requested"
RELEASED = "claim_released"
DEFAULT_TTL_S = 300.0
_log = logging.getLogger(__name__)


def acquire(store: Any, resource: str, holder: str, ttl: float = DEFAULT_TTL_S) -> Lease | None:
    """The lease for `ttl` seconds, or None while another holds it.

    Asked again by its holder in time it is the same grant with new time; every other grant has a
    token higher than all before it. Raises ValueError for a ttl that is no positive number.
    """
    return acquire_all(store, (resource,), holder, ttl).get(resource)


def acquire_all(
    store: Any, resources: Iterable[str], holder: str, ttl: float = DEFAULT_TTL_S
) -> dict[str, Lease]:
    """`acquire` for many at once, in one transaction; those that others hold are not in it."""
    if not (math.isfinite(ttl) and ttl > 0):
        raise ValueError(f"a lease needs a positive time in seconds, not {ttl!r}")
    with _store(store).transaction() as transaction:
        taken = {name: _acquired(transaction, name, holder, ttl) for name in resources}
    return {name: lease for name, lease in taken.items() if lease is not None}


def extend(store: Any, lease: Lease) -> Lease:
    """The same grant with its full time from now on. Raises LeaseLostError."""
    with _store(store).transaction(lease=lease) as transaction:
        return _kept(transaction, transaction.require(lease).extended(transaction.now))


def check(store: Any, lease: Lease) -> None:
    """Raise LeaseLostError unless the token is the current one.

    True at this moment only: effects belong into `store.transaction(lease=lease)`.
    """
    required(_store(store).lease_row(lease.resource), lease)


def give_back(store: Any, lease: Lease) -> None:
    """End the grant. Raises LeaseLostError when it was over already."""
    with _store(store).transaction(lease=lease) as transaction:
        _end(transaction, transaction.require(lease), "released")


def give_back_all(store: Any, leases: Iterable[Lease]) -> None:
    """End the grants, in one transaction; those that are over already are passed over."""
    with _store(store).transaction() as transaction:
        for lease in leases:
            row = transaction.lease_row(lease.resource)
            if row is not None and row.is_of(lease):
                _end(transaction, row, "released")


def extend_all(store: Any, leases: Iterable[Lease]) -> None:
    """Give the grants their full time again, in one transaction; lost ones are passed over."""
    with _store(store).transaction() as transaction:
        for lease in leases:
            row = transaction.lease_row(lease.resource)
            if row is not None and row.is_of(lease):
                _kept(transaction, row.extended(transaction.now))


def try_claim(store: Any, resource: str, instance_id: str, ttl: float = DEFAULT_TTL_S) -> bool:
    """Whether the instance holds the resource now; False also when the store cannot say."""
    try:
        return acquire(store, resource, instance_id, ttl) is not None
    except (TidegateError, TypeError, ValueError) as error:
        _log.warning("claim of %s refused: %s", resource, error)
        return False


def renew(store: Any, resource: str, instance_id: str) -> bool:
    """Give a held lease its full time again; False when the instance does not hold it.

    Past its time it can still be renewed as long as nobody else has taken it.
    """
    with _store(store).transaction() as transaction:
        row = transaction.lease_row(resource)
        if row is None or row.holder != instance_id:
            return False
        _kept(transaction, row.extended(transaction.now))
        return True


def release(store: Any, resource: str, instance_id: str) -> bool:
    """Give the resource back; False, changing nothing, when the instance does not hold it."""
    with _store(store).transaction() as transaction:
        row = transaction.lease_row(resource)
        if row is None or row.holder != instance_id:
            return False
        _end(transaction, row, "released")
        return True


def current_holder(store: Any, resource: str) -> str | None:
    """Who holds the resource and is within its time."""
    events = _store(store)
    row = events.lease_row(resource)
    return row.holder if row is not None and row.held_at(events.clock.now()) else None


def fold_claims(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Who holds what by the events alone: per resource the oldest claim not given back.

    A lease that was taken over has a release in the events, so the new holder is found.
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


def _acquired(transaction: Transaction, resource: str, holder: str, ttl: float) -> Lease | None:
    row = transaction.lease_row(resource)
    if row is None or not row.held_at(transaction.now):
        return _granted(transaction, row, resource, holder, ttl)
    if row.holder != holder:
        return None
    return _kept(transaction, grant(resource, row.token, holder, ttl, transaction.now))


def _granted(
    transaction: Transaction, before: LeaseRow | None, resource: str, holder: str, ttl: float
) -> Lease:
    if before is not None and before.holder is not None:
        _end(transaction, before, "expired")
    row = grant(resource, before.token + 1 if before else 1, holder, ttl, transaction.now)
    told = {"resource": resource, "instance_id": holder, "ttl": ttl, "token": row.token}
    transaction.append(STREAM, REQUESTED, told, actor=holder)
    return _kept(transaction, row)


def _end(transaction: Transaction, row: LeaseRow, reason: str) -> None:
    assert row.holder is not None
    told = {"resource": row.resource, "instance_id": row.holder, "token": row.token}
    transaction.append(STREAM, RELEASED, told | {"reason": reason}, actor=row.holder)
    transaction.put_lease(grant(row.resource, row.token, None, row.ttl, transaction.now))


def _kept(transaction: Transaction, row: LeaseRow) -> Lease:
    assert row.holder is not None
    transaction.put_lease(row)
    return Lease(row.resource, row.holder, row.token, row.expires_at)


def _store(store: Any) -> EventStore:
    found = getattr(store, "store", store)
    if not isinstance(found, EventStore):
        raise TypeError(f"leases are kept in an EventStore, not in {type(store).__name__}")
    return found
