"""Renders STATE.md and BUILDLOG.md from views, for people.

The same state gives the same bytes. `ingest` writes tracker.json, which people edit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from driver.terminal.markdown import inline
from state_store.api import STATUS_STREAMS, StateAPI
from state_store.database.events import TRACKER, WAVE_PREFIX
from state_store.database.interface import Store
from state_store.database.kept_items import MADE_FROM_ITEMS
from state_store.database.projections import fold_status, no_status, shown_status
from state_store.documents.files import write_text_atomic
from state_store.documents.interpreter import collector_paused
from state_store.documents.item_status import ARCHIVED, BLOCKED, CLAIMED, DONE, IN_PROGRESS, TODO
from state_store.tracker.ingest import export_tracker

__all__ = [
    "buildlog",
    "export_buildlog",
    "export_state_md",
    "export_tracker",
    "render_buildlog",
    "render_state_md",
    "state_md",
]

View = Mapping[str, Any]

_KEPT = "view:buildlog"  # the snapshot that has the sections
_FORMAT_OF_LOG = 2  # of a section, to be raised as well
_FORMAT = 1  # to be raised with every change of the text of an item's line
_KEPT_STATUS = "view:status"  # its version is the id of the last event
_FEW_EVENTS = 200  # which are read in no time
_FEW_WAVES = 10
_FEW_ITEMS = 1_000  # which are rendered in no time
_BLOCK = 250
# `_line` changes nothing in a printable text without these, between bars.
_ACTIVE = ("<", "://", "](", "][", "]:", "  ", "| ", " |")

_STATUS_ORDER = (CLAIMED, IN_PROGRESS, TODO, "failed", BLOCKED, DONE, ARCHIVED)


def export_state_md(api: StateAPI, out_path: Path | str) -> None:
    """Write STATE.md from the store. Raises CannotRunError if it cannot be written."""
    write_text_atomic(Path(out_path), state_md(api))


def state_md(api: StateAPI) -> str:
    """The text of STATE.md for the present store.

    Reads only new events, and renders only their items. The rest comes from snapshots.
    """
    return _state_md(_status(api.store), *_item_lines(api.store))


def export_buildlog(api: StateAPI, out_path: Path | str) -> None:
    """Write BUILDLOG.md from the waves. Raises CannotRunError if it cannot be written."""
    write_text_atomic(Path(out_path), buildlog(api))


def buildlog(api: StateAPI) -> str:
    """The text of BUILDLOG.md for the present store.

    Renders only waves with new events. The other sections come from a snapshot.
    """
    # The sections by stream, as they were after the event whose id is the snapshot's version.
    after, snapshot, _ = api.store.read_snapshot(_KEPT) or (0, {}, "")
    if snapshot.get("format") != _FORMAT_OF_LOG:
        after, snapshot = 0, {"sections": {}}
    sections, last = snapshot["sections"], api.store.last_id()
    changed = api.store.streams_since(after, WAVE_PREFIX)
    for stream in changed:
        view = api.project(stream)
        wave_id = view["wave_id"] or stream.removeprefix(WAVE_PREFIX)
        sections[stream] = _dated({**view, "wave_id": wave_id})
    if len(changed) > min(_FEW_WAVES, len(sections) // 100):  # to save takes longer than a few
        saved = {"format": _FORMAT_OF_LOG, "sections": sections}
        api.store.save_snapshot(_KEPT, last, saved)
    return _buildlog(sections.values())


def _status(store: Store) -> View:
    """The view `orchestrator_status`."""
    after, kept, _ = store.read_snapshot(_KEPT_STATUS) or (0, {}, "")
    view = kept["view"] if kept.get("format") == _FORMAT else no_status()
    new = list(store.scan_several(STATUS_STREAMS, after if kept.get("format") == _FORMAT else 0))
    fold_status(view, new)
    if len(new) > _FEW_EVENTS:
        saved = {"format": _FORMAT, "view": view}
        store.save_snapshot(_KEPT_STATUS, new[-1]["id"], saved)
    return shown_status(view)


def _item_lines(store: Store) -> tuple[Iterable[str], Iterable[str]]:
    """The status and the line of each item, in order of creation."""
    version, _ = store.head(TRACKER)
    before, kept, _ = store.read_snapshot(MADE_FROM_ITEMS + TRACKER) or (0, {}, "")
    if kept.get("format") != _FORMAT or before > version:
        before, kept = 0, {"positions": [], "states": [], "lines": []}
    positions, states, lines = kept["positions"], kept["states"], kept["lines"]
    known, changed = len(positions), 0
    places = {position: place for place, position in enumerate(positions)}
    with collector_paused():
        for there, told in _lines_of(store.changed_items(before)):
            changed += len(there)
            if not known:  # of a long tracker, whose items are all new
                positions += there
                states += [state for state, _ in told]
                lines += [line for _, line in told]
                continue
            for position, (state, line) in zip(there, told, strict=True):
                place = places.setdefault(position, len(places))
                states[place : place + 1], lines[place : place + 1] = [state], [line]
    if changed > _FEW_ITEMS:
        positions = [*places] if known else positions
        saved = {"format": _FORMAT, "positions": positions, "states": states, "lines": lines}
        store.save_snapshot(MADE_FROM_ITEMS + TRACKER, version, saved)
    return states, lines


def _lines_of(
    items: Iterator[tuple[int, View]],
) -> Iterator[tuple[Sequence[int], Sequence[tuple[str, str]]]]:
    """The positions of some hundred items, and `_item_line` of each."""
    while block := list(islice(items, _BLOCK)):
        positions, views = zip(*block, strict=True)
        yield positions, _plain_lines(views) or list(map(_item_line, views))


def _plain_lines(items: Sequence[View]) -> list[tuple[str, str]] | None:
    """`_item_line` of each item in a tenth of the time; None if a text needs an escape."""
    states: list[Any] = [item.get("status") for item in items]
    ids: list[Any] = [item["id"] for item in items]
    titles: list[Any] = [item.get("title") or item.get("slug") for item in items]
    priorities: list[Any] = [item.get("priority") for item in items]
    parts = [*states, *ids, *titles, *priorities]
    if set(map(type, parts)) != {str} or not all(parts):
        return None
    together = f"|{'|'.join(parts)}|"
    if not (together.isascii() and together.isprintable()) or any(map(together.count, _ACTIVE)):
        return None
    fields = zip(states, ids, priorities, titles, strict=True)
    return [(state, f"{name} [{level}] {title}") for state, name, level, title in fields]


def _item_line(item: View) -> tuple[str, str]:
    title = _line(item.get("title") or item.get("slug") or "")
    priority = f" [{_line(item['priority'])}]" if item.get("priority") else ""
    line = f"{_line(item['id'])}{priority} {title}".rstrip()
    return _line(item.get("status") or "without status"), line


def render_state_md(status: View, tracker: View) -> str:
    """The text of STATE.md for the views `orchestrator_status` and `tracker`."""
    pairs = [_item_line(item) for item in tracker["items"]]
    return _state_md(status, [state for state, _ in pairs], [line for _, line in pairs])


def _state_md(status: View, states: Iterable[str], lines_of_items: Iterable[str]) -> str:
    phase = _line(status["phase"]).replace("`", "'") if status["phase"] else ""
    parts = [["# State"]]
    if phase:
        parts.append([f"## Phase: `{phase}`", "", f"Since {status['phase_since']}."])
    if cycle := status.get("cycle"):
        ran = f"Newest cycle: {_line(cycle['phase'])} since {cycle['since']}"
        parts.append([f"{ran}, wave {_line(cycle['wave_id'])}."])
    parts += [
        _section("Decisions", map(_decision, status["decisions"])),
        _section("Next steps", map(_value, status["next_steps"])),
        _section("Findings", map(_finding, status["findings"])),
    ]
    by_status: dict[str, list[str]] = {}
    for state, line in zip(states, lines_of_items, strict=True):
        by_status.setdefault(state, []).append(line)
    known = [state for state in _STATUS_ORDER if state in by_status]
    for state in [*known, *sorted(by_status.keys() - set(known))]:
        parts.append(_section(f"Items: {state} ({len(by_status[state])})", by_status[state]))
    return _text(parts)


def render_buildlog(waves: Iterable[View]) -> str:
    """The text of BUILDLOG.md for views of waves, the newest first, with all attempts."""
    return _buildlog(map(_dated, waves))


def _buildlog(sections: Iterable[Sequence[str]]) -> str:
    """The text of BUILDLOG.md for sections of `_dated`."""
    newest = sorted(sections, key=lambda section: section[1])
    newest.sort(key=lambda section: section[0], reverse=True)
    return _text([["# Build log"], *([text] for _, _, text in newest)])


def _dated(wave: View) -> list[str]:
    """The start, id and section of a wave."""
    items = wave["items"]
    shipped = f"{len(wave['shipped'])} of {len(items)} items shipped"
    ended = f"ended {wave['finished']}" if wave["finished"] else "not ended"
    lines = [
        f"## Wave {_line(wave['wave_id'])}",
        "",
        f"Started {wave['started'] or 'unknown'}, {ended}; {shipped}.",
    ]
    if wave["aborted"]:
        lines.append(f"Aborted: {_line(wave['abort_reason'] or 'no reason given')}.")
    lines += [""] if items else []
    for item in items:
        commit = f", commit {_line(item['commit'])[:12]}" if item["commit"] else ""
        commit += f" on {_line(item['branch'])}" if item.get("branch") else ""
        lines.append(f"- {_line(item['slug'])}: {_verdict(item)}{commit}")
        for attempt in reversed(item["attempts"]):
            lines.append(f"  - attempt {attempt.get('number') or '?'}: {_verdict(attempt)}")
    return [wave["started"] or "", str(wave["wave_id"]), "\n".join(lines)]


def _verdict(judged: View) -> str:
    verdict = judged.get("verdict") or judged.get("phase") or "not judged"
    return (
        f"{_line(verdict)}: {_line(judged['reason'])}" if judged.get("reason") else _line(verdict)
    )


def _decision(found: View) -> str:
    rest = {key: value for key, value in found.items() if key not in ("decision", "at")}
    return f"{found['at']} {_value(found.get('decision', rest))}"


def _finding(found: View) -> str:
    finding = found["finding"]
    if isinstance(finding, Mapping) and isinstance(finding.get("text"), str):
        finding = f"{finding.get('kind') or 'finding'}: {finding['text']}"
    return f"{found['at']} {_value(finding)}"


def _value(value: Any) -> str:
    return _line(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def _section(title: str, lines: Iterable[str]) -> list[str]:
    entries = [f"- {line}" for line in lines]
    return [f"## {title}", "", *entries] if entries else []


def _text(parts: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part).strip() for part in parts if part) + "\n"


def _line(value: Any) -> str:
    """The value on one line, so that an item's title makes no heading, link or picture."""
    return inline(str(value))
