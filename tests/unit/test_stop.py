"""One switch, set once, by a signal or by a halt."""

from __future__ import annotations

import os
import signal

import pytest

from driver.execution.cancellation import (
    SIGNAL_GRACE_S,
    CancellationToken,
    InterruptedWaveError,
    exit_code_of,
    listening,
)
from state_store.documents.errors import ExitCode, StoppedByPolicyError


def test_a_signal_sets_the_switch_and_runs_the_callbacks() -> None:
    ended: list[str] = []
    with listening(CancellationToken()) as stop:
        stop.on_set(lambda: ended.append("tree"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set
    assert ended == ["tree"]
    with pytest.raises(InterruptedWaveError, match="SIGTERM") as interrupted:
        stop.check()
    assert interrupted.value.exit_code is ExitCode.TERMINATED


def test_a_late_callback_runs_at_once() -> None:
    stop = CancellationToken()
    stop.set(signal.SIGINT)
    ended: list[str] = []
    stop.on_set(lambda: ended.append("tree"))
    assert ended == ["tree"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_only_the_keyboard_has_an_exit_code_of_its_own(number: int, code: int) -> None:
    assert exit_code_of(number) == code


def test_a_halt_ends_the_wave_but_not_what_only_a_signal_may_end() -> None:
    stop, ended = CancellationToken(), list[str]()
    stop.on_set(lambda: ended.append("agent"))
    stop.on_set(lambda: ended.append("push"), only_by_signal=True)
    halted = StoppedByPolicyError("halted")
    stop.close(halted, 7.0)
    assert (stop.is_set, stop.cause, stop.grace_s, ended) == (True, halted, 7.0, ["agent"])
    with pytest.raises(StoppedByPolicyError, match="halted"):
        stop.check()


def test_a_signal_after_a_halt_has_the_last_word_and_ends_all() -> None:
    ended: list[str] = []
    with listening(CancellationToken()) as stop:
        stop.on_set(lambda: ended.append("agent"))
        stop.on_set(lambda: ended.append("push"), only_by_signal=True)
        stop.close(StoppedByPolicyError("halted"), 60.0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert isinstance(stop.cause, InterruptedWaveError)
    assert ended == ["agent", "agent", "push"]
    assert stop.grace_s == SIGNAL_GRACE_S


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening(CancellationToken()) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_set
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with listening(CancellationToken()):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_halt_ends_a_push_when_its_patience_is_over_and_a_signal_at_once() -> None:
    stop, ended = CancellationToken(), list[str]()
    stop.on_set_patiently(lambda: ended.append("quick"), 0.0)
    stop.on_set_patiently(lambda: ended.append("slow"), 3600.0)
    stop.check_deadlines()
    stop.close(StoppedByPolicyError("halted"), 7.0)
    assert ended == []
    stop.check_deadlines()
    stop.check_deadlines()
    assert ended == ["quick"]
    stop.set(signal.SIGTERM)
    assert ended == ["quick", "quick", "slow"]
