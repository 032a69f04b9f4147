"""Computes what many machines ask of one PostgreSQL server, from costs that it measures here.

`python -m tests.bench.paper_machines [MACHINES] [ITEMS]`. The assumptions are printed; each is a
number of `Load`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from state_store import coordination
from state_store.database.spend import Purpose
from state_store.postgres.store import PostgresStore
from state_store.sql.addresses import Address
from tests.support import postgres as servers
from tools.budget.budget import Budget
from tools.budget.ceilings import Limits
from tools.budget.charges import Used

TIMES = 50
DAY_S, MONTH_DAYS = 86_400, 30
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Load:
    """The assumptions."""

    machines: int = 1_000
    open_items: int = 100_000
    agents_per_machine: int = 8
    minutes_per_item: float = 20.0
    events_per_item: int = 20
    bytes_per_event: int = 400
    dispatches_per_item: int = 3
    lease_renewals_per_minute: float = 1.0
    network_ms: float = 0.5
    connections_per_process: int = 3
    archived_after_days: int = 14
    compressed_to: float = 0.12


@dataclass(frozen=True)
class Work:
    """A kind of transaction: how often in a second, its messages in a writer's turn, its time."""

    name: str
    a_second: float
    messages: int
    local_ms: float

    def turn_ms(self, load: Load) -> float:
        """The time that others wait for it: all messages between the lock and the commit."""
        return self.local_ms + (self.messages - 1) * load.network_ms


def measured(work: Callable[[], object]) -> float:
    """The median time in milliseconds."""
    took = []
    for _ in range(TIMES):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1e3


def fill(load: Load, server: servers.Server, schema: str) -> None:
    """Open a reservation for each agent of the fleet, which every reservation looks at."""
    server.ask(
        f"INSERT INTO {schema}.spend(stamp, day, wave, item, number, phase, backend, model, "
        "holder, since, until, reserved_tokens, reserved_usd) "
        "SELECT 'x' || n, '2000-01-01', 'w' || n, 'i', 1, 'build', 'claude', 'm', "
        "'other' || n % 1000, 1, 1e12, 1000, 0 "
        f"FROM generate_series(1, {load.machines * load.agents_per_machine}) AS n",
        f"ANALYZE {schema}.spend",
    )


def works(load: Load, store: PostgresStore) -> list[Work]:
    """The transactions of a running fleet, with the times of this machine."""
    items = load.machines * load.agents_per_machine / (load.minutes_per_item * 60)
    names = iter(range(10**9))
    held = [coordination.acquire(store, f"held-{n}", "me") for n in range(8)]
    leases = [lease for lease in held if lease]
    budget = Budget(store, Limits(), "me")

    def claim() -> None:
        coordination.acquire(store, f"item-{next(names)}", "me")

    def dispatch() -> None:
        reserved = budget.reserve(Purpose("w", "i", next(names), "build", "claude", "m"))
        assert not hasattr(reserved, "fit")
        budget.settle(reserved, Used(tokens=1000))

    dispatches = items * load.dispatches_per_item
    renewals = load.machines * load.lease_renewals_per_minute / 60
    append = measured(lambda: store.append("s", "t", {"text": "x" * load.bytes_per_event}))
    step = measured(lambda: store.append_held([("w", "t", {"text": "x" * 400})], leases[:1]))
    edit = {"id": "item-1", "status": "in_progress"}
    store.append("tracker", "item_created", edit)
    edited = measured(lambda: store.append("tracker", "item_updated", edit))
    return [
        Work("append of an event", items * load.events_per_item / 2, 1, append),
        Work("step of an item", items * load.events_per_item / 2, 5, step),
        Work("claim and release", items * 2, 7, measured(claim)),
        Work("edit of an item", items * 3, 6, edited),
        Work(
            "reservation and charge",
            dispatches * 2,
            6,
            measured(dispatch) / 2,
        ),
        Work(
            "renewal of a machine's leases",
            renewals,
            3 + 2 * load.agents_per_machine,
            measured(lambda: coordination.extend_all(store, leases)),
        ),
    ]


def told(load: Load, found: list[Work]) -> None:
    """Print the sums and the first limit."""
    for one in fields(load):
        print(f"  {one.name.replace('_', ' '):28} {getattr(load, one.name):>10,}")
    busy = sum(work.a_second * work.turn_ms(load) / 1e3 for work in found)
    print(f"\n  {'transaction':32} {'a second':>9} {'ms in turn':>11} {'share':>7}")
    for work in found:
        turn = work.turn_ms(load)
        share = work.a_second * turn / 1e3
        print(f"  {work.name:32} {work.a_second:9.1f} {turn:11.2f} {share:7.1%}")
    total = sum(work.a_second for work in found)
    print(f"  {'together':32} {total:9.1f} {'':11} {busy:7.1%}")
    items_a_day = load.machines * load.agents_per_machine / load.minutes_per_item * 60 * 24
    raw = items_a_day * load.events_per_item * (load.bytes_per_event + 250)
    rest = raw * load.compressed_to
    print(
        f"\n  connections: {load.machines * load.connections_per_process:,} at most"
        f"\n  items a day: {items_a_day:,.0f}; the open items last "
        f"{load.open_items / items_a_day * 24:.1f} h"
        f"\n  events: {raw / GIB:.1f} GiB a day; with gc at {load.archived_after_days} days "
        f"{raw * load.archived_after_days / GIB:.0f} GiB stay, and archives grow by "
        f"{rest * MONTH_DAYS / GIB:.0f} GiB a month (without gc {raw * MONTH_DAYS / GIB:.0f})"
        f"\n  the first limit: the turn of writers is full at {load.machines / busy:,.0f} machines "
        "in one schema"
    )


def main(machines: int = 1_000, items: int = 100_000) -> None:
    load = Load(machines, items)
    for settings in (servers.FAST, servers.DURABLE):
        print(f"\n{settings}")
        with (
            servers.running(settings) as server,
            tempfile.TemporaryDirectory() as folder,
            PostgresStore(Path(folder) / "x.db", Address(server.url, "paper")) as store,
        ):
            fill(load, server, "paper")
            told(load, works(load, store))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
