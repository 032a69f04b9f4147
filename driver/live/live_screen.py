"""The live screen of a wave: a thread draws the board, and the wave's lines go above it.

Workers never wait for the terminal: they hand over their lines, and the thread writes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
    screen = Screen(stream.fileno(), stream.encoding, colours=wants_color(stream))
    drawn = _Drawn(screen, WaveView(wave).board, wave.recorder.notes.changed)
    progress.shown_by(drawn.say)
    try:
        with repeating(LOOK_EVERY_S, drawn.look):
            yield
    finally:
        progress.shown_by(None)
        drawn.end()


class _Drawn:
    """Draws frames when something has changed."""

    def __init__(self, screen: Screen, read: Callable[[], Board], changed: threading.Event) -> None:
        self._screen, self._read, self._changed = screen, read, changed
        self._lock = threading.Lock()
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

    def end(self) -> None:
        """Remove the frame, and write the lines that are left."""
        with self._lock:
            lines, self._lines = self._lines, []
        with suppress(OSError):
            self._screen.clear(lines)

    def _draw(self) -> None:
        now, size = time.monotonic(), self._screen.size
        wait_s = NEWS_EVERY_S if self._changed.is_set() else READ_EVERY_S
        is_due = now - self._read_at >= wait_s
        if not (is_due or self._lines or size != self._size):
            return
        if is_due or self._board is None:
            self._changed.clear()
            self._board, self._read_at = self._read(), now
        with self._lock:
            lines, self._lines = self._lines, []
        columns, rows = size
        self._size = size
        self._screen.draw(frame(self._board, columns, rows), lines, columns=columns)
