"""The budget: reserves room before each dispatch, and charges its use afterwards.

All processes share one store, so the sum of spent and reserved never exceeds a ceiling. Unknown
uses and reservations of dead processes count in full. The engine waits for room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from state_store.database import events
from state_store.database.interface import Store, StoreTransaction
from state_store.database.spend import (
    Charge,
    Purpose,
    Reserved,
    SpendBook,
    Total,
    utc_day,
)
from state_store.documents.errors import StoppedByPolicyError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.place import has_begun, open_store
from state_store.values.lazy_dataclass import dataclass, field, replace
from state_store.write_api import STATE_DB_FILENAME
from tools.budget import ceilings
from tools.budget.ceilings import DAILY, WAVE, Ceilings, Decision, Estimate, Fit, Limits, Period
from tools.budget.charges import HUNG, Used, billed, charge_of, with_overruns
from tools.ledger.rows import all_rows, not_in_store, signature
from tools.ledger.writer import LedgerWriter

T = TypeVar("T")
ACTOR = "budget"
HOLD_S = 7200.0
DAY_S = 86_400.0
_NOTHING = Estimate(0, 0)


class OverBudgetError(StoppedByPolicyError):
    """A ceiling refuses a dispatch. `decision` names the ceiling."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(decision.reason)


@dataclass
class Budget:
    """The budget of a run.

    `holder` names this process. `is_gone` tells if the process of another holder has ended. A
    reservation older than `hold_s` seconds is dead too, unless `is_living` is true for its holder.
    `price` returns the cost in USD of tokens of a model, None if unknown. `problem` is the error of
    a failed write to the ledger.
    """

    store: Store
    limits: Limits
    holder: str
    is_gone: Callable[[str], bool] = lambda _: False
    price: Callable[[str, int], float | None] = lambda _model, _tokens: None
    hold_s: float = HOLD_S
    state_dir: Path | None = None
    is_living: Callable[[str], bool] = lambda _: False
    started: float = field(default_factory=time.monotonic)
    problem: str | None = None

    def __post_init__(self) -> None:
        self._importing = threading.Lock()
        self._imported: tuple[object, ...] = ()
        folder = self.state_dir
        self.ledger = LedgerWriter(folder, self.store) if folder is not None else None

    def reserve(self, purpose: Purpose) -> Reserved | Decision:
        """Reserve room for a dispatch. Returns the refusal if there is no room now.

        Raises OverBudgetError if there will be no room even after all running dispatches,
        InputError for an unreadable ledger.
        """
        self._import_ledger()
        answers: list[Reserved | Decision] = []

        def job(transaction: StoreTransaction) -> int:
            book, now = transaction.spend, transaction.now.wall_s
            self._settle_the_dead(transaction)
            decision = self._decide(book, purpose, now)
            if decision.fit is not Fit.FITS:
                answers[:] = [decision]
                return 0
            until = now + self.hold_s
            held = book.reserve(purpose, self.holder, decision.tokens, decision.usd, now, until)
            answers[:] = [held]  # the job may run again
            return held.id

        self.store.joined(job)
        answer = answers[0]
        if isinstance(answer, Reserved):
            failpoint("budget.reserved")
        elif answer.fit is Fit.OVER:
            raise OverBudgetError(answer)
        return answer

    def require_price(self, purpose: Purpose) -> None:
        """Raise OverBudgetError if money is limited and the price of the dispatch is unknown."""

        def look(book: SpendBook) -> Decision | None:
            return self._unpriced(purpose, self._estimate(book, purpose))

        if (refused := self.store.read_spend(look, None)) is not None:
            raise OverBudgetError(refused)

    def check(self, wave: str) -> None:
        """Raise OverBudgetError if a ceiling of the wave or of today is reached, InputError for an
        unreadable ledger. A ceiling that is only near raises nothing."""
        self._import_ledger()
        decision = ceilings.decide(self._periods_now(wave), _NOTHING)
        if decision.fit is Fit.OVER:
            raise OverBudgetError(decision)

    def settle(self, reserved: Reserved, used: Used) -> Charge:
        """Charge the use of a dispatch in the store, in the agents' traces and in the ledger. For
        an unknown or invalid use the reservation is charged."""
        charge = charge_of(reserved, used)

        def job(transaction: StoreTransaction) -> int:
            return int(self._charge(transaction, reserved, charge, used.usd))

        failpoint("budget.before_settle")
        self.store.joined(job)
        failpoint("budget.settled")
        self.update_ledger()
        return charge

    def cancel(self, reserved: Reserved) -> None:
        """Cancel the reservation of a dispatch that did not start."""
        self.store.joined(lambda transaction: int(transaction.spend.cancel(reserved)))

    def recover(self) -> None:
        """Charge the reservations of processes that died, and bring the ledger up to date."""
        self.store.joined(self._settle_the_dead)
        self.update_ledger()

    def update_ledger(self) -> None:
        """Write settled uses into the ledger. A failure goes into `problem`; the store has all
        uses."""
        self._on_ledger(LedgerWriter.update)

    def close(self) -> None:
        """Write the remaining uses into the ledger, and mark them in the store."""
        self._on_ledger(LedgerWriter.close)

    def totals(self, wave: str) -> tuple[Total, Total]:
        """The totals of the wave and of today, with imported rows of other programs."""
        of_wave, of_day = self._periods_now(wave)
        return of_wave.total, of_day.total

    def summary(self, wave: str) -> dict[str, Any]:
        """The `budget` of a report: spent, reserved and ceiling of each unit, for wave and day."""
        of_wave, of_day = self.totals(wave)
        minutes = (time.monotonic() - self.started) / 60
        return {
            "wave": Period(WAVE, self.limits.wave, of_wave, minutes).as_json(),
            "day": Period(DAILY, self.limits.day, of_day, of_day.seconds / 60).as_json(),
        }

    def _on_ledger(self, write: Callable[[LedgerWriter], None]) -> None:
        try:
            if self.ledger is not None:
                write(self.ledger)
        except TidegateError as error:
            self.problem = str(error)

    def _decide(self, book: SpendBook, purpose: Purpose, now: float) -> Decision:
        estimate = self._estimate(book, purpose)
        if (refused := self._unpriced(purpose, estimate)) is not None:
            return refused
        periods = self._periods(book, purpose.wave, now)
        if overruns := book.overruns():
            running = book.open_uses()
            own = [use for use in running if use.reserved.purpose.wave == purpose.wave]
            todays = [use for use in running if use.reserved.stamp.startswith(utc_day(now))]
            periods = [
                replace(period, total=with_overruns(period.total, uses, overruns))
                for period, uses in zip(periods, (own, todays), strict=True)
            ]
        return ceilings.decide(periods, estimate)

    def _unpriced(self, purpose: Purpose, estimate: Estimate) -> Decision | None:
        """The refusal if money is limited and the price is unknown, else None."""
        limits = self.limits
        has_usd = limits.wave.usd is not None or limits.day.usd is not None
        if estimate.usd is not None or not has_usd or limits.allow_unpriced:
            return None
        reason = (
            f"the price of {purpose.model} is unknown and money is limited: name the "
            f"model and its price under [prices], or set [limits] allow_unpriced = true"
            if purpose.model
            else "no model is named, so its price is unknown, and money is limited: set [backend] "
            "model and its price under [prices], or [limits] allow_unpriced = true"
        )
        return Decision(Fit.OVER, period=WAVE, unit=ceilings.USD, reason=reason)

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

    def _periods_now(self, wave: str) -> list[Period]:
        now = self.store.clock.now().wall_s
        nothing = [Period(WAVE, self.limits.wave, Total()), Period(DAILY, self.limits.day, Total())]
        return self.store.read_spend(lambda book: self._periods(book, wave, now), nothing)

    def _periods(self, book: SpendBook, wave: str, now: float) -> list[Period]:
        of_wave, of_day = book.of_wave(wave), book.of_day(utc_day(now))
        agents = of_day.seconds
        if self.limits.day.minutes is not None:
            agents += sum(max(0.0, now - use.since) for use in book.open_uses())
        minutes = (time.monotonic() - self.started) / 60
        return [
            Period(WAVE, self.limits.wave, of_wave, minutes),
            Period(DAILY, self.limits.day, of_day, agents / 60),
        ]

    def _import_ledger(self) -> None:
        """Charge today's ledger rows of other programs. Reads the ledger only after a change."""
        limited = (self.limits.wave.tokens, self.limits.day.tokens) != (None, None)
        if self.state_dir is None or not limited:
            return
        now = self.store.clock.now().wall_s
        midnight, today = now - now % DAY_S, utc_day(now)
        with self._importing:  # one thread reads the ledger for all
            seen = (today, *signature(self.state_dir))
            if seen == self._imported:
                return
            # Before the store is read: our rows are in the store first, so they count once.
            rows = all_rows(self.state_dir, datetime.fromtimestamp(midnight, UTC))
            uses = self.store.read_spend(lambda b: b.tokens_since(midnight), dict[str, int]())
            if new := not_in_store(rows, uses):
                self.store.joined(lambda transaction: transaction.spend.import_uses(new, today))
            self._imported = seen

    def _settle_the_dead(self, transaction: StoreTransaction) -> int:
        """Charge the reservations of dead holders in full; returns their number."""
        book, now = transaction.spend, transaction.now.wall_s
        dead = [  # one row for each holder first, because all other writers wait
            use
            for holder, until in book.open_holders()
            if self._is_dead(holder, until, now)
            for use in book.open_uses(holder)
            if self._is_dead(holder, use.until, now)
        ]
        for use in dead:
            charge = charge_of(use.reserved, Used(verdict=HUNG))
            self._charge(transaction, use.reserved, charge)
        return len(dead)

    def _is_dead(self, holder: str, until: float, now: float) -> bool:
        if holder == self.holder:
            return False
        # Time proves nothing if the holder is alive: clocks are set, and machines sleep.
        is_late = now > until and not self.is_living(holder)
        return is_late or self.is_gone(holder)

    def _charge(
        self, transaction: StoreTransaction, reserved: Reserved, charge: Charge, usd: Any = None
    ) -> bool:
        settled = transaction.spend.settle(reserved, charge, transaction.now.wall_s)
        if settled:
            payload = billed(reserved, charge, usd)
            transaction.append(events.AGENT_TRACES, events.AGENT_BILLED, payload, actor=ACTOR)
        return settled


def read_totals(state_dir: Path, wave: str) -> tuple[Total, Total]:
    """The totals of the wave and of today, including today's rows that are only in the ledger.

    Changes nothing. Raises InputError for an unreadable ledger.
    """
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = all_rows(state_dir, midnight)  # before the store, which has ours first

    def look(book: SpendBook) -> tuple[Total, Total, dict[str, int]]:
        since = midnight.timestamp()
        return book.of_wave(wave), book.of_day(utc_day(since)), book.tokens_since(since)

    of_wave, of_day, known = _read(state_dir, look, (Total(), Total(), dict[str, int]()))
    missing = not_in_store(rows, known)
    in_wave = sum(use.tokens for use in missing if use.wave == wave)
    in_day = sum(use.tokens for use in missing)
    return (
        replace(of_wave, tokens=of_wave.tokens + in_wave),
        replace(of_day, tokens=of_day.tokens + in_day),
    )


def reached_before(state_dir: Path, limits: Limits) -> Decision | None:
    """The ceiling that stops a new wave: a reached ceiling of today, or a wave ceiling of 0 tokens.

    Changes nothing. Raises InputError for an unreadable ledger.
    """
    nothing = Total()
    today = read_totals(state_dir, "")[1] if limits.day != Ceilings() else nothing
    periods = [
        Period(WAVE, Ceilings(tokens=limits.wave.tokens), nothing),
        Period(DAILY, limits.day, today, today.seconds / 60),
    ]
    decision = ceilings.decide(periods, _NOTHING)
    return decision if decision.fit is Fit.OVER else None


def tokens(state_dir: Path, since: datetime | None, wave: str | None) -> int:
    """Tokens of all settled uses from `since` on, of `wave` if named.

    Raises InputError for an unreadable ledger, and the errors of the store.
    """
    rows = all_rows(state_dir, since)  # before the store, which has ours first
    start = 0.0 if since is None else since.timestamp()
    known = _read(state_dir, lambda book: book.tokens_since(start, wave), dict[str, int]())
    missing = not_in_store(rows, known)
    return sum(known.values()) + sum(use.tokens for use in missing if wave in (None, use.wave))


def _read(state_dir: Path, look: Callable[[SpendBook], T], nothing: T) -> T:
    """Read from the store of a state folder; `nothing` if there is no store."""
    database = state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        return nothing
    with open_store(database) as store:
        return store.read_spend(look, nothing)
