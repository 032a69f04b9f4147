"""The page of a wave in Markdown: `report.md`, and the summary of a job.

Everything that an agent, a test, a reviewer or a backlog wrote is in code.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from driver.filesystem.kept_output import file_to_read
from driver.reports import words
from driver.reports.overview import Item, Overview
from driver.reports.summary_lines import left_out, next_command
from driver.reports.table import HEAD, cells, total
from driver.terminal.markdown import cell, code, fenced
from driver.terminal.safe_text import counted

MOST_BYTES = 900_000  # a job's summary may have 1 MiB
_MOST_ROWS, _MOST_NAMED, _MOST_WORDS, _MOST_COMMAND = 500, 20, 600, 4_000
_HEAD = f"| {' | '.join((*HEAD, 'change'))} |\n{'| --- ' * (len(HEAD) + 1)}|"


def markdown(view: Overview) -> str:
    """The page, at most `MOST_BYTES` long."""
    sections = (
        _heading(view),
        _table(view),
        _unshipped(view),
        _read_first(view),
        _left_out(view),
        _next(view),
    )
    taken, room = list[str](), MOST_BYTES - 200
    for section in filter(None, sections):
        room -= len(section.encode()) + 2
        if room < 0:
            taken.append("More is in the wave's `report.json`.")
            break
        taken.append(section)
    return "\n\n".join(taken) + "\n"


def _heading(view: Overview) -> str:
    stopped = view.wave.get("error")
    why = f"\n\nStopped: {code(str(stopped), _MOST_WORDS)}" if stopped else ""
    branch = view.wave.get("branch")
    where = f" Branch {code(str(branch), 200)}." if branch else ""
    walls = words.sandbox(view.wave.get("sandbox"))
    inside = f" Sandbox {code(walls, 200)}." if walls else ""
    facts = f"{_sentence(total(view))}.{where}{inside}{why}"
    return f"## Wave {cell(view.wave_id)}: {view.headline}\n\n{facts}"


def _sentence(line: str) -> str:
    return line[:1].upper() + line[1:]


def _table(view: Overview) -> str:
    if not view.items:
        return ""
    items = view.ordered
    rows = [_row(item) for item in items[:_MOST_ROWS]]
    more = len(items) - _MOST_ROWS
    rest = f"\n\nAnd {counted(more, 'more item')}." if more > 0 else ""
    return "\n".join([_HEAD, *rows]) + rest


def _row(item: Item) -> str:
    """An item's row. Only its name is foreign text; the other cells are ours."""
    name, *rest = cells(item)
    size = item.diff
    change = f"+{size.added} -{size.removed}" if size else words.NONE
    return f"| {' | '.join((cell(name), *rest, change))} |"


def _unshipped(view: Overview) -> str:
    """The items that are not done: where nothing was to ship, those without proof."""
    return _section("Not shipped", map(_why, view.not_done), len(view.not_done))


def _why(item: Item) -> str:
    lines = [f"- **{cell(item.slug)}** is {item.outcome}: {code(item.reason, _MOST_WORDS)}"]
    if item.remedy:
        lines.append(f"  What to do: {_own(item.remedy)}")
    tests = [attempt.get("test") or {} for attempt in item.record.get("attempts") or ()]
    if tests and tests[-1].get("kind") not in (None, "green") and tests[-1].get("outputFile"):
        file = file_to_read(str(tests[-1]["outputFile"]))
        lines.append(f"  Output of its test: {code(file, _MOST_WORDS)}")
    if item.record.get("savedWork"):
        lines.append(f"  Its work: {code(str(item.record['savedWork']), _MOST_WORDS)}")
    return "\n".join(lines)


def _own(remedy: str) -> str:
    """A remedy; its words are ours, with code in it."""
    return remedy.replace("<", "&lt;") + "."


def _read_first(view: Overview) -> str:
    """The proven items with a risk, the riskiest first."""
    found = view.to_read_first()
    lines = (f"- {cell(item.slug)}: {code('; '.join(why), _MOST_WORDS)}" for item, why in found)
    return _section("Read first", lines, len(found))


def _left_out(view: Overview) -> str:
    """The items of the backlog that the wave did not take, as the last lines name them."""
    lines = list(left_out(view.report))
    shown = (f"- {code(_sentence(line), _MOST_WORDS)}" for line in lines)
    return _section("Left out", shown, len(lines))


def _section(heading: str, lines: Iterable[str], number: int) -> str:
    if not number:
        return ""
    more = number - _MOST_NAMED
    rest = [f"- and {more} more"] if more > 0 else []
    return "\n".join([f"### {heading}", "", *islice(lines, _MOST_NAMED), *rest])


def _next(view: Overview) -> str:
    command = next_command(view.wave)
    return f"### Next\n\n{fenced(command, _MOST_COMMAND)}" if command else ""
