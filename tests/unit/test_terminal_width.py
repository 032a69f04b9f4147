"""The width of a terminal for tables."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pytest

from driver.terminal.color import width_of_terminal


@pytest.mark.parametrize(("columns", "width"), [(0, None), (5, 5), (80, 80)])
def test_a_terminal_without_a_size_limits_no_line(columns: int, width: int | None) -> None:
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
        with os.fdopen(slave, "w") as stream:
            assert width_of_terminal(stream) == width
    finally:
        os.close(master)
