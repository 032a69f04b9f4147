"""The gate before a provider, shared by all worker threads of a backend.

After a transient fault no call starts for a while. Then one call starts as a probe, and the other
calls wait for its outcome. `Gate` decides, without threads; `Throttle` waits. The caller defines
faults.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from driver.backend_api.provider_fault import GateLog, GateState, ProviderFault, ProviderLoad
from state_store.values.lazy_dataclass import dataclass

FIRST_S = 1.0
DEFAULT_CAP_S = 120.0
_SPREAD = 0.1  # of the requested wait, so that rejected runs do not return together


def backoff_s(strikes: int, chance: float, cap_s: float = DEFAULT_CAP_S) -> float:
    """Seconds to wait after `strikes` faults in a row: doubled each time, half of it random.

    `chance` is a random number in 0..1.
    """
    doublings = min(max(strikes, 1) - 1, 32)
    return float(min(cap_s, FIRST_S * 2**doublings) * (0.5 + 0.5 * chance))


def stay_away_s(
    strikes: int, retry_after_s: float | None, chance: float, cap_s: float = DEFAULT_CAP_S
) -> float:
    """The wait that the provider asked for, or else the back-off; at most `cap_s` seconds."""
    if retry_after_s is None or retry_after_s <= 0:
        return backoff_s(strikes, chance, cap_s)
    return min(cap_s, retry_after_s * (1 + _SPREAD * chance))


RAMP_S = 10.0  # after an outage the limit of calls rises by 1 in this time
POLL_S = 0.1  # the longest delay of a cancelled wait

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """The permission for one call, since `started`."""

    started: float


class Gate:
    """Decides when a call may start. Not thread safe. Times are seconds of one clock.

    An open gate lets up to `limit` calls run, without limit until the first fault. A closed gate
    starts no call until its time is over, and then one probe. A fault of the probe closes the gate
    for longer. Any other end opens it with a lower limit, which rises with time and successes.
    """

    def __init__(self, *, cap_s: float, probe_s: float, chance: Callable[[], float]) -> None:
        """A probe that runs for `probe_s` seconds without a fault counts as a success."""
        self._cap_s, self._probe_s, self._chance = cap_s, probe_s, chance
        self._closed_until: float | None = None
        self._closed_since: float | None = None
        self._probe: Pass | None = None
        self._running = 0
        self._strikes = 0
        self._limit, self._peak = math.inf, 0.0
        self._raised_at = 0.0

    def wait_s(self, now: float) -> float:
        """0 if a call may start now, else the seconds to wait (infinite: until a call ends)."""
        if self._probe is not None and now - self._probe.started >= self._probe_s:
            self._open(now)
        if self._closed_until is None and now - self._raised_at >= RAMP_S:
            self._raise_limit(int((now - self._raised_at) // RAMP_S), now)
        if self._closed_until is None:
            return 0.0 if self._running < self._limit else self._raised_at + RAMP_S - now
        if self._probe is None:
            return max(0.0, self._closed_until - now)
        return max(0.0, self._probe.started + self._probe_s - now)

    @property
    def closed_since(self) -> float | None:
        """The start of the present outage; None if the last call got through."""
        return self._closed_since

    @property
    def is_probing(self) -> bool:
        """True while a probe runs."""
        return self._probe is not None

    @property
    def state(self) -> GateState:
        """The present state, for the log."""
        return GateState(self._closed_until, self._strikes, self._limit)

    @property
    def closed_until(self) -> float:
        """The earliest time at which a call can start."""
        if self._closed_until is None or self._probe is not None:
            return -math.inf
        return self._closed_until

    def start(self, now: float) -> Pass:
        """Begin a call that `wait_s` allowed."""
        started = Pass(now)
        self._running += 1
        if self._closed_until is not None:
            self._probe = started
        return started

    def answered(self, started: Pass, now: float) -> None:
        """End a call that reached the provider, with any answer."""
        self._running -= 1
        if started is self._probe:
            self._open(now)
        elif self._closed_until is None:
            self._raise_limit(1, now)

    def failed(self, started: Pass, now: float, fault: ProviderFault) -> None:
        """End a call that met a transient fault."""
        together, closed = self._running, self._closed_until
        self._running -= 1
        if closed is not None and started is not self._probe:
            # This call started before the gate closed, so its fault is no news.
            asked = min(self._cap_s, fault.retry_after_s or 0.0)
            self._closed_until = max(closed, now + asked)
            return
        if closed is None:
            self._peak = max(self._peak, together) if self._limit < math.inf else together
        self._limit = max(1, together // 2) if closed is None else 1
        self._strikes += 1
        away_s = stay_away_s(self._strikes, fault.retry_after_s, self._chance(), self._cap_s)
        self._closed_until, self._probe = now + away_s, None
        if self._closed_since is None:
            self._closed_since = now

    def broke(self, started: Pass) -> None:
        """End a call that failed by an error of ours, which says nothing about the provider."""
        self._running -= 1
        if started is self._probe:
            self._probe = None

    def _open(self, now: float) -> None:
        self._closed_until = self._closed_since = self._probe = None
        self._raise_limit(1, now)

    def _raise_limit(self, steps: int, now: float) -> None:
        self._raised_at = now
        self._limit += steps
        if self._limit >= self._peak:
            self._limit, self._strikes = math.inf, 0


class Throttle:
    """Calls a provider through one gate. Thread safe."""

    def __init__(
        self,
        *,
        retries: int = 2,
        cap_s: float = DEFAULT_CAP_S,
        probe_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Condition, float], object] = threading.Condition.wait,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Each call has `retries` more tries. No wait after a fault is longer than `cap_s`.

        A probe, such as an agent's session, counts as a success after `probe_s` seconds without a
        fault.
        """
        self._retries = retries
        self._clock, self._sleep = clock, wait
        self._gate = Gate(cap_s=cap_s, probe_s=probe_s, chance=chance)
        self._changed = threading.Condition()
        self._log, self._lines = GateLog(), list[str]()
        self._say: Callable[[str], object] = str  # does nothing until `attend`
        self._give_up_s, self._attended = math.inf, -math.inf

    def attend(self, say: Callable[[str], None], give_up_s: float) -> None:
        """Begin a wave: report closings and openings to `say`, restart the load, and give up once
        the gate has been closed for `give_up_s` seconds."""
        with self._changed:
            self._log = GateLog()
            self._say, self._give_up_s, self._attended = say, give_up_s, self._clock()

    def load(self) -> ProviderLoad:
        """The load since `attend`."""
        with self._changed:
            now = self._clock()
            self._gate.wait_s(now)
            self._note(now)
            return self._log.load(now)

    @property
    def given_up(self) -> bool:
        """True if the gate has been closed for `give_up_s` seconds."""
        with self._changed:
            since = self._gate.closed_since
            away_s = 0.0 if since is None else self._clock() - max(since, self._attended)
            return away_s >= self._give_up_s and not self._gate.is_probing

    def call(
        self,
        attempt: Callable[[], T],
        fault_of: Callable[[T], ProviderFault | None],
        cancelled: threading.Event,
        *,
        until: float | None = None,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> T | None:
        """The first answer without a transient fault, or else the last answer.

        No try starts after `cancelled` is set, after `until` (seconds of the clock), or after the
        provider is given up. No other try starts if `may_repeat` is false. None if there was no
        try.
        """
        answer: T | None = None
        for number in range(self._retries + 1):
            # Asked while this call has no pass, because the answer may take long.
            if number and not may_repeat():
                break
            started = self._enter(cancelled, until)
            self._report()
            if started is None:
                break
            got, may_pass = self._try(attempt, fault_of, started)
            self._report()
            answer = got
            if not may_pass:
                break
        return answer

    def _enter(self, cancelled: threading.Event, until: float | None) -> Pass | None:
        with self._changed:
            while not cancelled.is_set():
                now = self._clock()
                wait_s = self._gate.wait_s(now)
                self._note(now)
                if self.given_up:
                    return None
                if until is not None and max(now, self._gate.closed_until) >= until:
                    return None
                if wait_s <= 0:
                    return self._gate.start(now)
                self._sleep(self._changed, min(wait_s, POLL_S))
        return None

    def _try(
        self,
        attempt: Callable[[], T],
        fault_of: Callable[[T], ProviderFault | None],
        started: Pass,
    ) -> tuple[T, bool]:
        fault: ProviderFault | None = None
        settled = False
        try:
            answer = attempt()
            fault = fault_of(answer)
            settled = True
        finally:
            with self._changed:
                now = self._clock()
                if not settled:
                    self._gate.broke(started)
                elif fault is not None and fault.transient:
                    self._gate.failed(started, now, fault)
                else:
                    self._gate.answered(started, now)
                self._note(now, fault)
                self._changed.notify_all()
        return answer, fault is not None and fault.transient

    def _note(self, now: float, fault: ProviderFault | None = None) -> None:
        if line := self._log.line(self._gate.state, now, fault):
            self._lines.append(line)

    def _report(self) -> None:
        with self._changed:
            lines, self._lines = self._lines, []
        for line in lines:  # without the lock, because `say` may be slow
            self._say(line)
