"""STATE.md and BUILDLOG.md, for people: rendered from views by pure functions, written whole.

The same state gives the same bytes. tracker.json, which people edit, is `ingest`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.api import StateAPI
from state_store.database.events import WAVE_PREFIX
from state_store.documents.files import write_text_atomic
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
_FORMAT = 1  # to be raised with every change of what a section says

_STATUS_ORDER = (CLAIMED, IN_PROGRESS, TODO, "failed", BLOCKED, DONE, ARCHIVED)


def export_state_md(api: StateAPI, out_path: Path | str) -> None:
    """Write STATE.md from the store. Raises CannotRunError when it cannot be written."""
    write_text_atomic(Path(out_path), state_md(api))


def state_md(api: StateAPI) -> str:
    """STATE.md of the store as it is now."""
    return render_state_md(api.project("orchestrator_status"), api.project("tracker"))


def export_buildlog(api: StateAPI, out_path: Path | str) -> None:
    """Write BUILDLOG.md from the waves. Raises CannotRunError when it cannot be written."""
    write_text_atomic(Path(out_path), buildlog(api))


def buildlog(api: StateAPI) -> str:
    """BUILDLOG.md of the store as it is now.

    Only waves with events since the last time are folded; the other sections were kept.
    """
    known, kept = _kept_sections(api), {}
    for stream, (_, link) in api.store.heads().items():
        if stream.startswith(WAVE_PREFIX):
            old = known.get(stream)
            kept[stream] = old if old and old[0] == link else [link, *_exported(api, stream)]
    if kept != known:
        api.store.save_snapshot(_KEPT, len(kept), {"format": _FORMAT, "sections": kept})
    return _buildlog(section for _, *section in kept.values())


def _kept_sections(api: StateAPI) -> dict[str, list[str]]:
    """By stream the link of its last event, and the section as it was then."""
    _, kept, _ = api.store.read_snapshot(_KEPT) or (0, {}, "")
    return kept["sections"] if kept.get("format") == _FORMAT else {}


def _exported(api: StateAPI, stream: str) -> list[str]:
    view = api.project(stream)
    return _dated({**view, "wave_id": view["wave_id"] or stream.removeprefix(WAVE_PREFIX)})


def render_state_md(status: View, tracker: View) -> str:
    """STATE.md of the views `orchestrator_status` and `tracker`."""
    phase = _line(status["phase"]).replace("`", "'") if status["phase"] else ""
    parts = [["# State"]]
    if phase:
        parts.append([f"## Phase: `{phase}`", "", f"Since {status['phase_since']}."])
    if cycle := status.get("cycle"):
        ran = f"Newest cycle: {_line(cycle['phase'])} since {cycle['since']}"
        parts.append([f"{ran}, wave {_line(cycle['wave_id'])}."])
    parts += [
        _section("Decisions", [_decision(found) for found in status["decisions"]]),
        _section("Next steps", [_said(step) for step in status["next_steps"]]),
        _section("Findings", [_finding(found) for found in status["findings"]]),
        *_items_by_status(tracker["items"]),
    ]
    return _text(parts)


def render_buildlog(waves: Iterable[View]) -> str:
    """BUILDLOG.md of the views of waves: the newest first, each item with its attempts."""
    return _buildlog(map(_dated, waves))


def _buildlog(sections: Iterable[Sequence[str]]) -> str:
    """Of sections as `_dated` gives them."""
    newest = sorted(sections, key=lambda section: section[1])
    newest.sort(key=lambda section: section[0], reverse=True)
    return _text([["# Build log"], *([text] for _, _, text in newest)])


def _dated(wave: View) -> list[str]:
    return [wave["started"] or "", str(wave["wave_id"]), "\n".join(_wave(wave))]


def _wave(wave: View) -> list[str]:
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
    return lines + [line for item in items for line in _wave_item(item)]


def _wave_item(item: View) -> Iterator[str]:
    commit = f", commit {_line(item['commit'])[:12]}" if item["commit"] else ""
    commit += f" on {_line(item['branch'])}" if item.get("branch") else ""
    yield f"- {_line(item['slug'])}: {_verdict(item)}{commit}"
    for attempt in reversed(item["attempts"]):
        yield f"  - attempt {attempt.get('number') or '?'}: {_verdict(attempt)}"


def _verdict(judged: View) -> str:
    verdict = judged.get("verdict") or judged.get("phase") or "not judged"
    return (
        f"{_line(verdict)}: {_line(judged['reason'])}" if judged.get("reason") else _line(verdict)
    )


def _items_by_status(items: Sequence[View]) -> Iterator[list[str]]:
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(_line(item.get("status") or "without status"), []).append(_item(item))
    known = [status for status in _STATUS_ORDER if status in found]
    for status in [*known, *sorted(found.keys() - set(known))]:
        yield _section(f"Items: {status} ({len(found[status])})", found[status])


def _item(item: View) -> str:
    title = _line(item.get("title") or item.get("slug") or "")
    priority = f" [{_line(item['priority'])}]" if item.get("priority") else ""
    return f"{_line(item['id'])}{priority} {title}".rstrip()


def _decision(found: View) -> str:
    rest = {key: value for key, value in found.items() if key not in ("decision", "at")}
    return f"{found['at']} {_said(found.get('decision', rest))}"


def _finding(found: View) -> str:
    finding = found["finding"]
    if isinstance(finding, Mapping) and isinstance(finding.get("text"), str):
        finding = f"{finding.get('kind') or 'finding'}: {finding['text']}"
    return f"{found['at']} {_said(finding)}"


def _said(value: Any) -> str:
    return _line(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {line}" for line in lines)] if lines else []


def _text(parts: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part).strip() for part in parts if part) + "\n"


def _line(value: Any) -> str:
    """One line of a list whatever is in it: nobody's title makes a heading of its own."""
    return " ".join(str(value).split())
