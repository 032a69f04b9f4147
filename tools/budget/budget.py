"""The budget: room for a dispatch is reserved before it, and what it used is settled after it.

In one store, by all processes: spent and reserved together never pass a ceiling. What nobody knows
counts as what was reserved, and a reservation whose holder died counts in full. Who waits for room,
and for how long, is the engine's concern.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.database import events
from state_store.database.spend import (
    Charge,
    OpenUse,
    Purpose,
    Reserved,
    SpendBook,
    Total,
    Use,
    utc_day,
)
from state_store.database.store import EventStore, Transaction
from state_store.documents.errors import StoppedByPolicyError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.write_api import STATE_DB_FILENAME
from tools.budget import ceilings
from tools.budget.ceilings import DAILY, MICRO, WAVE, Decision, Estimate, Fit, Limits, Period
from tools.budget.charges import Used, beyond, billed, charge_of, in_full
from tools.ledger.rows import NOTHING_ELSEWHERE, Elsewhere, all_rows
from tools.ledger.writer import LedgerWriter

ACTOR = "budget"
HOLD_S = 7200.0


class OverBudgetError(StoppedByPolicyError):
    """A dispatch may not begin; `decision` says which ceiling keeps it."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(decision.reason)


@dataclass
class Budget:
    """The budget of a run. `holder` is this process, as `is_gone` can tell of others that they
    ended; a reservation older than `hold_s` seconds is given up for dead as well, unless
    `is_living` says that its holder is at work.
    `price` tells what a number of tokens of a model costs in USD, None when unknown.
    """

    store: EventStore
    limits: Limits
    holder: str
    is_gone: Callable[[str], bool] = lambda _: False
    price: Callable[[str, int], float | None] = lambda _model, _tokens: None
    hold_s: float = HOLD_S
    state_dir: Path | None = None
    is_living: Callable[[str], bool] = lambda _: False
    started: float = field(default_factory=time.monotonic)
    problem: str | None = None
    _elsewhere: Elsewhere = NOTHING_ELSEWHERE

    def __post_init__(self) -> None:
        self._looking = threading.Lock()
        folder = self.state_dir
        self.ledger = LedgerWriter(folder, self.store) if folder is not None else None

    def reserve(self, purpose: Purpose) -> Reserved | Decision:
        """Room for a dispatch, or that there is none for now. Raises OverBudgetError when there
        will be none either when all dispatches under way have ended, InputError for a ledger that
        cannot be read."""
        self._look_elsewhere()
        taken: list[Reserved] = []
        refused: list[Decision] = []

        def job(transaction: Transaction) -> int:
            book, now = transaction.spend, transaction.now.wall_s
            self._settle_the_dead(transaction)
            decision = self._decide(book, purpose, now)
            if decision.fit is not Fit.FITS:
                refused.append(decision)
                return 0
            until = now + self.hold_s
            held = book.reserve(purpose, self.holder, decision.tokens, decision.usd, now, until)
            taken.append(held)
            return taken[0].id

        self.store.joined(job)
        if taken:
            failpoint("budget.reserved")
            return taken[0]
        if refused[0].fit is Fit.OVER:
            raise OverBudgetError(refused[0])
        return refused[0]

    def require_price(self, purpose: Purpose) -> None:
        """Raise OverBudgetError where money is limited and nobody knows what this will cost."""

        def look(book: SpendBook) -> Decision | None:
            return self._unpriced(purpose, self._estimate(book, purpose))

        if (refused := self.store.read_spend(look, None)) is not None:
            raise OverBudgetError(refused)

    def settle(self, reserved: Reserved, used: Used) -> Charge:
        """Book what a dispatch used: the store, an event of the agents' traces and the ledger.

        What is not known, or no number, is charged as it was reserved.
        """
        charge = charge_of(reserved, used)

        def job(transaction: Transaction) -> int:
            return int(self._book(transaction, reserved, charge, used.usd))

        failpoint("budget.before_settle")
        self.store.joined(job)
        failpoint("budget.settled")
        self.tell()
        return charge

    def cancel(self, reserved: Reserved) -> None:
        """Give back what was reserved for a dispatch that was not begun."""
        self.store.joined(lambda transaction: int(transaction.spend.cancel(reserved)))

    def recover(self) -> None:
        """Book what processes that died had reserved, and tell the ledger what it has not heard."""

        def job(transaction: Transaction) -> int:
            return self._settle_the_dead(transaction)

        self.store.joined(job)
        self.tell()

    def tell(self) -> None:
        """Bring the ledger up to date; what keeps us from it is told in `problem`, and the store
        knows all the same."""
        try:
            if self.ledger is not None:
                self.ledger.tell()
        except TidegateError as error:
            self.problem = str(error)

    def close(self) -> None:
        """The run is over."""
        try:
            if self.ledger is not None:
                self.ledger.close()
        except TidegateError as error:
            self.problem = str(error)

    def totals(self, wave: str) -> tuple[Total, Total]:
        """Of the wave and of today, with what only the ledger knows."""
        today = utc_day(self.store.clock.now().wall_s)
        self._look_elsewhere()

        def look(book: SpendBook) -> tuple[Total, Total]:
            periods = self._periods(book, wave, today, 0.0)
            return periods[0].total, periods[1].total

        return self.store.read_spend(look, (Total(), Total()))

    def summary(self, wave: str) -> dict[str, Any]:
        """What a report says of wave and day: spent, reserved and ceiling of each unit."""
        of_wave, of_day = self.totals(wave)
        minutes = (time.monotonic() - self.started) / 60
        return {
            "wave": _told(of_wave, self.limits.wave, minutes),
            "day": _told(of_day, self.limits.day, of_day.seconds / 60),
        }

    def _decide(self, book: SpendBook, purpose: Purpose, now: float) -> Decision:
        estimate = self._estimate(book, purpose)
        if (refused := self._unpriced(purpose, estimate)) is not None:
            return refused
        wave, today = purpose.wave, utc_day(now)
        of_wave, of_day = self._periods(book, wave, today, now)
        overruns = book.overruns()
        if overruns:
            running = book.open_uses()
            own = [use for use in running if use.reserved.purpose.wave == wave]
            todays = [use for use in running if use.reserved.stamp.startswith(today)]
            of_wave = _with_more(of_wave, *beyond(own, overruns))
            of_day = _with_more(of_day, *beyond(todays, overruns))
        return ceilings.decide([of_wave, of_day], estimate)

    def _unpriced(self, purpose: Purpose, estimate: Estimate) -> Decision | None:
        if estimate.usd is not None or not self.limits.has_usd or self.limits.allow_unpriced:
            return None
        return Decision(Fit.OVER, period=WAVE, unit=ceilings.USD, reason=_without_price(purpose))

    def _estimate(self, book: SpendBook, purpose: Purpose) -> Estimate:
        known = book.measured(purpose.backend, purpose.model, purpose.phase)
        costs = [usd for _, usd in known if usd is not None]
        tokens = self.limits.default_tokens
        if known:
            tokens = ceilings.percentile_90([count for count, _ in known])
        usd = ceilings.priced(self.price(purpose.model, tokens))
        if costs:
            usd = ceilings.percentile_90(costs)
        return Estimate(tokens, usd, learnt=bool(known))

    def _periods(self, book: SpendBook, wave: str, today: str, now: float) -> list[Period]:
        of_wave, of_day = book.of_wave(wave), book.of_day(today)
        agents = of_day.seconds
        if self.limits.day.minutes is not None:
            agents += sum(max(0.0, now - use.since) for use in book.open_uses())
        seen = book.stamps_since(today) if self._elsewhere.rows else set()
        more, more_of_wave = self._elsewhere.tokens(seen), self._elsewhere.tokens(seen, wave)
        return [
            Period(
                WAVE,
                self.limits.wave,
                replace(of_wave, tokens=of_wave.tokens + more_of_wave),
                (time.monotonic() - self.started) / 60,
            ),
            Period(
                DAILY,
                self.limits.day,
                replace(of_day, tokens=of_day.tokens + more),
                agents / 60,
            ),
        ]

    def _look_elsewhere(self) -> None:
        # Before the store is asked: a row of ours is in the store first, so it counts once.
        limited = (self.limits.wave.tokens, self.limits.day.tokens) != (None, None)
        if self.state_dir is not None and limited:
            with self._looking:  # one of many threads reads it for all
                self._elsewhere = self._elsewhere.looked(self.state_dir)

    def _settle_the_dead(self, transaction: Transaction) -> int:
        """Charge in full what nobody will settle any more; how many there were."""
        now = transaction.now.wall_s
        dead = [use for use in transaction.spend.open_uses() if self._is_dead(use, now)]
        for use in dead:
            self._book(transaction, use.reserved, in_full(use))
        return len(dead)

    def _is_dead(self, use: OpenUse, now: float) -> bool:
        if use.holder == self.holder:
            return False
        # The clock says nothing of who was seen alive: it is set, and machines sleep.
        is_late = now > use.until and not self.is_living(use.holder)
        return is_late or self.is_gone(use.holder)

    def _book(
        self, transaction: Transaction, reserved: Reserved, charge: Charge, usd: Any = None
    ) -> bool:
        booked = transaction.spend.settle(reserved, charge, transaction.now.wall_s)
        if booked:
            told = billed(reserved, charge, usd)
            transaction.append(events.AGENT_TRACES, events.AGENT_BILLED, told, actor=ACTOR)
        return booked


def _with_more(period: Period, tokens: int, usd: int) -> Period:
    total = period.total
    held = replace(
        total,
        reserved_tokens=total.reserved_tokens + tokens,
        reserved_usd=total.reserved_usd + usd,
    )
    return replace(period, total=held)


def read_totals(state_dir: Path, wave: str) -> tuple[Total, Total]:
    """`Budget.totals` of a state folder in which nothing is made or changed."""
    database = state_dir / STATE_DB_FILENAME
    if not database.exists():
        elsewhere = NOTHING_ELSEWHERE.looked(state_dir)
        return Total(tokens=elsewhere.tokens((), wave)), Total(tokens=elsewhere.tokens(()))
    with EventStore(database) as store:
        return Budget(store, Limits(), "", state_dir=state_dir).totals(wave)


def reached_today(state_dir: Path, limits: Limits) -> Decision | None:
    """The ceiling of today that lets nothing more begin, None when there is none."""
    if limits.day == ceilings.Ceilings():
        return None
    _, today = read_totals(state_dir, "")
    period = Period(DAILY, limits.day, today, today.seconds / 60)
    decision = ceilings.decide([period], Estimate(0, 0))
    return decision if decision.fit is Fit.OVER else None


def _without_price(purpose: Purpose) -> str:
    if not purpose.model:
        return (
            "no model is named, so its price is unknown, and money is limited: set [backend] model "
            "and its price under [prices], or [limits] allow_unpriced = true"
        )
    return (
        f"the price of {purpose.model} is unknown and money is limited: name the "
        f"model and its price under [prices], or set [limits] allow_unpriced = true"
    )


def _told(total: Total, limits: ceilings.Ceilings, minutes: float) -> dict[str, Any]:
    usd = None if limits.usd is None else limits.usd / MICRO
    return {
        "tokens": {
            "spent": total.tokens,
            "reserved": total.reserved_tokens,
            "ceiling": limits.tokens,
        },
        "usd": {
            "spent": total.usd / MICRO,
            "reserved": total.reserved_usd / MICRO,
            "ceiling": usd,
        },
        "minutes": {"spent": round(minutes, 2), "ceiling": limits.minutes},
        "dispatches": {"spent": total.dispatches, "ceiling": limits.dispatches},
        "unmetered": total.unmetered,
        "unpriced": total.unpriced,
    }


def tokens(state_dir: Path, since: datetime | None, wave: str | None) -> int:
    """Tokens of all that was settled from `since` on, and of `wave` where one is named.

    Raises InputError for a ledger that cannot be read, and what the store raises.
    """
    rows = all_rows(state_dir, since)  # before the store, where ours are first
    uses = {use.stamp: use for use in _uses(state_dir, since, wave)}
    ledgered = sum(
        row.tokens for row in rows if row.stamp not in uses and (wave is None or row.wave == wave)
    )
    return ledgered + sum(use.charge.tokens for use in uses.values())


def _uses(state_dir: Path, since: datetime | None, wave: str | None) -> list[Use]:
    database = state_dir / STATE_DB_FILENAME
    if not database.exists():
        return []
    stamp = "" if since is None else f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

    def look(book: SpendBook) -> list[Use]:
        found = book.uses_since(stamp) if wave is None else book.uses_of_wave(wave)
        return [use for use in found if use.stamp >= stamp]

    with EventStore(database) as store:
        return store.read_spend(look, list[Use]())
