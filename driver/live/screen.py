"""The bottom lines of a terminal, redrawn in place, with lines that stay above them.

Each frame is one write. It hides the cursor and turns line wrapping off only within that write, so
a process that is killed at any time leaves a terminal that works. Between frames the cursor stands
at the beginning of the last line; if the terminal becomes narrower and wraps the old lines, it is
known how many lines they take.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from driver.filesystem.descriptors import write_all
from driver.live.cells import width_of
from driver.live.frame import Line

_BEGIN, _END = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"  # synchronized, cursor hidden
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"
_USUAL_SIZE = (80, 24)


class Screen:
    """Draws on the terminal `fd`. Not thread safe. An OSError means that the terminal is gone."""

    def __init__(self, fd: int, encoding: str = "utf-8", *, colors: bool = True) -> None:
        self._fd, self._encoding, self._colors = fd, encoding, colors
        self._shown: tuple[str, ...] = ()
        self._widths: list[int] = []

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal now."""
        with suppress(OSError):
            columns, lines = os.get_terminal_size(self._fd)
            if columns > 0 and lines > 0:
                return columns, lines
        return _USUAL_SIZE

    @property
    def is_in_front(self) -> bool:
        """False while a shell has put this process into the background."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # not the terminal that controls this process
            return True

    def draw(self, frame: Sequence[Line], above: Sequence[str] = (), *, columns: int) -> None:
        """Replace the last frame by this one, below the new lines `above`."""
        lines = tuple(line.painted(colors=self._colors) for line in frame)
        if lines == self._shown and not above:
            return
        out = [_BEGIN, self._to_the_top(columns)]
        if above:
            out += [_CLEAR_BELOW, *(f"{line}\r\n" for line in above)]
        out += [_NO_WRAP, "\r\n".join(f"{line}{_CLEAR_LINE}" for line in lines)]
        out += [_CLEAR_BELOW, "\r", _WRAP, _END]
        self._write("".join(out))
        self._shown, self._widths = lines, [width_of(line.text) for line in frame]

    def clear(self, above: Sequence[str] = ()) -> None:
        """Remove the frame, and write the last lines that stay."""
        top = self._to_the_top(self.size[0])
        lines = "".join(f"{line}\r\n" for line in above)
        self._write(f"{_BEGIN}{top}{_CLEAR_BELOW}{lines}{_END}")
        self._shown, self._widths = (), []

    def _to_the_top(self, columns: int) -> str:
        """Moves to the first line of the frame, also if the terminal has wrapped it meanwhile."""
        rows = sum(max(1, -(-width // columns)) for width in self._widths[:-1])
        return f"\r\x1b[{rows}A" if rows else "\r"

    def _write(self, text: str) -> None:
        write_all(self._fd, text.encode(self._encoding, "replace"))
