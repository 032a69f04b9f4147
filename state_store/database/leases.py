"""Leases as values, and the rules for their expiry. Pure: no clock, no storage.

After its expiry another process may acquire a lease. The token rises with every grant, and an
effect is accepted only with the current token.
"""

from __future__ import annotations

from state_store.documents.clock import Instant
from state_store.documents.errors import StoppedByPolicyError
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """A grant, as its holder has it. `expires_at` is in seconds of this boot's clock."""

    resource: str
    holder: str
    token: int
    expires_at: float


class LeaseLostError(StoppedByPolicyError):
    """The lease was released or granted to another holder. `current` is the newest token."""

    def __init__(self, resource: str, token: int, current: int | None) -> None:
        self.resource, self.token, self.current = resource, token, current
        newest = "there is no lease" if current is None else f"the current token is {current}"
        super().__init__(
            f"the lease on {resource} with token {token} is lost ({newest}); "
            f"nothing was recorded, because another holder works on it"
        )


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A stored lease. `holder` is None after the release; the token stays."""

    resource: str
    token: int
    holder: str | None
    boot_id: str
    expires_at: float
    expires_wall: float
    ttl: float

    def held_at(self, now: Instant) -> bool:
        """True if the lease is held and has not expired."""
        if self.holder is None:
            return False
        if self.boot_id and self.boot_id == now.boot_id:
            return now.monotonic_s < self.expires_at
        # Another boot: only the wall clock is comparable. If it shows a time before the grant, it
        # was set back, and waiting for the expiry could take years.
        return 0 < self.expires_wall - now.wall_s <= self.ttl

    def extended(self, now: Instant) -> LeaseRow:
        """This grant, renewed at `now`."""
        return grant(self.resource, self.token, self.holder, self.ttl, now)

    def is_of(self, lease: Lease) -> bool:
        """True if `lease` is this grant and was not released."""
        return (self.token, self.holder) == (lease.token, lease.holder)


def grant(resource: str, token: int, holder: str | None, ttl: float, now: Instant) -> LeaseRow:
    """A lease of `ttl` seconds from `now` on."""
    return LeaseRow(
        resource, token, holder, now.boot_id, now.monotonic_s + ttl, now.wall_s + ttl, ttl
    )


def required(row: LeaseRow | None, lease: Lease) -> LeaseRow:
    """The row, if it belongs to `lease`. Raises LeaseLostError.

    An expired lease is still valid until another process acquires it.
    """
    if row is None or not row.is_of(lease):
        current = row.token if row and row.holder is not None else None
        raise LeaseLostError(lease.resource, lease.token, current)
    return row
