"""Eight workers under one ceiling, in every order: what is spent and reserved never passes it.

Real bookings in a real store; only the order, the uses and the deaths are drawn. A failure names
its seed. The whole, as the sweep:
`python -m pytest -m sweep -s tests/faults/test_budget_simulation.py`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from state_store.database.spend import Purpose, Reserved, SpendBook, Total, utc_day
from state_store.database.store import EventStore
from tests.support.manual_clock import ManualClock
from tests.support.stores import Stores
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.ceilings import MICRO, Ceilings, Limits
from tools.budget.charges import Used

WORKERS = 8
FEW = {"sqlite": 120, "postgres": 12}
DAY_S = 86_400.0
USD_PER_TOKEN = 0.001
SENSELESS = (None, float("nan"), float("inf"), -1, -0.5, "500", True, [500], 1.5)


@dataclass
class World:
    """One seed: a wave on a day of its own, and all that is seen of it."""

    store: EventStore
    seed: int
    honest: bool
    chance: random.Random = field(init=False)
    limits: Limits = field(init=False)
    dead: set[str] = field(default_factory=set)
    charged: list[tuple[Reserved, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    overshoot: int = 0
    largest: int = 0
    spent_before: int = 0
    started: int = 0
    running: dict[int, Reserved] = field(default_factory=dict)
    worst: int = 0
    foreseen: dict[int, int] = field(default_factory=dict)
    waited: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        draw = self.chance = random.Random(self.seed)
        default = draw.choice((50, 200, 500, 5000))
        wave = Ceilings(tokens=draw.choice((None, draw.randrange(0, 6000))))
        usd = draw.choice((None, draw.randrange(0, 6)))
        day = Ceilings(
            tokens=draw.randrange(1, 8000),
            usd=None if usd is None else usd * MICRO,
            dispatches=draw.choice((None, draw.randrange(0, 12))),
        )
        self.limits = Limits(wave, day, default)

    def budget(self, name: str) -> Budget:
        """The books as one process keeps them."""
        return Budget(
            self.store,
            self.limits,
            holder=name,
            is_gone=self.dead.__contains__,
            price=lambda _model, tokens: tokens * USD_PER_TOKEN,
        )

    def worker(self, number: int) -> Iterator[None]:
        """A process that works until there is no room; what it yields is its turn's end."""
        books, draw = self.budget(f"w{self.seed}-{number}"), self.chance
        for attempt in range(draw.randrange(1, 5)):
            purpose = Purpose(f"s{self.seed}", f"i{number}", attempt, "build", "b", f"m{self.seed}")
            while True:
                try:
                    found = books.reserve(purpose)
                except OverBudgetError:
                    self.refused += 1
                    return
                if isinstance(found, Reserved):
                    break
                self.waited += 1
                yield
            yield from self._work(books, found)
            if books.holder in self.dead:
                return

    def _work(self, books: Budget, held: Reserved) -> Iterator[None]:
        self.started += 1
        self.largest = max(self.largest, held.tokens)
        known = {i: max(one.tokens, self.worst) for i, one in self.running.items()}
        self.foreseen = {**known, held.id: held.tokens}
        self.running[held.id] = held
        for _ in range(self.chance.randrange(4)):  # late
            yield
        roll = self.chance.random()
        if roll < 0.06:
            books.cancel(held)
            del self.running[held.id]
        elif roll < 0.14:
            self.dead.add(books.holder)
            self._charge(held, held.tokens)
        else:
            charge = books.settle(held, self._used(held))
            self._charge(held, charge.tokens)
            if charge.tokens < 0 or (not charge.metered and charge.tokens != held.tokens):
                self.wrong.append(f"{held} was charged {charge}")
        yield

    def _charge(self, held: Reserved, tokens: int) -> None:
        del self.running[held.id]
        self.charged.append((held, tokens))
        if tokens > held.tokens:
            self.worst = max(self.worst, tokens)

    def _used(self, held: Reserved) -> Used:
        draw = self.chance
        if draw.random() < 0.3:
            usd = draw.choice([it for it in SENSELESS if it != 1.5])
            return Used(draw.choice(SENSELESS), None, draw.choice(SENSELESS), usd)
        most = held.tokens if self.honest else 3 * held.tokens
        tokens = draw.randint(0, most)
        entered = draw.randint(0, tokens)
        cost: Any = min(tokens * USD_PER_TOKEN, held.usd / MICRO) if self.honest else None
        return Used(entered, tokens - entered, usd=draw.choice((cost, None)))

    def look(self) -> None:
        """What must hold at every moment."""
        today = utc_day(self.store.clock.now().wall_s)
        wave, day = self.store.read_spend(
            lambda book: (book.of_wave(f"s{self.seed}"), book.of_day(today)), (Total(), Total())
        )
        for total, limits in ((wave, self.limits.wave), (day, self.limits.day)):
            over = total.tokens + total.reserved_tokens - (limits.tokens or 10**9)
            self.overshoot = max(self.overshoot, over)
            if over > self._excess():
                self.wrong.append(f"{total} passes {limits}")
            money = 0 if limits.usd is None else total.usd + total.reserved_usd - limits.usd
            if self.honest and money > 0:
                self.wrong.append(f"{total} passes {limits}")
            if limits.dispatches is not None and total.dispatches > limits.dispatches:
                self.wrong.append(f"{total} are more than {limits}")
        if day.tokens < self.spent_before:
            self.wrong.append(f"spent fell from {self.spent_before} to {day.tokens}")
        self.spent_before = day.tokens

    def _excess(self) -> int:
        """What those at work, when the last one was begun, used beyond the larger of their own
        reservation and the largest use that was seen by then: nobody can foresee that."""
        used = {held.id: tokens for held, tokens in self.charged}
        return sum(max(0, used.get(i, 0) - known) for i, known in self.foreseen.items())

    def end(self) -> None:
        """All have ended: whoever comes next books the dead, and then the books are closed."""
        self.budget("next").recover()
        day = self.store.read_spend(self._today, Total())
        expected = sum(used for _, used in self.charged)
        if (day.tokens, day.open) != (expected, 0):
            self.wrong.append(f"{day} instead of {expected}")

    def _today(self, book: SpendBook) -> Total:
        return book.of_day(utc_day(self.store.clock.now().wall_s))


def play(world: World) -> None:
    running = [world.worker(number) for number in range(WORKERS)]
    turns = 0
    while running:
        one = world.chance.choice(running)
        if next(one, "done") == "done":
            running.remove(one)
        world.look()
        turns += 1
        if turns > 5000:
            world.wrong.append("nobody gets on")
            break
    world.end()


def simulate(stores: Stores, folder: Path, seeds: range, *, honest: bool) -> list[World]:
    clock = ManualClock()
    with stores.open(folder / "a.db", clock=clock) as store:
        worlds = []
        for seed in seeds:
            clock.pass_by(DAY_S)
            worlds.append(World(store, seed, honest))
            play(worlds[-1])
        return worlds


def test_no_order_lets_workers_pass_a_ceiling(stores: Stores, tmp_path: Path) -> None:
    few = FEW[stores.kind]
    worlds = simulate(stores, tmp_path, range(few), honest=True)
    assert {world.seed: world.wrong for world in worlds if world.wrong} == {}
    assert max(world.overshoot for world in worlds) <= 0
    assert min(sum(w.started for w in worlds), sum(w.refused for w in worlds)) > few * 5 // 12
    assert sum(world.waited for world in worlds) > few * 5 // 12


@pytest.mark.more
def test_use_beyond_a_reservation_is_the_only_overshoot(tmp_path: Path) -> None:
    worlds = simulate(Stores(), tmp_path, range(120), honest=False)
    assert {world.seed: world.wrong for world in worlds if world.wrong} == {}
    assert max(world.overshoot for world in worlds) > 0


@pytest.mark.sweep
@pytest.mark.parametrize("honest", [True, False])
def test_ten_thousand_orders(
    honest: bool, stores: Stores, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds = simulate(stores, tmp_path, range(10_000), honest=honest)
    wrong = {world.seed: world.wrong[:2] for world in worlds if world.wrong}
    with capsys.disabled():
        started, over = sum(w.started for w in worlds), max(w.overshoot for w in worlds)
        sys.stdout.write(
            f"\nbudget {stores.kind} orders=10000 honest={honest} violations={len(wrong)} target=0 "
            f"dispatches={started} overshoot={max(over, 0)}\n"
        )
    assert wrong == {}
