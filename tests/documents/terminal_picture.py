"""Draws lines of a terminal as an SVG picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

CELL, LINE, MARGIN = 8.4, 19, 16  # a character's width, a line's height, the edge
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_INK, _PAPER = "#d6deeb", "#0d1420"
# The codes of SGR that the screens use.
_COLOURS = {
    **{"": _INK, "1": "#ffffff", "2": "#8090a8", "31": "#ff7b72", "32": "#56d364"},
    **{"33": "#e3b341", "36": "#56d4dd"},
}

Painted = Sequence[tuple[str, str]]  # the parts of a line, each with its code of SGR


def terminal_picture(lines: Sequence[Painted], columns: int, title: str) -> str:
    """The lines on a dark screen. Each is stretched to its cells, whatever font there is."""
    width, height = round(columns * CELL + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    texts = "\n".join(_row(number, line) for number, line in enumerate(lines) if any(line))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{escape(title)}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>\n'
        f'<g font-family="{_FONT}" font-size="14">\n{texts}\n</g>\n</svg>\n'
    )


def _row(number: int, line: Painted) -> str:
    cell, drawn = 0, []
    for text, code in line:
        drawn.append(
            f'<text x="{MARGIN + cell * CELL:.1f}" y="{MARGIN + number * LINE + 14}"'
            f' fill="{_COLOURS[code]}" textLength="{len(text) * CELL:.1f}"{_weight(code)}>'
            f"{_kept(text)}</text>"
        )
        cell += len(text)
    return "\n".join(drawn)


def _kept(text: str) -> str:
    """The text with spaces that no viewer runs together."""
    return escape(text).replace(" ", "&#160;")


def _weight(code: str) -> str:
    return ' font-weight="bold"' if code == "1" else ""
