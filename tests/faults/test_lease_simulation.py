"""Thousands of interleavings of workers that pause, die and have their clocks moved.

The lease code and the database are the real ones; only who moves next and what time it is are
drawn, from a seed that a failure names. An effect is unsafe when a newer lease had been granted.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from state_store import coordination
from state_store.coordination import Lease, LeaseLostError
from state_store.database.store import EventStore, Transaction
from tests.support.manual_clock import ManualClock
from tests.support.stores import Stores

TTL_S = 10.0
FEW = {"sqlite": 150, "postgres": 40}
Guard = Callable[[EventStore, Lease], AbstractContextManager[Transaction]]


def fenced(store: EventStore, lease: Lease) -> AbstractContextManager[Transaction]:
    return store.transaction(lease=lease)


def by_time_only(store: EventStore, lease: Lease) -> AbstractContextManager[Transaction]:
    """The mutant: whoever saw itself as the holder a moment ago writes."""
    return store.transaction()


@dataclass
class World:
    store: EventStore
    clock: ManualClock
    resource: str
    guard: Guard
    granted: list[int] = field(default_factory=list)
    effects: list[int] = field(default_factory=list)
    unsafe: list[int] = field(default_factory=list)
    refused: int = 0

    def effect(self, lease: Lease) -> None:
        try:
            with self.guard(self.store, lease) as transaction:
                transaction.append("effects", "done", {"token": lease.token})
        except LeaseLostError:
            self.refused += 1
            return
        self.effects.append(lease.token)
        if lease.token != self.granted[-1]:
            self.unsafe.append(lease.token)


def worker(world: World, name: str) -> Iterator[None]:
    """Claims, renews and records three times, gives back; does it again."""
    while True:
        lease = coordination.acquire(world.store, world.resource, name, TTL_S)
        if lease is not None and lease.token not in world.granted:
            assert not world.granted or lease.token > world.granted[-1], "a token did not rise"
            world.granted.append(lease.token)
        yield
        if lease is None:
            continue
        for _ in range(3):
            coordination.renew(world.store, world.resource, name)
            if coordination.current_holder(world.store, world.resource) == name:
                yield  # between the look and the deed anything may happen
                world.effect(lease)
            yield
        coordination.release(world.store, world.resource, name)
        yield


def interleave(world: World, random_source: random.Random) -> None:
    """Up to thirty steps of three workers, one of which may be paused for long or gone."""
    alive = {f"worker-{number}": 0.0 for number in range(3)}
    lines = {name: worker(world, name) for name in alive}
    for _ in range(30):
        ready = [name for name, until in alive.items() if until <= world.clock.monotonic_s]
        if not ready:
            world.clock.pass_by(1.0)
            continue
        name = random_source.choice(ready)
        next(lines[name])
        world.clock.pass_by(random_source.uniform(0.0, 1.0))
        chance = random_source.random()
        if chance < 0.15:
            alive[name] = world.clock.monotonic_s + random_source.uniform(5.0, 40.0)
        elif chance < 0.20 and len(alive) > 1:
            del alive[name]
        elif chance < 0.30:
            world.clock.jump(random_source.uniform(-60.0, 60.0))


def simulate(stores: Stores, folder: Path, guard: Guard, seeds: range) -> list[World]:
    clock = ManualClock()
    with stores.open(folder / "a.db", clock=clock) as store:
        worlds = []
        for seed in seeds:
            world = World(store, clock, f"resource-{seed}", guard)
            interleave(world, random.Random(seed))
            worlds.append(world)
        assert store.verify() == ()
    return worlds


def test_no_interleaving_lets_an_overtaken_worker_write(stores: Stores, tmp_path: Path) -> None:
    worlds = simulate(stores, tmp_path, fenced, range(FEW[stores.kind]))
    assert {seed: world.unsafe for seed, world in enumerate(worlds) if world.unsafe} == {}
    assert sum(len(world.effects) for world in worlds) > len(worlds) / 2
    assert sum(world.refused for world in worlds) > 0, "nobody was ever overtaken"


def test_without_the_token_the_simulation_finds_unsafe_writes(tmp_path: Path) -> None:
    worlds = simulate(Stores(), tmp_path, by_time_only, range(150))
    assert any(world.unsafe for world in worlds)


@pytest.mark.sweep
def test_ten_thousand_interleavings(
    stores: Stores, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds = simulate(stores, tmp_path, fenced, range(10_000))
    unsafe = [seed for seed, world in enumerate(worlds) if world.unsafe]
    with capsys.disabled():
        effects = sum(len(world.effects) for world in worlds)
        refused = sum(world.refused for world in worlds)
        sys.stdout.write(
            f"\nlease {stores.kind} interleavings=10000 unsafe={len(unsafe)} target=0 "
        )
        sys.stdout.write(f"seed=0..9999 effects={effects} refused={refused}\n")
    assert unsafe == []
