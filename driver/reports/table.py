"""The table of a wave's items as plain text, for the terminal. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from driver.reports import words
from driver.reports.overview import Item, Overview
from driver.terminal.safe_text import counted, safe_line

HEAD = ("item", "result", "tests", "repairs", "time", "tokens", "cost")
_MOST_ROWS, _MOST_NAME = 40, 36
_RIGHT = frozenset({"repairs", "time", "tokens", "cost"})


def cells(item: Item) -> tuple[str, ...]:
    """The values of an item below `HEAD`. The name is as the user wrote it."""
    return (
        item.slug,
        item.outcome,
        words.before_after(item.tests),
        str(item.repairs or words.NONE),
        words.duration(item.duration_s),
        words.tokens(item.tokens),
        words.dollars(item.cost_usd),
    )


def ordered(view: Overview) -> list[Item]:
    """Items that need a person first, then the others, each as in the wave."""
    return sorted(view.items, key=lambda item: (item.is_shipped, item.is_good))


def table_lines(view: Overview) -> Iterator[str]:
    """Yields the lines of the table. A long table names the items that did not ship first, and
    counts the rest. Yields nothing for a wave without items."""
    if not view.items:
        return
    items = ordered(view)
    rows = [HEAD, *(cells(item) for item in items[:_MOST_ROWS])]
    rows = [(_cut(safe_line(name)), *rest) for name, *rest in rows]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _row(row, widths)
    if more := items[_MOST_ROWS:]:
        yield f"... and {counted(len(more), 'more item')}"
    yield total(view)


def total(view: Overview) -> str:
    """The wave's time, tokens and cost on one line."""
    sums = view.wave.get("tokens") or {}
    unmetered, unpriced = sums.get("unmetered") or 0, sums.get("unpriced") or 0
    used = sums.get("total") or None if unmetered else sums.get("total")
    parts = (
        f"time {words.duration(view.duration_s)}",
        f"tokens {words.at_least(words.tokens(used), unmetered)}",
        f"cost {words.at_least(words.dollars(sums.get('costUsd')), unpriced)}",
    )
    return "wave: " + ", ".join(parts)


def columns(text: str) -> int:
    """The width of `text` on a terminal."""
    return sum(_width(c) for c in text)


def _width(char: str) -> int:
    """0 for a sign that is put above the one before it, 2 for a wide one."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(name: str) -> str:
    """A name that fits into its column, by its width on the terminal."""
    while columns(name) > _MOST_NAME:
        name = name[:-4] + "..." if name.endswith("...") else name[:-3] + "..."
    return name


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    """A row in columns: words to the left, numbers to the right."""
    parts = []
    for title, text, width in zip(HEAD, row, widths, strict=True):
        gap = " " * (width - columns(text))
        parts.append(gap + text if title in _RIGHT else text + gap)
    return "  ".join(parts).rstrip()
