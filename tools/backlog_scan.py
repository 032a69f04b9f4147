"""An advisory look at a backlog: items that own nothing, name what is not there, or overlap.

Judges nothing: what a scheduler would refuse is the scheduler's to say. `overlaps` is given the
engine's rules for names by its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import read_text
from state_store.documents.item_status import is_finished
from state_store.tracker.file import read_tracker_file

Item = Mapping[str, Any]
# (position of the later item, position of the earlier one, what both write) for each clash.
Overlaps = Callable[[Sequence[Item]], Iterable[tuple[int, int, str]]]

MISSING, STALE, OVERLAP = "missing_ownership", "stale_reference", "ownership_overlap"
_VERDICT = 6


def scan(tracker: Path, work_dir: Path, ledger: Path | None, overlaps: Overlaps) -> dict[str, Any]:
    """Keys success, items (those with flags: id, title, flags of type and detail), ledger_stats,
    summary; with success False also error."""
    try:
        entries = read_tracker_file(tracker).entries
    except InputError as error:
        empty = {"items": [], "ledger_stats": {}, "summary": "the tracker could not be read"}
        return {"success": False, "error": str(error), **empty}
    todo = [item for item in entries if not is_finished(item)]
    flags = [_flags(item, work_dir) for item in todo]
    for later, earlier, what in overlaps(todo):
        flags[later].append({"type": OVERLAP, "detail": f"{what}: {_called(todo[earlier])} too"})
    flagged = [
        {"id": item.get("id"), "title": item.get("title"), "flags": told}
        for item, told in zip(todo, flags, strict=True)
        if told
    ]
    summary = f"{len(todo)} open items, {len(flagged)} with something to look at"
    stats = ledger_stats(ledger) if ledger else {}
    return {"success": True, "items": flagged, "ledger_stats": stats, "summary": summary}


def _flags(item: Item, work_dir: Path) -> list[dict[str, str]]:
    owned = _owned(item)
    if not owned:
        return [{"type": MISSING, "detail": "ownsFiles names no file"}]
    folder = work_dir / str(item.get("workDir") or ".")
    return [
        {"type": STALE, "detail": f"{entry} is not there, which is fine if the item makes it"}
        for entry in owned
        if "\0" not in entry and not (folder / entry).exists()
    ]


def _owned(item: Item) -> list[str]:
    listed = item.get("ownsFiles") or item.get("owns_files")
    return [e for e in listed if isinstance(e, str) and e] if isinstance(listed, list) else []


def _called(item: Item) -> str:
    return str(item.get("id") or item.get("slug") or item.get("title") or "an item without a name")


def ledger_stats(ledger: Path) -> dict[str, int]:
    """How many rows a ledger has, in all and by verdict; empty when it cannot be read."""
    try:
        lines = read_text(ledger).splitlines()
    except InputError:
        return {}
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    rows = [row for row in rows if len(row) > _VERDICT and row[0][:1].isdigit()]
    stats = {"rows": len(rows)}
    for row in rows:
        stats[row[_VERDICT]] = stats.get(row[_VERDICT], 0) + 1
    return stats
