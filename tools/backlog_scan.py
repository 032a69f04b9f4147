"""Finds open items that own nothing, name missing files, or overlap. Advice only.

The caller supplies the engine's rules for overlaps. The scheduler decides which items it refuses.
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
# (position of the later item, position of the earlier item, shared path) for each overlap.
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
        names = map(todo[earlier].get, ("id", "slug", "title"))
        other = next(filter(None, names), "an item without a name")
        flags[later].append({"type": OVERLAP, "detail": f"{what}: {other} too"})
    flagged = [
        {"id": item.get("id"), "title": item.get("title"), "flags": found}
        for item, found in zip(todo, flags, strict=True)
        if found
    ]
    summary = f"{len(todo)} open items, {len(flagged)} of them with flags"
    stats = ledger_stats(ledger) if ledger else {}
    return {"success": True, "items": flagged, "ledger_stats": stats, "summary": summary}


def _flags(item: Item, work_dir: Path) -> list[dict[str, str]]:
    listed = item.get("ownsFiles") or item.get("owns_files")
    owned = [e for e in listed if isinstance(e, str) and e] if isinstance(listed, list) else []
    if not owned:
        return [{"type": MISSING, "detail": "ownsFiles names no file"}]
    folder = work_dir / str(item.get("workDir") or ".")
    return [
        {"type": STALE, "detail": f"{entry} does not exist, which is fine if the item creates it"}
        for entry in owned
        if "\0" not in entry and not (folder / entry).exists()
    ]


def ledger_stats(ledger: Path) -> dict[str, int]:
    """Counts the rows of a ledger, in total and by verdict. Empty if it cannot be read."""
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
