"""Spending of a wave: reserves room before each dispatch, and settles its use afterwards.

All spending of the engine passes here. A dispatch without room waits until another dispatch, of any
run, settles. If waiting cannot help, the ceiling closes the gate. `pricing` knows the prices.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    ROLE_WORKER,
    AgentDriver,
    Usage,
    WorkerResult,
)
from driver.backend_api.models import own_prices
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.pricing import price
from driver.execution.process_identity import holder_name, is_gone, is_living
from driver.limits.admission import CEILING, HALT, Admission, CheckCeiling, GateClosedError
from state_store.api import StateAPI
from state_store.database.spend import Purpose, Reserved
from state_store.documents.errors import InputError, TidegateError
from state_store.values.lazy_dataclass import dataclass, field
from tools import cost_ceiling
from tools.budget import budget, ceilings, charges
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.charges import Used
from tools.settings.load import Settings

_LOOK_AGAIN_S = 0.5
_UNMETERED = Usage()


@dataclass
class Dispatch:
    """A dispatch with reserved room. `run` starts it. A dispatch that was not run costs nothing.

    `started` is the start of its present try. The use of earlier tries is `booked`."""

    driver: AgentDriver
    purpose: Purpose
    backend: Admission
    reserved: Reserved | None
    started: float = field(default_factory=time.monotonic)
    begun: bool = False
    result: WorkerResult | None = None
    booked: list[Usage] = field(default_factory=list)

    @property
    def has_only_booked(self) -> bool:
        """True if no try has cost anything since the last booking."""
        return bool(self.booked and self.result and self.result.usage == NOTHING_SPENT)

    def run(self, work: Callable[[], WorkerResult]) -> WorkerResult:
        """Run `work`, which may now spend, and return its result."""
        self.begun = True
        self.result = work()
        return self.result


@dataclass
class Spending:
    """The spending of one wave. `budget` is None without a state folder; then there is no ceiling.

    `uses` has phase and usage of every ended dispatch. `recorded` is true if some of this usage
    comes from a recording, which is not paid again. `check_ceiling` replaces `cost_ceiling`'s."""

    wave_id: str
    gates: Admission
    budget: Budget | None = None
    uses: list[tuple[str, Usage]] = field(default_factory=list)
    recorded: bool = False
    check_ceiling: CheckCeiling | None = None

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._ended = 0
        self._open: dict[int, Dispatch] = {}
        self._unsettled: list[tuple[Reserved, Used]] = []
        self._counted_before: dict[int, int] = {}
        self._charged = Counter[int]()
        self.on_wait: Callable[[str, str | None], None] = lambda *_: None  # `PhaseNotes.room`

    @contextmanager
    def dispatch(
        self,
        driver: AgentDriver,
        item: str,
        *,
        phase: str,
        number: int,
        model: str | None,
        backend: Admission | None = None,
    ) -> Iterator[Dispatch]:
        """Reserve room for one dispatch; settle its use when the block ends. `backend` is the
        admission of a backend other than the wave's.

        Raises GateClosedError or InterruptedWaveError if nothing may start.
        """
        purpose = Purpose(self.wave_id, item, number, phase, driver.name, _model(driver, model))
        self._counted_before.setdefault(_key(driver), _counter(driver))
        gates = backend or self.gates
        one = Dispatch(driver, purpose, gates, self._reserve(purpose, gates))
        self._open[id(one)] = one
        try:
            yield one
        finally:
            self._end(one)

    def next_try(self, one: Dispatch, usage: Usage) -> None:
        """Book the use of a try of a running dispatch, and reserve room for its next try.

        Raises GateClosedError or InterruptedWaveError if no other try may start.
        """
        tried = WorkerResult("", usage=usage, failure=FAILURE_COULD_NOT_RUN)
        with self._changed:
            if id(one) not in self._open:
                raise GateClosedError(HALT, "the wave no longer waits for this dispatch")
            used = self._used(one, tried)
            reserved, one.reserved = one.reserved, None
            self.uses.append((one.purpose.phase, usage))
            one.booked.append(usage)
        self._settle(reserved, used)
        self._tell()
        self.check(one.backend)
        again = self._reserve(one.purpose, one.backend)
        with self._changed:
            one.started, one.reserved = time.monotonic(), again
            gone = id(one) not in self._open
        if gone and self.budget and again:
            self.budget.cancel(again)

    def check(self, backend: Admission | None = None) -> None:
        """Raise InterruptedWaveError or GateClosedError if no dispatch may start: after a signal or
        a halt, at a ceiling, or if the backend takes no work."""
        self.gates.check()
        if self.budget is not None:
            with self._ceilings():
                self.budget.check(self.wave_id)
        (backend or self.gates).check_backend()

    def require_price(
        self, driver: AgentDriver, item: str, *, phase: str, model: str | None
    ) -> None:
        """Raise GateClosedError if a ceiling needs the price of this dispatch and it is unknown."""
        if self.budget is not None:
            purpose = Purpose(self.wave_id, item, 1, phase, driver.name, _model(driver, model))
            with self._ceilings():
                self.budget.require_price(purpose)

    def give_up(self) -> None:
        """Charge running dispatches in full, because the wave no longer waits for them."""
        for mark in list(self._open):
            if (left := self._open.pop(mark, None)) is not None:
                self.uses.append((left.purpose.phase, _UNMETERED))
                self._settle(left.reserved, Used(verdict=charges.HUNG))
        self._settle_again()

    @property
    def problem(self) -> str | None:
        """The error of a failed write to the ledger, as a sentence."""
        return self.budget.problem if self.budget else None

    def summary(self) -> dict[str, Any] | None:
        """The `budget` of the report."""
        return self.budget.summary(self.wave_id) if self.budget else None

    def ceiling_at_the_end(self) -> dict[str, Any] | None:
        """The `ceiling` of the report: the wave's token ceiling, or the ceiling that left work
        undone. If work is left, the halt switch is set, so that the user looks. Finished work is
        shipped by then."""
        if self.budget is None or self.gates.state_dir is None:
            return None
        closed = self.gates.closed
        left = closed is not None and closed.gate == CEILING
        answer = self._asked(self.budget, trip=left)
        if left and closed and closed.answer and not answer["exceeded"]:
            return dict(closed.answer)
        return answer

    def _asked(self, budget: Budget, *, trip: bool) -> dict[str, Any]:
        check = self.check_ceiling or cost_ceiling.check
        spent = budget.totals(self.wave_id)[0].tokens
        config = {"limits": {"max_wave_tokens": budget.limits.wave.tokens}}
        return check(spent=spent, trip=trip, state_dir=self.gates.state_dir, config=config)

    def _reserve(self, purpose: Purpose, backend: Admission) -> Reserved | None:
        if self.budget is None:
            return None
        with self._ceilings():
            if (answer := self._asked(self.budget, trip=False)).get("exceeded"):
                raise self.gates.reached(answer)
        waited = False
        while True:
            ended = self._ended
            self.gates.check()
            with self._ceilings():
                found = self.budget.reserve(purpose)
            if waited is isinstance(found, Reserved):
                self.on_wait(purpose.item, purpose.phase if waited else None)
            if isinstance(found, Reserved):
                return found
            waited = True
            self._settle_again()  # what could not be written holds room as well
            with self._changed:
                if self._ended == ended:
                    self._changed.wait(_LOOK_AGAIN_S)
            backend.check_backend()  # it may have closed during the wait

    @contextmanager
    def _ceilings(self) -> Iterator[None]:
        """Close the gate if a ceiling refuses or the ledger cannot be trusted."""
        try:
            yield
        except OverBudgetError as over:
            raise self.gates.over_budget(over.decision) from over
        except InputError as error:
            raise self.gates.unavailable(error) from error

    def _end(self, one: Dispatch) -> None:
        with self._changed:
            if self._open.pop(id(one), None) is None:
                return  # `give_up` has charged it
            costs = one.begun and not one.has_only_booked
            used = self._used(one, one.result) if costs else None
        if used is not None:
            self.uses.append((one.purpose.phase, one.result.usage if one.result else _UNMETERED))
            self._settle(one.reserved, used)
        elif self.budget and one.reserved:
            with suppress(TidegateError):  # the next run charges the reservation in full
                self.budget.cancel(one.reserved)
        self._tell()

    def _tell(self) -> None:
        """Wake the dispatches that wait for room."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def _used(self, one: Dispatch, result: WorkerResult | None) -> Used:
        """The use to settle. The backend's token counter is a lower bound of an unknown use."""
        if result is None or result.failure == FAILURE_TIMED_OUT:
            verdict = charges.HUNG
        elif result.ok:
            verdict = charges.OK
        else:
            could_not_run = result.failure == FAILURE_COULD_NOT_RUN
            verdict = charges.EMPTY if could_not_run else charges.FAILED
        usage, key, counted = result.usage if result else _UNMETERED, _key(one.driver), 0
        if is_replay(one.driver):
            self.recorded, usage = True, Usage(0, 0, 0.0)
        else:
            running = [two for two in tuple(self._open.values()) if _key(two.driver) == key]
            covered = self._charged[key] + sum(r.reserved.tokens for r in running if r.reserved)
            with suppress(Exception):  # without a counter the whole reservation is charged
                counted = _counter(one.driver) - self._counted_before[key] - covered
        used = Used(
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            tokens=usage.total_tokens,
            usd=usage.cost_usd,
            least_tokens=max(ceilings.counted(usage.known_tokens) or 0, counted),
            least_usd=usage.least_usd,
            seconds=time.monotonic() - one.started,
            verdict=verdict,
            model=result.model if result else None,
        )
        if one.reserved:
            self._charged[key] += charges.charge_of(one.reserved, used).tokens
        return used

    def _settle_again(self) -> None:
        """Retry the settlements that failed, because only this process knows their use."""
        with self._changed:  # else two waiting dispatches may settle the same use
            again, self._unsettled = self._unsettled, []
            if self.budget and again:
                self.budget.problem = None
        for reserved, used in again:
            self._settle(reserved, used)

    def _settle(self, reserved: Reserved | None, used: Used) -> None:
        if self.budget is None or reserved is None:
            return
        try:
            self.budget.settle(reserved, used)
        except TidegateError as error:  # the work is done; the next run charges the reservation
            with self._changed:
                self.budget.problem = str(error)
                self._unsettled.append((reserved, used))


@contextmanager
def opened(
    api: StateAPI | None,
    wave_id: str,
    gates: Admission,
    settings: Settings,
    drivers: Sequence[AgentDriver],
    longest_s: float | None = None,
) -> Iterator[Spending]:
    """Open the spending of a wave by `drivers`. Charges the reservations of dead runs first. No
    dispatch takes longer than `longest_s` seconds."""
    if api is None:
        yield Spending(wave_id, gates)
        return
    kept = Budget(
        api.store,
        ceilings.Limits.of(settings.limits),
        holder_name(),
        is_gone,
        lambda model, tokens: price(drivers, model, tokens, own_prices(settings.prices)),
        hold_s=2 * (longest_s or settings.backend.timeout_s) + budget.HOLD_S,
        state_dir=api.store.path.parent,
        is_living=is_living,
    )
    kept.recover()
    spending = Spending(wave_id, gates, kept)
    try:
        yield spending
    finally:
        spending.give_up()
        kept.close()


def is_replay(driver: AgentDriver) -> bool:
    """True if a backend repeats recorded answers, whose usage is not paid again."""
    return driver.probe_capabilities().replays


def _model(driver: AgentDriver, model: str | None) -> str:
    return str(model or driver.resolve_model(ROLE_WORKER) or "")


def _key(driver: AgentDriver) -> int:
    """The identity of a backend, even if it is not hashable or wrapped again."""
    return id(getattr(driver, "inner", driver))


def _counter(driver: AgentDriver) -> int:
    """The tokens that a backend reports so far; 0 if it does not count."""
    return ceilings.counted(driver.get_tokens_spent()) or 0
