"""The live screen on a real terminal: right after each frame, each resize, and after its end."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from driver.live.board import LIVELY, Board, Row
from driver.live.frame import Line, frame
from driver.live.screen import Screen
from tests.support.screens import Terminal

pytestmark = pytest.mark.in_walls

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60


class Pty:
    """A pseudo-terminal: programs write to `slave`, and `read` interprets what they wrote."""

    def __init__(self, columns: int, rows: int) -> None:
        self.master, self.slave = pty.openpty()
        self.terminal = Terminal(columns, rows)
        self.raw = b""
        self._set(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.read()
        self._set(columns, rows)
        self.terminal.resize(columns, rows)

    def read(self) -> None:
        """Take in all that is there."""
        os.set_blocking(self.master, False)
        with suppress(BlockingIOError, OSError):
            while data := os.read(self.master, 65536):
                self._take(data)

    def read_to_the_end(self) -> None:
        """Take in all until the last program has closed the terminal."""
        os.set_blocking(self.master, True)
        with suppress(OSError):  # the end, on Linux
            while data := os.read(self.master, 65536):
                self._take(data)

    def close_slave(self) -> None:
        os.close(self.slave)

    def _take(self, data: bytes) -> None:
        self.raw += data
        self.terminal.feed(data)

    def _set(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.fixture
def terminal() -> Iterator[Pty]:
    made = Pty(80, 24)
    yield made
    os.close(made.master)


def a_board(items: int, word: str) -> Board:
    rows = tuple(
        Row(f"item-{n}", LIVELY, "build", "1:00", last=f"\u6f22\u5b57 e\u0301 {word * 60}")
        for n in range(items)
    )
    return Board(rows, (), (f"0 of {items} done", word))


def shown(board: Board, columns: int, rows: int) -> list[str]:
    return [line.text.rstrip() for line in frame(board, columns, rows)]


def test_a_frame_replaces_the_last_one_and_lines_stay_above_it(terminal: Pty) -> None:
    screen = Screen(terminal.slave, colors=True)
    for items, word in ((5, "one"), (2, "two"), (7, "three")):
        screen.draw(frame(a_board(items, word), 80, 24), [f"line {word}"], columns=80)
    terminal.read()
    lines = ["line one", "line two", "line three"]
    assert terminal.terminal.text == lines + shown(a_board(7, "three"), 80, 24)
    screen.clear(["the end"])
    terminal.read()
    assert terminal.terminal.text == [*lines, "the end"]
    assert (terminal.terminal.is_cursor_shown, terminal.terminal.wraps) == (True, True)
    assert terminal.terminal.overlong == []


def test_a_frame_that_is_the_same_is_not_written_again(terminal: Pty) -> None:
    screen = Screen(terminal.slave)
    for _ in range(3):
        screen.draw(frame(a_board(3, "same"), 80, 24), columns=80)
    terminal.read()
    assert terminal.raw.count(b"\x1b[?2026h") == 1


def test_each_frame_leaves_a_terminal_that_works(terminal: Pty) -> None:
    """A process that is killed after any frame hides no cursor and turns nothing off."""
    screen = Screen(terminal.slave)
    for word in ("one", "two"):
        screen.draw(frame(a_board(4, word), 80, 24), columns=80)
        terminal.read()
        assert (terminal.terminal.is_cursor_shown, terminal.terminal.wraps) == (True, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "sizes",
    [
        [(80, 24), (40, 24)],
        [(80, 24), (160, 50)],
        [(250, 60), (40, 14)],
        [(40, 24), (250, 24), (39, 12), (80, 24)],
    ],
)
@pytest.mark.parametrize("items", [1, 8, 40])
def test_the_screen_is_right_after_a_resize(
    terminal: Pty, sizes: list[tuple[int, int]], items: int
) -> None:
    screen = Screen(terminal.slave)
    for number, (columns, rows) in enumerate(sizes):
        terminal.resize(columns, rows)
        assert screen.size == (columns, rows)
        found = frame(a_board(items, "x"), columns, rows)
        screen.draw(found, [f"line {number}"], columns=columns)
        terminal.read()
        height = len(found)
        assert terminal.terminal.text[-height:] == shown(a_board(items, "x"), columns, rows)
    told = [f"line {number}" for number in range(len(sizes))]
    assert [line for line in terminal.terminal.text if line.startswith("line ")] == told
    if items == 1:  # nothing of the old frames has scrolled away
        assert terminal.terminal.text[:-height] == told
    assert terminal.terminal.overlong == []


def test_characters_that_the_terminal_cannot_show_are_replaced(terminal: Pty) -> None:
    Screen(terminal.slave, "ascii").draw([Line("\u6f22 a")], columns=80)
    terminal.read()
    assert terminal.terminal.text == ["? a"]


def run_demo(terminal: Pty, folder: Path, under: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(ROOT / "driver" / "wave_scheduler.py"), "--execute", "--demo"]
    environ = {name: value for name, value in os.environ.items() if name != "GITHUB_ACTIONS"}
    return subprocess.Popen(
        [*under, *command, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal.slave,
        start_new_session=bool(under),
        env={**environ, "TERM": "xterm", "HOME": str(folder.parent)},
    )


@pytest.mark.more
def test_a_wave_draws_itself_and_leaves_its_lines(terminal: Pty, tmp_path: Path) -> None:
    process = run_demo(terminal, tmp_path / "demo")
    terminal.close_slave()
    reading = threading.Thread(target=terminal.read_to_the_end)
    reading.start()
    assert process.communicate(timeout=PATIENCE_S)[0].startswith(b"{")
    reading.join(PATIENCE_S)
    assert process.returncode == 0
    text = terminal.terminal.text
    assert b"of 6 done" in terminal.raw
    assert not any("of 6 done" in line for line in text), "the last frame is still there"
    assert sum(": shipped as " in line for line in text) == 6
    assert not any("canary red" in line for line in text), "the frame shows it by the phase"
    assert any(line.startswith("tidegate: look: ") for line in text)
    assert (terminal.terminal.is_cursor_shown, terminal.terminal.wraps) == (True, True)
    assert terminal.terminal.overlong == []


SHELL = """
import fcntl, os, signal, subprocess, sys, termios
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it gives the terminal to its jobs
job = subprocess.Popen(
    sys.argv[1:], process_group=0, preexec_fn=lambda: signal.signal(signal.SIGTTOU, signal.SIG_DFL)
)
os.tcsetpgrp(2, job.pid)
while os.WIFSTOPPED(status := os.waitpid(job.pid, os.WUNTRACED)[1]):
    os.tcsetpgrp(2, os.getpid())
    os.write(2, b"".join(b"shell %d\\r\\n" % n for n in range(5)))
    os.tcsetpgrp(2, job.pid)
    os.killpg(job.pid, signal.SIGCONT)  # as shells do: its children were stopped, too
os._exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.more
def test_a_wave_stopped_by_ctrl_z_draws_below_the_lines_of_the_shell(
    terminal: Pty, tmp_path: Path
) -> None:
    process = run_demo(terminal, tmp_path / "demo", (sys.executable, "-c", SHELL))
    terminal.close_slave()
    stopped = threading.Event()

    def stop() -> None:
        with suppress(OSError):
            while data := os.read(terminal.master, 4096):
                terminal._take(data)
                if b"of 6 done" in terminal.raw and not stopped.is_set():
                    stopped.set()
                    os.write(terminal.master, b"\x1a")

    reading = threading.Thread(target=stop)
    reading.start()
    assert process.communicate(timeout=PATIENCE_S)[0].startswith(b"{")
    reading.join(PATIENCE_S)
    assert (process.returncode, stopped.is_set()) == (0, True)
    text = terminal.terminal.text
    told = [line for line in text if line.startswith("shell ")]
    assert told == [f"shell {n}" for n in range(5)]
    assert not any("of 6 done" in line for line in text)
    assert sum(": shipped as " in line for line in text) == 6


@pytest.mark.more
def test_an_interrupted_wave_leaves_no_frame(terminal: Pty, tmp_path: Path) -> None:
    process = run_demo(terminal, tmp_path / "demo")
    terminal.close_slave()
    stopped = threading.Event()

    def interrupt() -> None:
        with suppress(OSError):
            while data := os.read(terminal.master, 4096):
                terminal._take(data)
                if b"of 6 done" in terminal.raw and not stopped.is_set():
                    process.send_signal(signal.SIGTERM)
                    stopped.set()

    reading = threading.Thread(target=interrupt)
    reading.start()
    process.communicate(timeout=PATIENCE_S)
    reading.join(PATIENCE_S)
    assert stopped.is_set()
    assert process.returncode in (143, 0)  # 0 if all was shipped before
    assert not any("of 6 done" in line for line in terminal.terminal.text)
    assert (terminal.terminal.is_cursor_shown, terminal.terminal.wraps) == (True, True)
