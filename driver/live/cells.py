"""The width of text on a terminal, and text cut to a width. Pure.

A terminal gives wide characters two cells, and combining ones none. It may give an ambiguous
character two cells as well; the screen turns line wrapping off, so that this does no harm.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

CUT = "~"  # the last character of a text that was cut


@lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    """The cells of one printable character: 0, 1 or 2."""
    if char < "\x7f":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width_of(text: str) -> int:
    """The cells of a line of printable text."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def clip(text: str, width: int) -> str:
    """The beginning of `text` that fits into `width` cells; a cut text ends with a mark."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    kept, left = [], width - 1
    for char in text:
        left -= char_width(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept) + CUT


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text` cut and filled to exactly `width` cells."""
    shown = clip(text, width)
    gap = " " * (width - width_of(shown))
    return gap + shown if right else shown + gap
