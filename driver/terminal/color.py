"""Decides if a stream gets colors, and paints words for it.

`--color` decides; else NO_COLOR, then FORCE_COLOR, then the terminal itself.
"""

from __future__ import annotations

import os
import sys

from driver.terminal.invocation import ALWAYS, AUTO, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"


def wants_color(stream: TextIO | None) -> bool:
    """True if words on this stream are painted."""
    asked = current().color
    if stream is None or asked != AUTO:
        return stream is not None and asked == ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return forced not in ("0", "false")
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """True if a person looks at the stream. A closed stream is no terminal."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def width_of_terminal(stream: TextIO | None) -> int | None:
    """The columns of a terminal; None if the stream is none, or a terminal that does not know its
    size."""
    if stream is None or not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text, painted if the stream (default: stdout) wants colors."""
    if not any(styles) or not text or not wants_color(stream or sys.stdout):
        return text
    return painted(text, *styles)


def painted(text: str, *styles: str) -> str:
    """The text in these styles, for a terminal that gets colors."""
    return f"\x1b[{';'.join(styles)}m{text}\x1b[0m"
