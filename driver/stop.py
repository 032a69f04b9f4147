"""One switch that ends a wave: a signal sets it, everything that starts work asks it first.

Setting it runs the callbacks that end running processes. It is set from signal handlers, so it
takes no lock that the interrupted thread could hold.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from state_store.errors import ExitCode, StoppedByPolicyError

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class InterruptedWaveError(StoppedByPolicyError):
    """A signal asked the wave to end; what was finished before stays finished."""

    def __init__(self, signal_number: int, exit_code: ExitCode) -> None:
        self.exit_code = exit_code
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}")


class Stop:
    """Set at most once; `signal_number` says by which signal."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """True once a signal has come."""
        return self.signal_number is not None

    def on_set(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the switch is set; at once if it already is."""
        self._callbacks.append(callback)
        if self.is_set:
            callback()

    def set(self, signal_number: int) -> None:
        """End the wave. Only the first call counts."""
        if self.signal_number is None:
            self.signal_number = signal_number
            self.insist()

    def insist(self) -> None:
        """Run the callbacks again: what was asked to end is then ended without any grace."""
        for callback in tuple(self._callbacks):
            callback()

    def check(self) -> None:
        """Raise InterruptedWaveError once a signal has come."""
        if self.signal_number is not None:
            raise InterruptedWaveError(self.signal_number, self.exit_code)

    @property
    def exit_code(self) -> ExitCode:
        """130 for an interrupt from the keyboard, 143 for every other signal."""
        return ExitCode.INTERRUPTED if self.signal_number == signal.SIGINT else ExitCode.TERMINATED


@contextmanager
def listening(stop: Stop) -> Iterator[Stop]:
    """Route the ending signals into `stop`; a second signal leaves at once.

    Leaving at once is safe: every running tree has a supervisor that ends it when this process is
    gone, and everything remembered is written atomically.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set:
            os._exit(128 + number)
        stop.set(number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
