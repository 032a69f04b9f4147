"""The timeline of a wave as inline SVG: a row of bars for each item. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from driver.reports import words
from driver.reports.item_times import Span, spans
from driver.reports.overview import Item, Overview
from driver.terminal.safe_text import html_text

_WIDTH, _LEAST = 1_000, 2.0
_KINDS = {
    "agent": "agent",
    "repair": "repair",
    "gate": "test",
    "verdict": "review",
    "publish": "publish",
}
_LEGEND = (
    ("agent", "agent works"),
    ("repair", "agent repairs"),
    ("test", "tests and checks"),
    ("review", "review"),
    ("other", "other phases"),
)


def timeline(view: Overview) -> str:
    """The timeline as HTML; "" if no phase has a time. Each bar has phase and length as title."""
    start, length = view.started, view.duration_s
    if start is None or not length:
        return ""
    rows = (
        f'<span class="name">{html_text(item.slug)}</span>{_bars(item, start, length)}'
        for item in sorted(view.items, key=lambda one: one.started or float("inf"))
    )
    return f'<div class="time"><span></span>{_axis(length)}{"".join(rows)}</div>{legend(_LEGEND)}'


def _bars(item: Item, start: float, length: float) -> str:
    """The bars of an item; a short phase is wide enough to be seen."""
    bars = "".join(_bar(span, start, length) for span in spans(item.record))
    label = f"{item.slug}: {item.outcome} after {words.duration(item.duration_s)}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{html_text(label)}">{bars}</svg>'
    )


def _bar(span: Span, start: float, length: float) -> str:
    """A phase from its begin to its end, in parts of the wave's time."""
    left = max(span.start - start, 0) / length * _WIDTH
    width = max((span.end - span.start) / length * _WIDTH, _LEAST)
    named = f"{span.name}: {span.status}, {words.duration(span.end - span.start)}"
    return (
        f'<rect class="s-{_KINDS.get(span.role, "other")}" x="{left:.1f}" y="0" height="10"'
        f' width="{width:.1f}"><title>{html_text(named)}</title></rect>'
    )


def _axis(length: float) -> str:
    """Five times from the begin to the end."""
    marks = (words.duration(length * quarter / 4) for quarter in range(5))
    return f'<span class="axis">{"".join(f"<span>{mark}</span>" for mark in marks)}</span>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """The meanings of colors as HTML."""
    keys = (
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="s-{kind}" width="10"'
        f' height="10"></rect></svg>{meaning}</li>'
        for kind, meaning in names
    )
    return f'<ul class="key">{"".join(keys)}</ul>'
