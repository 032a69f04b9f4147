"""What dispatches of a wave cost: room is taken before each, and what it used is booked after it.

The one place where the engine spends. Who waits here waits for others of the wave, or of another
run, to end; a ceiling that cannot be kept any more closes the gate. What a use is worth is
`pricing`'s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

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
from driver.limits.admission import Admission
from state_store.api import StateAPI
from state_store.database.spend import Purpose, Reserved
from state_store.documents.errors import InputError, TidegateError
from tools.budget import budget, ceilings, charges
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.charges import Used
from tools.settings.load import Settings

_LOOK_AGAIN_S = 0.5
_UNMETERED = Usage()
_NOTHING = Usage(0, 0, 0.0)
_told_before: MutableMapping[Any, int] = WeakKeyDictionary()


@dataclass
class Dispatch:
    """One that has room. `run` starts it; what was never run costs nothing."""

    begun: bool = False
    replayed: bool = False
    result: WorkerResult | None = None

    def run(self, work: Callable[[], WorkerResult]) -> WorkerResult:
        """The answer of `work`, which may spend from now on."""
        self.begun = True
        self.result = work()
        return self.result


@dataclass
class Spending:
    """Of one wave. Without a `budget` (no state folder) there is no ceiling and nothing is kept.

    `uses` are phase and usage of every dispatch that has ended; `recorded` is whether any of them
    tells what was used when it was recorded, which nobody pays a second time.
    """

    wave_id: str
    gates: Admission
    budget: Budget | None = None
    uses: list[tuple[str, Usage]] = field(default_factory=list)
    recorded: bool = False

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._ended = 0
        self._open: dict[int, tuple[str, Reserved | None]] = {}
        self._unbooked: list[tuple[Reserved, Used]] = []

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
        """Room for one dispatch; what it used is booked when the block ends. `backend` are the
        gates of a backend that is not the wave's.

        Raises GateClosedError and InterruptedWaveError, and then nothing may be started.
        """
        purpose = Purpose(self.wave_id, item, number, phase, driver.name, _named(driver, model))
        one = Dispatch(replayed=is_replay(driver))
        reserved = self._reserve(purpose, backend or self.gates)
        mark = id(one)
        started = time.monotonic()
        self._open[mark] = (phase, reserved)
        try:
            yield one
        finally:
            if self._open.pop(mark, None) is not None:
                self._end(one, phase, reserved, time.monotonic() - started)

    def require_price(
        self, driver: AgentDriver, item: str, *, phase: str, model: str | None
    ) -> None:
        """Raise GateClosedError where such a dispatch would be refused for its price later on."""
        if self.budget is None:
            return
        purpose = Purpose(self.wave_id, item, 1, phase, driver.name, _named(driver, model))
        try:
            self.budget.require_price(purpose)
        except OverBudgetError as over:
            raise self.gates.over_budget(over.decision) from over

    def give_up(self) -> None:
        """Book in full what is still under way: the wave does not wait for it any longer. And once
        more what could not be booked: only we know what it used."""
        for mark in list(self._open):
            left = self._open.pop(mark, None)
            if left is not None:
                self._book(left[0], _UNMETERED, left[1], Used(verdict=charges.HUNG))
        again, self._unbooked = self._unbooked, []
        if self.budget and again:
            self.budget.problem = None
        for reserved, used in again:
            self._settle(reserved, used)

    def tokens(self, told: int) -> int:
        """What this wave has spent, as far as books or the backend (`told`) say."""
        booked = self.budget.totals(self.wave_id)[0].tokens if self.budget else 0
        return max(booked, told)

    def tokens_of_day(self) -> int | None:
        """What this UTC day has seen spent; None where nothing is kept."""
        return self.budget.totals(self.wave_id)[1].tokens if self.budget else None

    @property
    def problem(self) -> str | None:
        """What kept the ledger from being written, as a sentence."""
        return self.budget.problem if self.budget else None

    def summary(self) -> dict[str, Any] | None:
        """What a report says of it."""
        return self.budget.summary(self.wave_id) if self.budget else None

    def _reserve(self, purpose: Purpose, backend: Admission) -> Reserved | None:
        if self.budget is None:
            return None
        while True:
            ended = self._ended
            self.gates.check()
            try:
                found = self.budget.reserve(purpose)
            except OverBudgetError as over:
                raise self.gates.over_budget(over.decision) from over
            except InputError as error:  # a ledger that cannot be believed
                raise self.gates.unavailable(error) from error
            if isinstance(found, Reserved):
                return found
            with self._changed:
                if self._ended == ended:
                    self._changed.wait(_LOOK_AGAIN_S)
            self.gates.check_money()
            backend.check_backend()  # it may have closed meanwhile

    def _end(self, one: Dispatch, phase: str, reserved: Reserved | None, seconds: float) -> None:
        if one.begun:
            usage = one.result.usage if one.result else _UNMETERED
            self.recorded |= one.replayed
            spent = _NOTHING if one.replayed else usage
            self._book(phase, usage, reserved, _used(spent, one.result, seconds))
        elif self.budget and reserved:
            with suppress(TidegateError):  # then the next run counts it, and never too little
                self.budget.cancel(reserved)
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def _book(self, phase: str, usage: Usage, reserved: Reserved | None, used: Used) -> None:
        self.uses.append((phase, usage))
        if reserved:
            self._settle(reserved, used)

    def _settle(self, reserved: Reserved, used: Used) -> None:
        if self.budget is None:
            return
        try:
            self.budget.settle(reserved, used)
        except TidegateError as error:  # the work is there; the next run books its reservation
            self.budget.problem = str(error)
            self._unbooked.append((reserved, used))


def _named(driver: AgentDriver, model: str | None) -> str:
    return str(model or driver.resolve_model(ROLE_WORKER) or "")


@contextmanager
def opened(
    api: StateAPI | None,
    wave_id: str,
    gates: Admission,
    settings: Settings,
    drivers: Sequence[AgentDriver],
    longest_s: float | None = None,
) -> Iterator[Spending]:
    """The spending of a wave by `drivers`, no dispatch of which takes longer than `longest_s`; what
    dead runs had reserved is booked first."""
    if api is None:
        yield Spending(wave_id, gates)
        return
    books = Budget(
        api.store,
        ceilings.Limits.of(settings.limits),
        holder_name(),
        is_gone,
        lambda model, tokens: price(drivers, model, tokens, own_prices(settings.prices)),
        hold_s=2 * (longest_s or settings.backend.timeout_s) + budget.HOLD_S,
        state_dir=api.store.path.parent,
        is_living=is_living,
    )
    books.recover()
    found = Spending(wave_id, gates, books)
    gates.tokens_spent = lambda: found.tokens(tokens_reported(drivers))
    gates.tokens_of_day = found.tokens_of_day
    try:
        yield found
    finally:
        found.give_up()
        books.close()
        for driver in drivers:
            with suppress(TypeError):
                _told_before[_key(driver)] = _told(driver)


def tokens_reported(drivers: Iterable[AgentDriver]) -> int:
    """Tokens by the backends' own counts, without those of earlier waves of this process."""
    paid = (driver for driver in drivers if not is_replay(driver))
    return sum(max(0, _told(driver) - _before(driver)) for driver in paid)


def is_replay(driver: AgentDriver) -> bool:
    """Whether what a backend tells was used when its answers were recorded, and not now."""
    return driver.probe_capabilities().replays


def _before(driver: AgentDriver) -> int:
    try:
        return _told_before.get(_key(driver), 0)
    except TypeError:  # a foreign backend that cannot be a key
        return 0


def _told(driver: AgentDriver) -> int:
    return ceilings.counted(driver.get_tokens_spent()) or 0


def _key(driver: AgentDriver) -> Any:
    return getattr(driver, "inner", driver)


def _used(usage: Usage, result: WorkerResult | None, seconds: float) -> Used:
    return Used(
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        tokens=usage.total_tokens,
        usd=usage.cost_usd,
        least_tokens=usage.known_tokens,
        least_usd=usage.least_usd,
        seconds=seconds,
        verdict=_verdict(result),
        model=result.model if result else None,
    )


def _verdict(result: WorkerResult | None) -> str:
    """The ledger's word for how a dispatch ended; whether its work is any good comes later."""
    if result is None or result.failure == FAILURE_TIMED_OUT:
        return charges.HUNG
    if result.ok:
        return charges.OK
    return charges.EMPTY if result.failure == FAILURE_COULD_NOT_RUN else charges.FAILED
