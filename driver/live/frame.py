"""Lays out a board as the lines of a screen. Pure: a board and a size in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from driver.live.board import BAD, GOOD, LIVELY, PATIENT, QUIET, Board, Row, interesting
from driver.live.cells import clip, fit, width_of
from driver.terminal.color import BOLD, CYAN, DIM, GREEN, RED, YELLOW, painted

_KEPT_FOR_EVENTS = 4  # lines of the screen above the frame
_COLORS = {LIVELY: CYAN, PATIENT: YELLOW, GOOD: GREEN, BAD: RED, QUIET: DIM}
_WORDS = {LIVELY: "running", PATIENT: "held", BAD: "red", QUIET: "waiting", GOOD: "green"}
_HEADER = Row("item", QUIET, "phase", "time", "tokens", "cost", "silent", "last line of its output")
_LEAST_WITH_HEADER = 6  # lines for items
_WIDEST_NAME, _WIDEST_PHASE = 32, 16
_NARROW = 60  # cells; below it the sums take two lines, and a name all the room that is left
_LEAST_LAST = 12  # cells; a shorter last line says nothing


class Line(NamedTuple):
    """A line of a frame and its color, of `terminal.color`, or "". The text from `faint` on is an
    agent's output, which stands back behind the rest."""

    text: str
    color: str = ""
    faint: int | None = None

    @property
    def parts(self) -> Iterator[tuple[str, str]]:
        """Yields each part with its color."""
        yield self.text[: self.faint], self.color
        if self.faint is not None and self.faint < len(self.text):
            yield self.text[self.faint :], DIM

    def painted(self, *, colors: bool) -> str:
        """The line for a terminal."""
        if not colors:
            return self.text
        return "".join(painted(part, color) if color else part for part, color in self.parts)


def frame(found: Board, width: int, height: int) -> tuple[Line, ...]:
    """The lines of the board on a screen of this size. No line fills the last column: a terminal
    would wrap there."""
    columns = max(1, width - 1)
    is_high = height > 3 * _KEPT_FOR_EVENTS
    told = [line for note in found.notes for line in _on_lines(note, columns, 1 + is_high)]
    notes = [Line(line, BOLD) for line in told[: max(0, height - 2)]]
    most = 2 if is_high and columns < _NARROW else 1
    sums = [Line(clip(one, columns), BOLD) for one in joined(found.totals, columns, most)]
    room = height - len(notes) - len(sums) - (_KEPT_FOR_EVENTS if is_high else 1)
    header = (_HEADER,) if room >= _LEAST_WITH_HEADER and found.rows else ()
    rows = _chosen(found.rows, max(0, room - len(header)))
    shape = _Shape.of((*header, *rows), columns)
    lines = [shape.line(row) for row in (*header, *rows)]
    if len(rows) < len(found.rows) and room > len(header):
        kinds = Counter(row.tone for row in found.rows) - Counter(row.tone for row in rows)
        named = ", ".join(f"{kinds[tone]} {word}" for tone, word in _WORDS.items() if kinds[tone])
        lines.append(Line(clip(f"  + {len(found.rows) - len(rows)} more: {named}", columns)))
    return (*lines, *notes, *sums)


def joined(parts: Sequence[str], width: int, most: int = 1) -> list[str]:
    """The parts on at most `most` lines of this width. The most important ones come first; what
    has no room is left out."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if width_of(longer) <= width or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(part)
    return lines


def _on_lines(text: str, width: int, most: int) -> list[str]:
    """The text on at most `most` lines of this width, broken between words."""
    lines, rest = list[str](), text
    while len(lines) < most - 1 and width_of(rest) > width:
        line = ""
        for word in rest.split(" "):
            longer = f"{line} {word}" if line else word
            if width_of(longer) > width:
                break
            line = longer
        if not line:
            break
        lines.append(line)
        rest = rest[len(line) :].lstrip(" ")
    return [*lines, clip(rest, width)]


def _chosen(rows: tuple[Row, ...], room: int) -> tuple[Row, ...]:
    """All rows in their order if they fit, else the most interesting, with room for a sum."""
    return rows if len(rows) <= room else interesting(rows)[: max(0, room - 1)]


class _Shape(NamedTuple):
    """The widths of the columns; a column that has no room or no content has the width 0."""

    columns: int
    name: int
    phase: int
    elapsed: int
    cost: int
    tokens: int
    silent: int
    last: int

    @classmethod
    def of(cls, rows: Sequence[Row], columns: int) -> _Shape:
        """The widths for these rows. The name gives way first, then columns from the right."""
        phase = min(max(8, _widest([row.phase for row in rows])), _WIDEST_PHASE)
        elapsed = max(5, _widest([row.elapsed for row in rows]))
        left = columns - 2 - _with_gap(phase) - _with_gap(elapsed)
        wanted = min(_widest([row.name for row in rows]), _WIDEST_NAME)
        name = max(1, min(wanted, max(left, 1) if columns < _NARROW else max(12, columns // 4)))
        left -= name
        found = {"cost": 0, "tokens": 0, "silent": 0}
        for texts in found:
            width = _widest([getattr(row, texts) for row in rows])
            found[texts] = width if _with_gap(width) <= left else 0
            left -= _with_gap(found[texts])
        last = left - 1 if left - 1 >= _LEAST_LAST else 0
        return cls(columns, name, phase, elapsed, **found, last=last)

    def line(self, row: Row) -> Line:
        """The row in these columns."""
        text = f"{row.mark} {fit(row.name, self.name)}"
        cells = (
            (row.phase, self.phase, False),
            (row.elapsed, self.elapsed, True),
            (row.cost, self.cost, True),
            (row.tokens, self.tokens, True),
            (row.silent, self.silent, True),
        )
        for content, width, right in cells:
            text += f" {fit(content, width, right=right)}" if width > 0 else ""
        faint = len(text) if row.tone == LIVELY else None
        text += f" {fit(row.last, self.last)}" if self.last > 0 else ""
        return Line(clip(text.rstrip(), self.columns), _COLORS[row.tone], faint)


def _widest(texts: Sequence[str]) -> int:
    return max(map(width_of, texts), default=0)


def _with_gap(width: int) -> int:
    return width + 1 if width > 0 else 0
