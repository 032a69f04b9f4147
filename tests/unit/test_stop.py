"""One switch, set once, by a signal."""

from __future__ import annotations

import os
import signal

import pytest

from driver.stop import InterruptedWaveError, Stop, listening
from state_store.errors import ExitCode


def test_a_signal_sets_the_switch_and_runs_the_callbacks() -> None:
    ended: list[str] = []
    with listening(Stop()) as stop:
        stop.on_set(lambda: ended.append("tree"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set
    assert ended == ["tree"]
    assert stop.exit_code is ExitCode.TERMINATED
    with pytest.raises(InterruptedWaveError, match="SIGTERM") as interrupted:
        stop.check()
    assert interrupted.value.exit_code is ExitCode.TERMINATED


def test_a_late_callback_runs_at_once() -> None:
    stop = Stop()
    stop.set(signal.SIGINT)
    ended: list[str] = []
    stop.on_set(lambda: ended.append("tree"))
    assert ended == ["tree"]
    assert stop.exit_code is ExitCode.INTERRUPTED


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with listening(Stop()):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
