"""One switch that ends a wave: a signal or a halt sets it, everything that starts work asks it.

Setting it runs the callbacks that end running processes. It is set from signal handlers, so it
takes no lock that the interrupted thread could hold.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from state_store.documents.errors import ExitCode, StoppedByPolicyError

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SIGNAL_GRACE_S = 1.6  # whoever pressed Ctrl-C is waiting


class InterruptedWaveError(StoppedByPolicyError):
    """A signal asked the wave to end; what was finished before stays finished."""

    def __init__(self, signal_number: int) -> None:
        self.exit_code = exit_code_of(signal_number)
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}")


def exit_code_of(signal_number: int) -> ExitCode:
    """130 for an interrupt from the keyboard, 143 for every other signal."""
    return ExitCode.INTERRUPTED if signal_number == signal.SIGINT else ExitCode.TERMINATED


class CancellationToken:
    """Set by the first signal, or closed by whoever watches a gate; a signal has the last word."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._closed: StoppedByPolicyError | None = None
        self._grace_s = SIGNAL_GRACE_S
        self._callbacks: list[tuple[Callable[[], None], bool]] = []
        self._patient: list[tuple[Callable[[], None], float]] = []
        self._closed_at = 0.0

    @property
    def is_set(self) -> bool:
        """True once the wave is to end."""
        return self.signal_number is not None or self._closed is not None

    @property
    def cause(self) -> StoppedByPolicyError | None:
        """Why the wave is to end; None while it is not."""
        if self.signal_number is not None:
            return InterruptedWaveError(self.signal_number)
        return self._closed

    @property
    def grace_s(self) -> float:
        """How long whoever works may take to end; they are ended by force when half is over."""
        return SIGNAL_GRACE_S if self.signal_number is not None else self._grace_s

    def on_set(self, callback: Callable[[], None], *, only_by_signal: bool = False) -> None:
        """Have `callback` called when the switch is set; at once if it already is."""
        self._callbacks.append((callback, only_by_signal))
        if self.is_set and self._concerns(only_by_signal=only_by_signal):
            callback()

    def on_set_patiently(self, callback: Callable[[], None], patience_s: float) -> None:
        """The same for what may still end by itself: closing the switch calls it only when it has
        been closed for so long, as `remind` finds; a signal at once."""
        self._patient.append((callback, patience_s))
        self.on_set(callback, only_by_signal=True)

    def remind(self) -> None:
        """Run the callbacks whose patience is over by now; for whoever watches the gate."""
        if self._closed is None:
            return
        waited_s = time.monotonic() - self._closed_at
        for entry in tuple(self._patient):
            if waited_s >= entry[1]:
                self._patient.remove(entry)
                entry[0]()

    def set(self, signal_number: int) -> None:
        """End the wave. Only the first signal counts."""
        if self.signal_number is None:
            self.signal_number = signal_number
            self.insist()

    def close(self, why: StoppedByPolicyError, grace_s: float) -> None:
        """End the wave for another reason than a signal. Only the first call counts."""
        if self._closed is None:
            self._grace_s, self._closed_at = grace_s, time.monotonic()
            self._closed = why
            self.insist()

    def insist(self) -> None:
        """Run the callbacks again: what was asked to end is then ended without any grace."""
        for callback, only_by_signal in tuple(self._callbacks):
            if self._concerns(only_by_signal=only_by_signal):
                callback()

    def check(self) -> None:
        """Raise the cause once the wave is to end."""
        if (cause := self.cause) is not None:
            raise cause.with_traceback(None)  # one object, raised by many threads

    def _concerns(self, *, only_by_signal: bool) -> bool:
        return self.signal_number is not None or not only_by_signal


@contextmanager
def listening(stop: CancellationToken) -> Iterator[CancellationToken]:
    """Route the ending signals into `stop`; a second signal leaves at once.

    A signal that was ignored when we were started, by `nohup` say, stays ignored. Leaving at once
    is safe: every running tree has a supervisor that ends it when this process is gone, and
    everything remembered is written atomically.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.signal_number is not None:
            os._exit(exit_code_of(number))
        stop.set(number)

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
