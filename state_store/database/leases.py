"""Leases as values, and the rule when one is free. Pure: no clock of its own, no storage.

After its expiry another process may take a lease. The token decides whose effects count: it rises
with every grant, and an effect is accepted with the current token only.
"""

from __future__ import annotations

from dataclasses import dataclass

from state_store.database.clock import Instant
from state_store.documents.errors import StoppedByPolicyError


@dataclass(frozen=True, slots=True)
class Lease:
    """A grant as its holder keeps it; `expires_at` in seconds of this boot's clock."""

    resource: str
    holder: str
    token: int
    expires_at: float


class LeaseLostError(StoppedByPolicyError):
    """The lease was granted to another holder or given back; `current` is the newest token."""

    def __init__(self, resource: str, token: int, current: int | None) -> None:
        self.resource, self.token, self.current = resource, token, current
        newest = "no lease is held" if current is None else f"the current one is {current}"
        super().__init__(
            f"the lease on {resource} with token {token} is lost ({newest}); "
            f"nothing was recorded, the present holder goes on with it"
        )


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it is stored. `holder` is None once it was given back; the token stays."""

    resource: str
    token: int
    holder: str | None
    boot_id: str
    expires_at: float
    expires_wall: float
    ttl: float

    def held_at(self, now: Instant) -> bool:
        """True while its holder is within its time."""
        if self.holder is None:
            return False
        if self.boot_id and self.boot_id == now.boot_id:
            return now.monotonic_s < self.expires_at
        # Another boot: only wall clocks compare. One that stands before the grant has jumped, and
        # waiting for it to come back could take years.
        return 0 < self.expires_wall - now.wall_s <= self.ttl

    def extended(self, now: Instant) -> LeaseRow:
        """The same grant with its full time from `now` on."""
        return grant(self.resource, self.token, self.holder, self.ttl, now)

    def is_of(self, lease: Lease) -> bool:
        """True when `lease` is this grant and was not given back."""
        return (self.token, self.holder) == (lease.token, lease.holder)


def grant(resource: str, token: int, holder: str | None, ttl: float, now: Instant) -> LeaseRow:
    """A lease of `ttl` seconds from `now` on."""
    return LeaseRow(
        resource, token, holder, now.boot_id, now.monotonic_s + ttl, now.wall_s + ttl, ttl
    )


def required(row: LeaseRow | None, lease: Lease) -> LeaseRow:
    """The row when it is that of `lease`. Raises LeaseLostError.

    A lease past its time is still good while no other process has taken it.
    """
    if row is None or not row.is_of(lease):
        current = row.token if row and row.holder is not None else None
        raise LeaseLostError(lease.resource, lease.token, current)
    return row
