"""The gate before a provider, shared by all worker threads of a backend.

After a transient fault no call starts for a while; then one call goes as a probe and the others
wait for its outcome. `Gate` decides and knows no threads; `Throttle` waits. The caller defines what
a fault is.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from driver.backend_api.provider_fault import GateLog, GateState, ProviderFault, ProviderLoad

FIRST_S = 1.0
DEFAULT_CAP_S = 120.0
_SPREAD = 0.1  # of the time a provider asks for, so that rejected runs do not return together


def backoff_s(strikes: int, chance: float, cap_s: float = DEFAULT_CAP_S) -> float:
    """Seconds after the `strikes`-th fault in a row (from 1): doubled each time, half of it chance.

    `chance` is a random number in 0..1.
    """
    doublings = min(max(strikes, 1) - 1, 32)
    return float(min(cap_s, FIRST_S * 2**doublings) * (0.5 + 0.5 * chance))


def stay_away_s(
    strikes: int, retry_after_s: float | None, chance: float, cap_s: float = DEFAULT_CAP_S
) -> float:
    """Seconds that the provider asked for, else the back-off; never more than `cap_s`."""
    if retry_after_s is None or retry_after_s <= 0:
        return backoff_s(strikes, chance, cap_s)
    return min(cap_s, retry_after_s * (1 + _SPREAD * chance))


RAMP_S = 10.0  # after an outage, the limit of calls rises by one this often
POLL_S = 0.1  # how late a cancelled wait may end

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """The right to make one call, from `started` on."""

    started: float


class Gate:
    """Decides when a call may start. Not thread safe; times are seconds of one clock.

    An open gate lets up to `limit` calls run (without limit until the first fault). A closed gate
    lets none start until its time is over, and then only one, the probe. A fault of the probe
    closes the gate for longer; anything else opens it with a lowered limit, which rises with every
    success and with time.
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
        """0 when a call may start now, else when to ask again (infinite: after the next end)."""
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
        """The time since which no call got through; None when the last one did."""
        return self._closed_since

    @property
    def is_probing(self) -> bool:
        """True while a probe runs."""
        return self._probe is not None

    @property
    def state(self) -> GateState:
        """The gate as its log sees it."""
        return GateState(self._closed_until, self._strikes, self._limit)

    @property
    def closed_until(self) -> float:
        """The time before which no call starts, whatever running calls come to."""
        if self._closed_until is None or self._probe is not None:
            return -math.inf
        return self._closed_until

    def start(self, now: float) -> Pass:
        """Begin a call, which `wait_s` has just allowed."""
        started = Pass(now)
        self._running += 1
        if self._closed_until is not None:
            self._probe = started
        return started

    def answered(self, started: Pass, now: float) -> None:
        """End a call that got through, whatever its answer was."""
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
            # It started before the gate closed, so its fault says nothing new about the outage.
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
        """End a call by an error of our own, which says nothing about the provider."""
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
    """Calls a provider through one gate; safe to use from many threads."""

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
        """`retries` further tries of each call; no wait after a fault is longer than `cap_s`.

        `probe_s`: long calls (an agent's whole session) prove the provider well if they have not
        failed after this many seconds.
        """
        self._retries = retries
        self._clock, self._sleep = clock, wait
        self._gate = Gate(cap_s=cap_s, probe_s=probe_s, chance=chance)
        self._changed = threading.Condition()
        self._log, self._lines = GateLog(), list[str]()
        self._say: Callable[[str], object] = str  # until a wave attends
        self._give_up_s, self._attended = math.inf, -math.inf

    def attend(self, say: Callable[[str], None], give_up_s: float) -> None:
        """Begin a wave: report closing and opening to `say`, restart the load, and give up the
        provider once the gate has been closed for `give_up_s` seconds from now on."""
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
        """True once the gate has been closed for so long that waiting is of no use."""
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
    ) -> T | None:
        """The first answer without a transient fault, else the last one.

        No try starts after `cancelled` is set, if it could not start before `until` (seconds of
        the clock), or once the provider is given up. None if there was no try at all.
        """
        answer: T | None = None
        for _ in range(self._retries + 1):
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
        for line in lines:  # without the lock, since `say` may be slow
            self._say(line)
