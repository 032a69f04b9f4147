"""Progress for people: one plain line per event on stderr. Nothing else writes to stderr.

A closed or full stderr never stops a wave.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from driver.terminal.color import DIM, is_terminal, paint
from driver.terminal.invocation import current
from driver.terminal.safe_text import log_line, safe_line
from state_store.documents.errors import InputError


class Progress:
    """Writes `tidegate: <line>`. Thread safe. `stream=None` writes nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._screen: Callable[[str], None] | None = None
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Writes one event. Escapes control characters, so agents cannot control the terminal."""
        if self._stream is None:
            return
        self._write(f"{self._faint('tidegate:')} {log_line(line)}\n")

    def row(self, line: str, color: str = "") -> None:
        """Writes a row of a table. A terminal shows it without `tidegate:`, which would only take
        the room of a column."""
        if is_terminal(self._stream):
            self._write(f"{paint(log_line(line), color, stream=self._stream)}\n")
        else:
            self.say(line)

    def say_at(self, line: str, *, passing: bool = False) -> None:
        """Writes one event of a wave with the time of day. A live screen leaves out `passing`
        events, which it shows in the item's line."""
        if self._stream is None:
            return
        text = f"{self._faint(time.strftime('tidegate: %H:%M:%S'))} {log_line(line)}\n"
        if self._screen is None:
            self._write(text)
        elif not passing or current().verbose:
            self._screen(text)

    def command(self, line: str) -> None:
        """Writes a command to the CI server, which has to stand at the beginning of a line."""
        self._write(f"{line}\n")

    def shown_by(self, screen: Callable[[str], None] | None) -> None:
        """Hands the events of a wave to a live screen, or writes them again by itself."""
        self._screen = screen

    @property
    def is_shown(self) -> bool:
        """True while a live screen shows the events."""
        return self._screen is not None

    @property
    def stream(self) -> TextIO | None:
        """The stream of the lines; None once it is closed."""
        return self._stream

    def _faint(self, text: str) -> str:
        """The beginning of a line, which stands back behind its words where there are colors."""
        return paint(text, DIM, stream=self._stream) if self._stream is not None else text

    def _write(self, text: str) -> None:
        if self._screen is not None:
            self._screen(text)
            return
        with self._lock:
            if self._stream is None:
                return
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None


def to_stderr() -> Progress:
    """Progress on this process's stderr; writes nothing if stderr is closed."""
    return Progress(sys.stderr)


RUN, SKIP, QUIT = "run", "skip", "quit"
Ask = Callable[[str, str], str]
_TERMINALS = ("CONIN$", "CONOUT$") if sys.platform == "win32" else ("/dev/tty", "/dev/tty")
_ANSWERS = {"": RUN, "y": RUN, "yes": RUN, "q": QUIT, "quit": QUIT}


def answer_of(line: str) -> str:
    """RUN for y or an empty line, QUIT for q, SKIP for anything else."""
    return _ANSWERS.get(line.strip().lower(), SKIP)


class Terminal:
    """Asks one question at a time, for all threads. After a QUIT or on a closed terminal every
    answer is QUIT."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing
        self._one_at_a_time = threading.Lock()
        self._over = False

    @classmethod
    def opened(cls) -> Terminal:
        """Opens the terminal. Raises InputError if there is none."""
        reading, writing = (Path(name) for name in _TERMINALS)
        try:
            return cls(reading.open("rb", buffering=0), writing.open("wb", buffering=0))
        except OSError as error:
            raise InputError(
                "--confirm asks at a terminal and there is none: run it at one, or say --yes"
            ) from error

    def ask(self, item: str, phase: str) -> str:
        """Asks if a phase of an item is to run; returns RUN, SKIP or QUIT."""
        with self._one_at_a_time:
            if self._over:
                return QUIT
            question = f'{safe_line(item)}: run phase "{safe_line(phase)}"? [Y/n/q] '
            line = b""
            with suppress(OSError):
                self._writing.write(question.encode("ascii", "backslashreplace"))
                line = self._reading.readline()
            answer = answer_of(line.decode("utf-8", "replace")) if line else QUIT
            self._over = answer == QUIT
            return answer

    def close(self) -> None:
        """Closes the terminal."""
        for stream in (self._reading, self._writing):
            with suppress(OSError):
                stream.close()
