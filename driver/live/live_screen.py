"""The live screen of a wave: a thread draws the board, and the wave's lines go above it.

Workers never wait for the terminal: they hand over their lines, and the thread writes them. Ctrl-Z
removes the frame before the process stops; in the background only lines are written.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from driver.execution.worker_pool import repeating
from driver.live.board import Board
from driver.live.frame import frame
from driver.live.screen import Screen
from driver.live.wave_view import WaveView
from driver.run_state.context import Wave
from driver.terminal.color import wants_color

LOOK_EVERY_S = 0.25
READ_EVERY_S = 1.0  # also without news: times and the ages of outputs go on
NEWS_EVERY_S = 0.5
_MOST_KEPT = 2000  # lines, for a terminal that is stopped


@contextmanager
def live_screen(wave: Wave) -> Iterator[None]:
    """Draw the wave on the terminal of its progress lines until the block ends."""
    progress, stream = wave.options.progress, wave.options.progress.stream
    if stream is None:
        yield
        return
    screen = Screen(stream.fileno(), stream.encoding, colors=wants_color(stream))
    drawn = _Drawn(screen, WaveView(wave).board, wave.recorder.notes.changed)
    progress.shown_by(drawn.say)
    try:
        with _stopping(drawn.cleared), repeating(LOOK_EVERY_S, drawn.look):
            yield
    finally:
        progress.shown_by(None)
        drawn.end()


@contextmanager
def _stopping(cleared: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Stop this process at Ctrl-Z within `cleared`, as the shell writes below the cursor."""
    number = getattr(signal, "SIGTSTP", None)  # not on Windows
    is_main = threading.current_thread() is threading.main_thread()
    if number is None or not is_main or signal.getsignal(number) is not signal.SIG_DFL:
        yield
        return

    def handle(*_: object) -> None:
        with cleared():
            # The system's own rules decide: a process without a shell above it does not stop.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            signal.signal(number, handle)

    signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)


class _Drawn:
    """Draws frames when something has changed."""

    def __init__(self, screen: Screen, read: Callable[[], Board], changed: threading.Event) -> None:
        self._screen, self._read, self._changed = screen, read, changed
        self._lock = threading.Lock()
        # The handler of a signal takes this lock, maybe within `end`. Who has it waits for nothing
        # but the terminal: the main thread may have any other lock when the signal comes.
        self._drawing = threading.RLock()
        self._lines: list[str] = []
        self._board: Board | None = None
        self._read_at = -READ_EVERY_S
        self._size = (0, 0)
        self._is_gone = False

    def say(self, line: str) -> None:
        """Take a line that stays above the frame."""
        with self._lock:
            if len(self._lines) < _MOST_KEPT:
                self._lines.append(line.rstrip("\n"))

    def look(self) -> None:
        """Draw a frame if there is anything new."""
        if self._is_gone:
            return
        try:
            self._draw()
        except Exception:  # noqa: BLE001 - a fault of the screen must not take the wave along
            self._is_gone = True

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Remove the frame, and draw no other one until the block ends."""
        with self._drawing:
            with suppress(OSError):
                self._screen.clear()
            self._size = (0, 0)
            yield

    def end(self) -> None:
        """Remove the frame, and write the lines that are left."""
        lines = self._taken()
        with self._drawing, suppress(OSError):
            self._screen.clear(lines)

    def _taken(self) -> list[str]:
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def _draw(self) -> None:
        if not self._screen.is_in_front:
            if lines := self._taken():
                with self._drawing:
                    self._screen.clear(lines)
            return
        now, size = time.monotonic(), self._screen.size
        wait_s = NEWS_EVERY_S if self._changed.is_set() else READ_EVERY_S
        is_due = now - self._read_at >= wait_s
        if not (is_due or self._lines or size != self._size):
            return
        if is_due or self._board is None:
            self._changed.clear()
            self._board, self._read_at = self._read(), now
        columns, rows = size
        lines = self._taken()
        found = frame(self._board, columns, rows)
        with self._drawing:
            self._size = size
            self._screen.draw(found, lines, columns=columns)
