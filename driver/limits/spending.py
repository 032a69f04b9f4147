"""Spending of a wave: reserves room before each dispatch and settles its use after it.

The only place where the engine spends. A dispatch without room waits until another dispatch, of any
run, settles. A ceiling that leaves no room for good closes the gate. Prices are `pricing`'s.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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
from driver.backends.pricing import price
from driver.execution.process_identity import holder_name, is_gone, is_living
from driver.limits.admission import CEILING, Admission
from state_store.api import StateAPI
from state_store.database.spend import Purpose, Reserved
from state_store.documents.errors import InputError, TidegateError
from tools import cost_ceiling
from tools.budget import budget, ceilings, charges
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.charges import Used
from tools.settings.load import Settings

_LOOK_AGAIN_S = 0.5
_UNMETERED = Usage()


@dataclass
class Dispatch:
    """A dispatch that has room. `run` starts it; one that was never run costs nothing."""

    driver: AgentDriver
    phase: str
    reserved: Reserved | None
    begun: bool = False
    result: WorkerResult | None = None

    def run(self, work: Callable[[], WorkerResult]) -> WorkerResult:
        """Do `work`, which may spend from now on, and return its result."""
        self.begun = True
        self.result = work()
        return self.result


@dataclass
class Spending:
    """The spending of one wave. Without a `budget` (no state folder) there is no ceiling.

    `uses` has phase and usage of every ended dispatch; `recorded` says that some of them repeat the
    usage of a recording, which is not paid a second time.
    """

    wave_id: str
    gates: Admission
    budget: Budget | None = None
    uses: list[tuple[str, Usage]] = field(default_factory=list)
    recorded: bool = False

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._ended = 0
        self._open: dict[int, Dispatch] = {}
        self._unsettled: list[tuple[Reserved, Used]] = []
        self._counted_before: dict[int, int] = {}
        self._charged = Counter[int]()

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
        """Room for one dispatch; its use is settled when the block ends. `backend` is the admission
        of a backend that is not the wave's.

        Raises GateClosedError and InterruptedWaveError, and then nothing may be started.
        """
        purpose = Purpose(self.wave_id, item, number, phase, driver.name, _model(driver, model))
        self._counted_before.setdefault(_key(driver), _counter(driver))
        reserved = self._reserve(purpose, backend or self.gates)
        one = Dispatch(driver, phase, reserved)
        started = time.monotonic()
        self._open[id(one)] = one
        try:
            yield one
        finally:
            self._end(one, time.monotonic() - started)

    def check(self, backend: Admission | None = None) -> None:
        """Raise InterruptedWaveError or GateClosedError if no dispatch may begin: stopped, halted,
        a ceiling is reached, or the backend takes no work."""
        self.gates.check()
        if self.budget is not None:
            with self._ceilings():
                self.budget.check(self.wave_id)
        (backend or self.gates).check_backend()

    def require_price(
        self, driver: AgentDriver, item: str, *, phase: str, model: str | None
    ) -> None:
        """Raise GateClosedError if such a dispatch would be refused later because its price is
        unknown."""
        if self.budget is not None:
            purpose = Purpose(self.wave_id, item, 1, phase, driver.name, _model(driver, model))
            with self._ceilings():
                self.budget.require_price(purpose)

    def give_up(self) -> None:
        """Charge running dispatches in full, since the wave waits for them no longer, and settle
        again what could not be settled: only this process knows its use."""
        for mark in list(self._open):
            if (left := self._open.pop(mark, None)) is not None:
                self.uses.append((left.phase, _UNMETERED))
                self._settle(left.reserved, Used(verdict=charges.HUNG))
        again, self._unsettled = self._unsettled, []
        if self.budget and again:
            self.budget.problem = None
        for reserved, used in again:
            self._settle(reserved, used)

    @property
    def problem(self) -> str | None:
        """The error that kept the ledger from being written, as a sentence."""
        return self.budget.problem if self.budget else None

    def summary(self) -> dict[str, Any] | None:
        """The `budget` of the report."""
        return self.budget.summary(self.wave_id) if self.budget else None

    def ceiling_at_the_end(self) -> dict[str, Any] | None:
        """The `ceiling` of the report: the wave against its ceiling of tokens, or the ceiling that
        left work undone. A ceiling that is reached with work left sets the halt switch for the user
        to look; finished work is shipped by then."""
        if self.budget is None or self.gates.state_dir is None:
            return None
        closed = self.gates.closed
        left = closed is not None and closed.gate == CEILING
        answer = cost_ceiling.check(
            spent=self.budget.totals(self.wave_id)[0].tokens,
            trip=left,
            state_dir=self.gates.state_dir,
            config={"limits": {"max_wave_tokens": self.budget.limits.wave.tokens}},
        )
        if left and closed and closed.answer and not answer["exceeded"]:
            return dict(closed.answer)
        return answer

    def _reserve(self, purpose: Purpose, backend: Admission) -> Reserved | None:
        if self.budget is None:
            return None
        while True:
            ended = self._ended
            self.gates.check()
            with self._ceilings():
                found = self.budget.reserve(purpose)
            if isinstance(found, Reserved):
                return found
            with self._changed:
                if self._ended == ended:
                    self._changed.wait(_LOOK_AGAIN_S)
            backend.check_backend()  # it may have closed meanwhile

    @contextmanager
    def _ceilings(self) -> Iterator[None]:
        """Close the gate for a ceiling that refuses, and for a ledger that cannot be believed."""
        try:
            yield
        except OverBudgetError as over:
            raise self.gates.over_budget(over.decision) from over
        except InputError as error:
            raise self.gates.unavailable(error) from error

    def _end(self, one: Dispatch, seconds: float) -> None:
        with self._changed:
            if self._open.pop(id(one), None) is None:
                return  # given up, and charged by then
            used = self._used(one, seconds) if one.begun else None
        if used is not None:
            self.uses.append((one.phase, one.result.usage if one.result else _UNMETERED))
            self._settle(one.reserved, used)
        elif self.budget and one.reserved:
            with suppress(TidegateError):  # then the next run charges it, and never too little
                self.budget.cancel(one.reserved)
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def _used(self, one: Dispatch, seconds: float) -> Used:
        """The use to be settled. The backend's own counter bounds an unknown one from below."""
        result = one.result
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
            held = sum(two.reserved.tokens for two in running if two.reserved)
            covered = self._charged[key] + held
            with suppress(Exception):  # a foreign backend's; then the use counts as reserved
                counted = _counter(one.driver) - self._counted_before[key] - covered
        used = Used(
            tokens_in=usage.input_tokens,
            tokens_out=usage.output_tokens,
            tokens=usage.total_tokens,
            usd=usage.cost_usd,
            least_tokens=max(ceilings.counted(usage.known_tokens) or 0, counted),
            least_usd=usage.least_usd,
            seconds=seconds,
            verdict=verdict,
            model=result.model if result else None,
        )
        if one.reserved:
            self._charged[key] += charges.charge_of(one.reserved, used).tokens
        return used

    def _settle(self, reserved: Reserved | None, used: Used) -> None:
        if self.budget is None or reserved is None:
            return
        try:
            self.budget.settle(reserved, used)
        except TidegateError as error:  # the work is there; the next run charges its reservation
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
    """The spending of a wave by `drivers`, no dispatch of which takes longer than `longest_s`
    seconds. Reservations of dead runs are charged first."""
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
    """True if a backend repeats recorded answers: the usage it reports is not paid again."""
    return driver.probe_capabilities().replays


def _model(driver: AgentDriver, model: str | None) -> str:
    return str(model or driver.resolve_model(ROLE_WORKER) or "")


def _key(driver: AgentDriver) -> int:
    """The identity of a backend, also of one that cannot be hashed or is wrapped anew."""
    return id(getattr(driver, "inner", driver))


def _counter(driver: AgentDriver) -> int:
    """The tokens that a backend says it has used so far, 0 if it does not count them."""
    return ceilings.counted(driver.get_tokens_spent()) or 0
