"""Who may start at a gate, and how callers wait there; time is a number here."""

from __future__ import annotations

import heapq
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from driver.backend_api.provider_fault import FaultKind, GateLog, ProviderFault, ProviderLoad
from driver.backend_api.throttle import RAMP_S, Gate, Pass, Throttle

LIMITED = ProviderFault(FaultKind.RATE_LIMITED, "429", 429, retry_after_s=2.0)
DROPPED = ProviderFault(FaultKind.DROPPED, "reset")
BAD_KEY = ProviderFault(FaultKind.BAD_KEY, "401", 401)


def gate(probe_s: float = math.inf) -> Gate:
    return Gate(cap_s=120.0, probe_s=probe_s, chance=lambda: 1.0)


def closed_gate(probe_s: float = math.inf) -> Gate:
    """Closed at 0 until 2.2, by eight calls that ran together."""
    it = gate(probe_s)
    for one in [it.start(0.0) for _ in range(8)]:
        it.failed(one, 0.0, LIMITED)
    return it


def room(it: Gate, now: float) -> int:
    """How many calls may start now, up to 20; they are started."""
    for number in range(20):
        if it.wait_s(now) > 0:
            return number
        it.start(now)
    return 20


def test_an_open_gate_lets_everybody_in() -> None:
    assert room(gate(), 0.0) == 20


def test_nobody_starts_before_the_time_the_server_asked_for() -> None:
    it = closed_gate()
    assert it.wait_s(0.5) == pytest.approx(1.7)
    assert it.wait_s(2.2) == 0.0


def test_while_closed_exactly_one_probe_goes() -> None:
    it = closed_gate()
    it.start(3.0)
    assert it.wait_s(3.0) == math.inf


def test_a_failed_probe_closes_the_gate_longer() -> None:
    it = closed_gate()
    waits = []
    now = 3.0
    for _ in range(4):
        it.failed(it.start(now), now, DROPPED)
        waits.append(it.wait_s(now))
        now += waits[-1]
    assert waits == [2.0, 4.0, 8.0, 16.0]


def test_a_probe_that_gets_through_opens_the_gate_to_fewer_than_before() -> None:
    it = closed_gate()
    it.answered(it.start(5.0), 5.0)
    assert room(it, 5.0) == 5  # half of eight, and one for the probe's success


def test_every_success_lets_one_more_in_until_all_may_run() -> None:
    it = closed_gate()
    it.answered(it.start(5.0), 5.0)
    for _ in range(8):
        it.answered(it.start(5.0), 5.0)
    assert room(it, 5.0) == 20


def test_time_without_a_fault_lets_more_in_too() -> None:
    it = closed_gate()
    it.failed(it.start(3.0), 3.0, DROPPED)  # now one at a time
    it.answered(it.start(9.0), 9.0)
    assert room(it, 9.0) == 2
    assert it.wait_s(9.0) == RAMP_S
    assert it.wait_s(9.0 + RAMP_S) == 0.0


def test_calls_that_left_before_the_gate_closed_are_the_same_storm() -> None:
    it = gate()
    passes = [it.start(0.0) for _ in range(8)]
    for one in passes:
        it.failed(one, 0.0, DROPPED)
    assert it.wait_s(0.0) == 1.0


def test_the_longest_wait_asked_for_in_a_storm_counts() -> None:
    it = gate()
    first, second = it.start(0.0), it.start(0.0)
    it.failed(first, 0.0, DROPPED)
    it.failed(second, 0.5, ProviderFault(FaultKind.OVERLOADED, "503", 503, 30.0))
    assert it.wait_s(0.5) == 30.0


def test_a_straggler_neither_opens_the_gate_nor_counts_as_its_probe() -> None:
    it = gate()
    first, second = it.start(0.0), it.start(0.0)
    it.failed(first, 0.0, LIMITED)
    it.answered(second, 0.1)
    assert it.wait_s(0.1) > 2.0


def test_a_long_probe_without_a_fault_opens_the_gate() -> None:
    it = closed_gate(probe_s=30.0)
    it.start(3.0)
    assert it.wait_s(4.0) == 29.0
    assert it.wait_s(33.0) == 0.0


def test_a_probe_that_broke_makes_room_for_another() -> None:
    it = closed_gate()
    it.broke(it.start(3.0))
    assert it.wait_s(3.0) == 0.0


@dataclass
class Time:
    """A clock that only moves when somebody waits."""

    now: float = 0.0
    waits: int = 0

    def read(self) -> float:
        return self.now

    def wait(self, _changed: threading.Condition, seconds: float) -> None:
        self.now += seconds
        self.waits += 1


@dataclass
class Server:
    """Answers with these faults, one a call, then with none."""

    faults: list[ProviderFault]
    clock: Time
    calls: list[float] = field(default_factory=list)

    def __call__(self) -> ProviderFault | None:
        self.calls.append(self.clock.now)
        return self.faults[len(self.calls) - 1] if len(self.calls) <= len(self.faults) else None


def throttle(clock: Time, retries: int = 2) -> Throttle:
    return Throttle(retries=retries, clock=clock.read, wait=clock.wait, chance=lambda: 1.0)


def same(answer: ProviderFault | None) -> ProviderFault | None:
    return answer


@pytest.mark.parametrize(
    ("faults", "retries", "calls", "last"),
    [
        ([], 2, 1, None),
        ([LIMITED], 2, 2, None),
        ([LIMITED, DROPPED], 2, 3, None),
        ([LIMITED] * 5, 2, 3, LIMITED),
        ([LIMITED] * 5, 0, 1, LIMITED),
        ([BAD_KEY] * 5, 2, 1, BAD_KEY),
        ([DROPPED, BAD_KEY], 2, 2, BAD_KEY),
    ],
)
def test_only_a_fault_that_may_pass_is_tried_again_and_not_too_often(
    faults: list[ProviderFault], retries: int, calls: int, last: ProviderFault | None
) -> None:
    clock = Time()
    server = Server(faults, clock)
    assert throttle(clock, retries).call(server, same, threading.Event()) is last
    assert len(server.calls) == calls


def test_a_further_try_waits_as_long_as_the_server_asked() -> None:
    clock = Time()
    server = Server([LIMITED], clock)
    throttle(clock).call(server, same, threading.Event())
    assert server.calls[1] - server.calls[0] >= 2.0


def test_no_try_starts_after_the_deadline() -> None:
    clock = Time()
    server = Server([LIMITED], clock)
    assert throttle(clock).call(server, same, threading.Event(), until=1.5) is LIMITED
    assert (server.calls, clock.waits) == ([0.0], 0)


def test_a_call_that_never_got_its_turn_has_no_answer() -> None:
    clock = Time()
    it = throttle(clock, retries=0)
    it.call(Server([LIMITED], clock), same, threading.Event())
    second = Server([], clock)
    assert it.call(second, same, threading.Event(), until=1.0) is None
    assert second.calls == []


def test_a_short_deadline_may_wait_for_the_outcome_of_a_probe() -> None:
    it = Throttle(retries=0, probe_s=30.0, chance=lambda: 0.0)
    it.call(lambda: DROPPED, same, threading.Event())  # closed for half a second
    probing, go_on = threading.Event(), threading.Event()

    def probe() -> ProviderFault | None:
        probing.set()
        go_on.wait(60)
        return None

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(it.call, probe, same, threading.Event())
        assert probing.wait(60)
        until = time.monotonic() + 25
        second = pool.submit(it.call, lambda: BAD_KEY, same, threading.Event(), until=until)
        go_on.set()
        assert (first.result(60), second.result(60)) == (None, BAD_KEY)


def test_cancelling_ends_the_wait_with_the_last_answer() -> None:
    cancelled = threading.Event()
    clock = Time()

    def wait(changed: threading.Condition, seconds: float) -> None:
        clock.wait(changed, seconds)
        cancelled.set()

    server = Server([LIMITED] * 3, clock)
    it = Throttle(clock=clock.read, wait=wait, chance=lambda: 1.0)
    assert it.call(server, same, cancelled) is LIMITED
    assert len(server.calls) == 1
    assert it.call(server, same, cancelled) is None


def test_an_error_of_the_caller_leaves_the_gate_as_it_was() -> None:
    clock = Time()
    it = throttle(clock)

    def broken() -> ProviderFault | None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - raised just above
        it.call(broken, same, threading.Event())
    assert it.call(Server([], clock), same, threading.Event()) is None


def test_people_are_told_when_the_gate_closes_and_opens_again() -> None:
    clock, said = Time(), list[str]()
    it = throttle(clock)
    it.attend(said.append, math.inf)
    it.call(Server([LIMITED, DROPPED], clock), same, threading.Event())
    assert said == [
        "rate_limited, so no call to the provider for 2 s: 429",
        "dropped, so no call to the provider for 2 s: reset",
        "the provider is asked again: as many at once as before",
    ]
    load = it.load()
    assert (load.closings, load.least_at_once) == (1, None)
    assert load.closed_s == pytest.approx(clock.now)


def test_one_storm_of_many_calls_is_told_once_and_how_few_may_go_after_it() -> None:
    log, it = GateLog(), gate()
    calls = [it.start(0.0) for _ in range(8)]
    said = []
    for one in calls:
        it.failed(one, 0.0, LIMITED)
        said.append(log.line(it.state, 0.0, LIMITED))
    assert [line for line in said if line] == [said[0]]
    it.answered(it.start(3.0), 3.5)
    assert log.line(it.state, 3.5) == "the provider is asked again: at most 5 at once"
    assert log.load(9.0) == ProviderLoad(1, 3.5, 5)


def test_a_provider_that_is_away_too_long_is_given_up_by_all_who_wait() -> None:
    clock = Time()
    it = throttle(clock, retries=100)
    it.attend(print, 10.0)
    server = Server([DROPPED] * 100, clock)
    assert it.call(server, same, threading.Event()) is DROPPED
    assert it.given_up
    assert clock.now == pytest.approx(10.0, abs=0.2)
    tried = len(server.calls)
    assert it.call(server, same, threading.Event()) is None
    assert len(server.calls) == tried


def test_nobody_gives_up_while_a_probe_may_still_get_through() -> None:
    clock = Time()
    it = throttle(clock, retries=1)
    it.attend(print, 5.0)

    faults: list[ProviderFault | None] = [DROPPED, None]

    def slow() -> ProviderFault | None:
        clock.now += 20.0
        assert not it.given_up
        return faults.pop(0)

    assert it.call(slow, same, threading.Event()) is None
    assert not it.given_up


def test_a_later_wave_does_not_inherit_the_wait_of_an_earlier_one() -> None:
    clock = Time()
    it = throttle(clock, retries=100)
    it.attend(print, 10.0)
    it.call(Server([DROPPED] * 100, clock), same, threading.Event())
    it.attend(print, 10.0)
    assert it.load().closings == 1  # it is still closed
    assert it.call(Server([], clock), same, threading.Event()) is None
    assert not it.given_up


def test_eight_workers_against_six_refusals_make_no_storm() -> None:
    it, refusals, done = gate(), 6, 0
    waiting, running = 8, list[tuple[float, int, Pass, bool]]()
    now, starts = 0.0, list[float]()
    while done < 8:
        while waiting and it.wait_s(now) <= 0:
            one = it.start(now)
            starts.append(now)
            heapq.heappush(running, (now + 0.05, len(starts), one, refusals > 0))
            refusals, waiting = refusals - 1, waiting - 1
        ends = running[0][0] if running else math.inf
        opens = now + it.wait_s(now) if waiting else math.inf
        now = min(ends, opens)
        while running and running[0][0] <= now:
            *_, one, refused = heapq.heappop(running)
            if refused:
                it.failed(one, now, LIMITED)
                waiting += 1
            else:
                it.answered(one, now)
                done += 1
    assert starts[:8] == [0.0] * 8
    assert starts[8] >= 2.0
    assert starts[9] >= starts[8] + 0.05  # whoever follows waited for the probe's outcome
    assert len(starts) == 8 + 6


def test_eight_threads_against_six_refusals_all_finish_behind_one_probe() -> None:
    fault = ProviderFault(FaultKind.RATE_LIMITED, "429", 429, retry_after_s=0.2)
    lock, all_in = threading.Lock(), threading.Barrier(8)
    calls: list[tuple[float, float]] = []

    def attempt() -> ProviderFault | None:
        started = time.monotonic()
        with lock:
            number = len(calls)
            calls.append((started, 0.0))
        if number < 8:
            all_in.wait(60)
        else:
            threading.Event().wait(0.02)
        with lock:
            calls[number] = (started, time.monotonic())
        return fault if number < 6 else None

    it = Throttle(chance=lambda: 0.0)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: it.call(attempt, same, threading.Event()), range(8)))
    assert answers == [None] * 8
    assert len(calls) == 14
    refused_at = min(ended for _, ended in calls[:8])
    probe, *others = sorted(calls[8:])
    assert probe[0] >= refused_at + 0.2
    assert min(started for started, _ in others) >= probe[1]
