"""A terminal in memory: it interprets what a program writes, and wraps its lines when resized."""

from __future__ import annotations

import re

from driver.live.cells import char_width

_CONTROL = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|[\r\n]")


class Terminal:
    """A screen of `columns` x `rows`; `above` has the lines that scrolled away. A line is a list
    of cells; the second cell of a wide character is "". Every text that was cut at the right edge
    is in `overlong`."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]
        self.above: list[list[str]] = []
        self.overlong: list[str] = []
        self.row = 0
        self.cell = 0
        self.is_cursor_shown = self.wraps = True
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Interpret output; a piece may end within a sequence or a character."""
        data, self._rest = self._rest + data, b""
        while data:  # at most a few steps back
            try:
                text = data.decode("utf-8")
                break
            except UnicodeDecodeError:
                data, self._rest = data[:-1], data[-1:] + self._rest
        else:
            return
        cut = text.rfind("\x1b")
        if cut >= 0 and not _CONTROL.match(text, cut):
            self._rest, text = text[cut:].encode() + self._rest, text[:cut]
        at = 0
        for found in _CONTROL.finditer(text):
            self._print(text[at : found.start()])
            at = found.end()
            self._control(found)
        self._print(text[at:])

    def resize(self, columns: int, rows: int) -> None:
        """Take another size, as most terminals do: lines that are too long go on in the next."""
        here, wrapped, row = self.row, list[list[str]](), 0
        for number, line in enumerate(self.lines):
            if number == here:
                row = len(wrapped) + self.cell // columns
            wrapped += [line[at : at + columns] for at in range(0, len(line), columns)] or [[]]
        self.columns, self.rows, self.lines, self.row = columns, rows, wrapped, row
        self.cell %= columns
        self._scroll()

    @property
    def text(self) -> list[str]:
        """All lines, also those that scrolled away, without empty ones at the end."""
        found = ["".join(line).rstrip() for line in (*self.above, *self.lines)]
        while found and not found[-1]:
            found.pop()
        return found

    def _print(self, text: str) -> None:
        for char in text:
            width, line = char_width(char), self.lines[self.row]
            if width == 0:
                line[self.cell - 1 - (not line[self.cell - 1])] += char
                continue
            if self.cell + width > self.columns:
                if not self.wraps:
                    self.overlong.append("".join(line) + char)
                    continue
                self._newline()
                self.cell, line = 0, self.lines[self.row]
            line += [" "] * (self.cell - len(line))
            line[self.cell : self.cell + width] = [char, ""][:width]
            self.cell += width

    def _control(self, found: re.Match[str]) -> None:
        private, numbers, letter = found.group(1), found.group(2), found.group(3)
        if found.group() == "\r":
            self.cell = 0
        elif found.group() == "\n":
            self._newline()
        elif private:
            if numbers == "25":
                self.is_cursor_shown = letter == "h"
            elif numbers == "7":
                self.wraps = letter == "h"
        elif letter == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif letter in "JK":
            del self.lines[self.row][self.cell :]
            if letter == "J":
                del self.lines[self.row + 1 :]
        elif letter != "m":
            raise AssertionError(f"unknown sequence {found.group()!r}")

    def _newline(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        self._scroll()

    def _scroll(self) -> None:
        while len(self.lines) > self.rows:
            self.above.append(self.lines.pop(0))
            self.row = max(0, self.row - 1)
