"""The page of a wave: one HTML file without scripts and without network. Pure but for outputs.

All foreign text goes through `html_text`. The page's own policy forbids scripts and requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.reports import words
from driver.reports.diffs import Diff
from driver.reports.overview import Overview
from driver.reports.pages.item_row import (
    COLUMNS,
    Source,
    anchor,
    clipped,
    pill,
    remedy,
    room_for_each,
    row,
)
from driver.reports.pages.style import STYLE
from driver.reports.pages.timeline import timeline
from driver.reports.summary_lines import left_out, next_command
from driver.terminal.safe_text import counted, html_text

MOST_TEXT_BYTES = 1_600_000  # of changes and outputs; marks and escapes add to it
_MOST_NAMED, _REASON_BYTES = 12, 4_000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(view: Overview, folder: Path | None, changes: Mapping[str, Diff]) -> str:
    """The whole page. `folder` has the outputs of the wave's items."""
    body = "".join(filter(None, (_header(view), "<main>", *_sections(view, folder, changes))))
    return framed(f"Wave {view.wave_id}", f"{body}</main>{_footer(view)}")


def framed(title: str, body: str) -> str:
    """A page with our style and policy around `body`, which is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html_text(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def facts(pairs: Mapping[str, str]) -> str:
    """Numbers with their names; the values are foreign text."""
    cells = (
        f"<div><dt>{name}</dt><dd>{html_text(text)}</dd></div>" for name, text in pairs.items()
    )
    return f'<dl class="facts">{"".join(cells)}</dl>'


def _header(view: Overview) -> str:
    tokens, cost = view.use
    numbers = {
        "Time": words.duration(view.duration_s),
        "Tokens": tokens,
        "Cost": cost,
        "Repair rounds": str(view.wave.get("repairsUsed") or 0),
        **_ceilings(view),
        **({"Sandbox": walls} if (walls := words.sandbox(view.wave.get("sandbox"))) else {}),
    }
    branch = view.wave.get("branch")
    where = f" on branch <code>{html_text(str(branch))}</code>" if branch else ""
    stopped = view.wave.get("error")
    why = (
        f'<div class="why"><p>Stopped: {clipped(str(stopped), _REASON_BYTES)}</p></div>'
        if stopped
        else ""
    )
    when = html_text(view.ended_at[:16].replace("T", " "))
    return (
        f"<header><h1>{view.headline}</h1><p class='dim'>Wave <code>{html_text(view.wave_id)}"
        f"</code>{where}{f', {when} UTC' if when else ''}</p>{_outcomes(view)}{why}"
        f"{facts(numbers)}</header>"
    )


def _outcomes(view: Overview) -> str:
    """The number of items of each result."""
    first = {item.outcome: pill(item) for item in view.ordered}
    counts = Counter(item.outcome for item in view.items)
    shown = (f"<li>{first[word]} {number}</li>" for word, number in counts.most_common())
    return f'<ul class="counts">{"".join(shown)}</ul>' if view.items else ""


def _ceilings(view: Overview) -> dict[str, str]:
    """The cost against the day's ceiling, where one is set."""
    day = (view.wave.get("budget") or {}).get("day") or {}
    usd = day.get("usd") or {}
    if usd.get("ceiling") is None:
        return {}
    return {"Today": f"{words.dollars(usd.get('spent'))} of {words.dollars(usd['ceiling'])}"}


def _sections(view: Overview, folder: Path | None, changes: Mapping[str, Diff]) -> Iterator[str]:
    first = view.to_read_first()
    yield _read_first(view)
    yield _not_shipped(view)
    if drawn := timeline(view):
        yield f'<h2>Timeline</h2><div class="card">{drawn}</div>'
    if view.items:
        names = zip(COLUMNS, ("", "", "", *["n"] * 5), strict=True)
        head = "".join(f'<span class="{kind}">{name}</span>' for name, kind in names)
        room = room_for_each(len(view.items), MOST_TEXT_BYTES)
        why = {item.slug: reasons for item, reasons in first}
        rows = (
            row(item, Source(folder, changes.get(item.slug), room), why.get(item.slug, []))
            for item in view.ordered
        )
        yield (
            f'<h2>Items</h2><div class="items"><div class="row head" aria-hidden="true">{head}'
            f"</div>{''.join(rows)}</div>"
        )
    if lines := list(left_out(view.report)):
        listed = "".join(f"<li>{html_text(line)}</li>" for line in lines)
        yield f'<h2>Left out</h2><div class="card"><ul class="plain">{listed}</ul></div>'
    if command := next_command(view.wave):
        yield f"<h2>Next</h2><pre>{html_text(command)}</pre>"


def _read_first(view: Overview) -> str:
    """The proven items by risk, with links to their rows."""
    first = view.to_read_first()
    listed = "".join(
        f'<li><a class="name" href="#{anchor(item)}">{html_text(item.slug)}</a>'
        f" {html_text('; '.join(why))}</li>"
        for item, why in first[:_MOST_NAMED]
    )
    more = len(first) - _MOST_NAMED
    rest = f'<p class="dim">and {counted(more, "more item")} below</p>' if more > 0 else ""
    shown = f'<div class="card"><ol class="first">{listed}</ol>{rest}</div>'
    return f"<h2>Read this first</h2>{shown}" if first else ""


def _not_shipped(view: Overview) -> str:
    """The items that need a person, with their reasons and remedies."""
    listed = "".join(
        f'<li>{pill(item)}<div><a class="name" href="#{anchor(item)}">{html_text(item.slug)}</a>'
        f" {clipped(item.reason, _REASON_BYTES)}{remedy(item)}</div></li>"
        for item in view.not_done[:_MOST_NAMED]
    )
    more = len(view.not_done) - _MOST_NAMED
    rest = f'<p class="dim">and {counted(more, "more item")} below</p>' if more > 0 else ""
    shown = f'<div class="card"><ul class="open">{listed}</ul>{rest}</div>'
    return f"<h2>Not shipped</h2>{shown}" if view.not_done else ""


def _footer(view: Overview) -> str:
    """The commits that the items started from."""
    base = "".join(
        f" Started from <code>{html_text(str(one.get('commit'))[:12])}</code>"
        for one in view.wave.get("base") or ()
    )
    return f"<footer>Made by Tidegate.{base}</footer>"
