"""The table of a wave's items as plain text, for the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from driver.live.cells import fit, width_of
from driver.reports import words
from driver.reports.overview import FAULTS, Item, Overview
from driver.terminal.color import BOLD, DIM, GREEN, RED, YELLOW
from driver.terminal.safe_text import counted, safe_line

HEAD = ("item", "result", "tests", "repairs", "time", "tokens", "cost")
_MOST_ROWS, _MOST_NAME, _SHORT_NAME, _LEAST_NAME = 40, 36, 18, 8
_DROPPED = ("repairs", "tokens", "time", "tests", "cost")  # the first ones go first
_RIGHT = frozenset({"repairs", "time", "tokens", "cost"})


def cells(item: Item) -> tuple[str, ...]:
    """The values of an item below `HEAD`. The name is as the user wrote it."""
    return (
        item.slug,
        item.outcome,
        words.before_after(item.tests),
        str(item.repairs or words.NONE),
        words.duration(item.duration_s),
        *item.use,
    )


def table_lines(view: Overview, width: int | None = None) -> Iterator[tuple[str, str]]:
    """Yields the lines of the table, each with its color of `terminal.color`, or "". A narrow
    terminal gets fewer columns. A long table names the items that did not ship first, and counts
    the rest. Yields nothing for a wave without items."""
    if not view.items:
        return
    items = view.ordered
    rows = [HEAD, *(cells(item) for item in items[:_MOST_ROWS])]
    rows = [(safe_line(name), *rest) for name, *rest in rows]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], _MOST_NAME)
    shown = _columns_within(widths, width)
    for row, color in zip(rows, (DIM, *map(_color, items)), strict=False):
        parts = (fit(row[n], widths[n], right=HEAD[n] in _RIGHT) for n in shown)
        yield "  ".join(parts).rstrip(), color
    if more := items[_MOST_ROWS:]:
        yield f"... and {counted(len(more), 'more item')}", ""
    yield total(view), BOLD


def _color(item: Item) -> str:
    if item.is_good:
        return GREEN
    return RED if item.outcome in FAULTS else YELLOW


def _columns_within(widths: list[int], width: int | None) -> list[int]:
    """The columns that fit, by number. Name and result stay. A name is cut before a column is
    dropped, and `widths` says so."""
    shown = [n for n, _ in enumerate(HEAD)]
    if width is None:
        return shown
    least = min(widths[0], _SHORT_NAME)
    for name in _DROPPED:
        if least + sum(widths[n] + 2 for n in shown[1:]) <= width:
            break
        shown.remove(HEAD.index(name))
    spare = width - sum(widths[n] + 2 for n in shown[1:])
    widths[0] = max(min(widths[0], spare), _LEAST_NAME)
    return shown


def total(view: Overview) -> str:
    """The wave's time, tokens and cost on one line."""
    tokens, cost = view.use
    return f"wave: time {words.duration(view.duration_s)}, tokens {tokens}, cost {cost}"
