"""The comparison of past waves for people: lines for a terminal, and a page with plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from driver.reports import words
from driver.reports.compare import Compared, Comparison, Sums
from driver.reports.pages.timeline import legend
from driver.reports.pages.wave_page import facts, framed
from driver.terminal.safe_text import counted, html_text, safe_line

_HEAD = ("ended (UTC)", "wave", "shipped", "cost", "per shipped", "tokens", "repairs", "flaky")
_WIDTH, _HEIGHT, _FLOOR, _LEFT = 720, 184, 150, 80
_MOST_REASONS = 12


def compare_lines(found: Comparison) -> Iterator[str]:
    """Yields a table of the waves, the sums by backend and model, and the reasons."""
    rows = [
        _HEAD,
        *((one.day, safe_line(one.wave_id)[:8], *_cells(one.sums)) for one in found.waves),
    ]
    rows.append(("all", counted(len(found.waves), "wave"), *_cells(found.total)))
    yield from _aligned(rows)
    for heading, groups in (("backend", found.by_backend), ("model", found.by_model)):
        named = ((safe_line(name)[:30], *_cells(sums)) for name, sums in groups.items())
        yield ""
        yield from _aligned([(heading, *_HEAD[2:]), *named])
    if found.reasons:
        yield ""
        yield "why the rest did not ship:"
        for reason, number in list(found.reasons.items())[:_MOST_REASONS]:
            yield f"  {number:>4}  {safe_line(reason)}"


def _cells(sums: Sums) -> tuple[str, ...]:
    """The values below `_HEAD` after the wave's name."""
    return (
        f"{sums.shipped}/{sums.items}",
        words.at_least(words.dollars(sums.cost_usd), sums.unpriced),
        _per_shipped(sums),
        words.tokens(sums.tokens),
        str(sums.repairs),
        str(sums.flaky),
    )


def _per_shipped(sums: Sums) -> str:
    if not sums.shipped:
        return words.NONE
    return words.at_least(words.dollars(sums.cost_per_shipped), sums.unpriced)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the rows with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def compare_page(found: Comparison) -> str:
    """The page: sums, plots over time, and tables."""
    total = found.total
    numbers = {
        "Shipped": f"{total.shipped} of {counted(total.items, 'item')}",
        "Cost": words.at_least(words.dollars(total.cost_usd), total.unpriced),
        "Per shipped item": _per_shipped(total),
        "Flaky": str(total.flaky),
        "Repair rounds": str(total.repairs),
    }
    waves = counted(len(found.waves), "wave")
    newest = found.waves[0].day if found.waves else ""
    body = (
        f"<header><h1>The last {waves}</h1><p class='dim'>up to {newest} UTC</p>{facts(numbers)}"
        f"</header><main>{''.join(_parts(found))}</main><footer>Made by Tidegate.</footer>"
    )
    return framed(f"The last {waves}", body)


def _parts(found: Comparison) -> Iterator[str]:
    oldest_first = found.waves[::-1]
    most_items = max((one.sums.items for one in found.waves), default=1)
    shipped = _plot(oldest_first, _shipped_bar, most_items or 1)
    names = (("test", "shipped"), ("other", "not shipped"))
    yield _card("Shipped, and not shipped", shipped + legend(names))
    per = [one.sums.cost_per_shipped for one in oldest_first]
    most = max((value for value in per if value is not None), default=None)
    if most:
        names = (("agent", "known"), ("agent pale", "at least: some costs are unknown"))
        drawn = _plot(oldest_first, _cost_bar, most) + legend(names)
        yield _card("Cost for each shipped item", drawn)
    rows = [(one.day, one.wave_id, *_cells(one.sums)) for one in found.waves]
    yield _card("Waves", _table(_HEAD, rows))
    for heading, groups in (("By backend", found.by_backend), ("By model", found.by_model)):
        named = [(name, *_cells(sums)) for name, sums in groups.items()]
        yield _card(heading, _table((heading[3:], *_HEAD[2:]), named))
    if found.reasons:
        reasons = [(reason, str(n)) for reason, n in found.reasons.items()]
        yield _card("Why the rest did not ship", _table(("reason", "items"), reasons))


def _card(heading: str, inner: str) -> str:
    return f'<h2>{heading}</h2><div class="card wide">{inner}</div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all cells are foreign text."""
    names = "".join(f'<th scope="col">{html_text(name)}</th>' for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<table class="flat"><tr>{names}</tr>{body}</table>'


Bar = Mapping[str, float | None]  # the height of each part, by its color
BarOf = Callable[[Compared], tuple[Bar, str]]


def _shipped_bar(one: Compared) -> tuple[Bar, str]:
    """Shipped items below the others."""
    sums = one.sums
    label = f"{one.day}: {sums.shipped} of {counted(sums.items, 'item')} shipped"
    return {"test": sums.shipped, "other": sums.items - sums.shipped}, label


def _cost_bar(one: Compared) -> tuple[Bar, str]:
    """The cost for each shipped item: pale if it is a lower bound, a question mark if unknown."""
    kind = "agent pale" if one.sums.unpriced else "agent"
    return {kind: one.sums.cost_per_shipped}, f"{one.day}: {_per_shipped(one.sums)}"


def _plot(waves: Sequence[Compared], bar_of: BarOf, most: float) -> str:
    """A plot with a bar for each wave, the oldest first."""
    step = (_WIDTH - _LEFT) / max(len(waves), 1)
    width = max(min(step * 0.7, 42), 2)
    parts = [
        f'<text x="0" y="22">{html_text(_number(most))}</text>',
        f'<text x="0" y="{_FLOOR}">0</text>',
        f'<rect class="s-other" x="{_LEFT}" y="{_FLOOR}" width="{_WIDTH - _LEFT}"'
        ' height="1"></rect>',
    ]
    for number, one in enumerate(waves):
        stack, label = bar_of(one)
        left = _LEFT + number * step + (step - width) / 2
        parts.append(f"<g><title>{html_text(label)}</title>{_bars(stack, left, width, most)}</g>")
    if waves:
        first, last = waves[0].day[:10], waves[-1].day[:10]
        parts.append(f'<text x="{_LEFT}" y="{_FLOOR + 24}">{first}</text>')
        parts.append(f'<text x="{_WIDTH}" y="{_FLOOR + 24}" text-anchor="end">{last}</text>')
    label = f"{counted(len(waves), 'wave')}, the oldest first"
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _bars(stack: Bar, left: float, width: float, most: float) -> str:
    """The parts of a bar from the floor up."""
    drawn, floor = [], float(_FLOOR)
    for kind, value in stack.items():
        if value is None:
            drawn.append(f'<text x="{left:.1f}" y="{floor - 4:.1f}">?</text>')
            continue
        height = value / most * (_FLOOR - 12)
        floor -= height
        drawn.append(
            f'<rect class="s-{kind}" x="{left:.1f}" y="{floor:.1f}" width="{width:.1f}"'
            f' height="{height:.1f}"></rect>'
        )
    return "".join(drawn)


def _number(value: float) -> str:
    """A number of items, or dollars; only dollars have a fraction."""
    return str(int(value)) if value == int(value) else words.dollars(value)
