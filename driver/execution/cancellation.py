"""The cancellation token of a wave: a signal or a halt sets it, and all work checks it first.

Setting it runs the callbacks that end running processes. Signal handlers set it, so it takes no
lock that the interrupted thread could hold.
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
SIGNAL_GRACE_S = 1.6  # short, because the user pressed Ctrl-C and waits


class InterruptedWaveError(StoppedByPolicyError):
    """A signal ends the wave; finished work stays finished."""

    def __init__(self, signal_number: int) -> None:
        self.exit_code = exit_code_of(signal_number)
        super().__init__(f"interrupted by {signal.Signals(signal_number).name}")


def exit_code_of(signal_number: int) -> ExitCode:
    """130 for an interrupt from the keyboard, 143 for every other signal."""
    return ExitCode.INTERRUPTED if signal_number == signal.SIGINT else ExitCode.TERMINATED


class CancellationToken:
    """Ends a wave. The first signal or a closed gate sets it. After both, the signal is the
    cause."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._closed: StoppedByPolicyError | None = None
        self._grace_s = SIGNAL_GRACE_S
        self._callbacks: list[tuple[Callable[[], None], bool]] = []
        self._patient: list[tuple[Callable[[], None], float]] = []
        self._closed_at = 0.0

    @property
    def is_set(self) -> bool:
        """True after a signal or a closed gate."""
        return self.signal_number is not None or self._closed is not None

    @property
    def cause(self) -> StoppedByPolicyError | None:
        """The reason for the end of the wave; None while it goes on."""
        if self.signal_number is not None:
            return InterruptedWaveError(self.signal_number)
        return self._closed

    @property
    def grace_s(self) -> float:
        """Seconds that running work may take to end. It is killed after half of them."""
        return SIGNAL_GRACE_S if self.signal_number is not None else self._grace_s

    def on_set(self, callback: Callable[[], None], *, only_by_signal: bool = False) -> None:
        """Call `callback` when the token is set, or now if it is set already."""
        self._callbacks.append((callback, only_by_signal))
        if self.signal_number is not None or (self._closed is not None and not only_by_signal):
            callback()

    def on_set_patiently(self, callback: Callable[[], None], patience_s: float) -> None:
        """Like `on_set`, for work that may still end by itself. A signal calls `callback` at once.
        After a closed gate, `check_deadlines` calls it when `patience_s` seconds have passed."""
        self._patient.append((callback, patience_s))
        self.on_set(callback, only_by_signal=True)

    def check_deadlines(self) -> None:
        """Run the callbacks whose `patience_s` has passed."""
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
            self.force()

    def close(self, why: StoppedByPolicyError, grace_s: float) -> None:
        """End the wave because a gate closed. Only the first call counts."""
        if self._closed is None:
            self._grace_s, self._closed_at = grace_s, time.monotonic()
            self._closed = why
            self.force()

    def force(self) -> None:
        """Run the callbacks a second time, which kills running work at once."""
        for callback, only_by_signal in tuple(self._callbacks):
            if self.signal_number is not None or not only_by_signal:
                callback()

    def check(self) -> None:
        """Raise the cause if the token is set."""
        if (cause := self.cause) is not None:
            raise cause.with_traceback(None)  # one object, raised by many threads


@contextmanager
def listening(stop: CancellationToken) -> Iterator[CancellationToken]:
    """Route the ending signals into `stop`; a second signal ends this process at once.

    A signal that was ignored when this process started, by `nohup` say, stays ignored. Ending at
    once is safe: the supervisors then kill their trees, and all state is written atomically.
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
