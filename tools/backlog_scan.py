"""Finds items to do that own nothing, name missing files, or overlap. Advice only.

The caller supplies the engine's rules for overlaps. The scheduler decides which items it refuses.
"""

from __future__ import annotations

if not __package__ and __name__ == "__main__":
    import sys

    sys.stderr.write(
        "tools/backlog_scan.py is no program; the program is tools/wave_preflight.py\n"
    )
    raise SystemExit(2)

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import MissingFileError, read_text
from state_store.documents.item_status import TODO
from state_store.tracker.file import read_tracker_file
from tools.ledger.rows import cells_of

Item = Mapping[str, Any]
# (position of the later item, position of the earlier item, shared path) for each overlap.
Overlaps = Callable[[Sequence[Item]], Iterable[tuple[int, int, str]]]

MISSING, STALE, OVERLAP = "missing_ownership", "stale_reference", "ownership_overlap"
AVAILABLE, UNAVAILABLE = "AVAILABLE", "DATA-UNAVAILABLE"
_VERDICT, _PHASE = 6, 7


def scan(tracker: Path, work_dir: Path, ledger: Path | None, overlaps: Overlaps) -> dict[str, Any]:
    """Keys success, items (all to do: id, title, flags of type and detail), ledger_stats, summary;
    with success False also error."""
    try:
        entries = read_tracker_file(tracker).entries
    except InputError as error:
        empty = {"items": [], "ledger_stats": ledger_stats(None)}
        summary = "the tracker could not be read"
        return {"success": False, "error": str(error), **empty, "summary": summary}
    todo = [item for item in entries if item.get("status") == TODO]
    flags = [_flags(item, work_dir) for item in todo]
    for later, earlier, what in overlaps(todo):
        for own, other in ((later, earlier), (earlier, later)):
            names = map(todo[other].get, ("id", "slug", "title"))
            named = next(filter(None, names), "an item without a name")
            flags[own].append({"type": OVERLAP, "detail": f"{what}: {named} too"})
    items = [
        {"id": item.get("id"), "title": item.get("title"), "flags": found}
        for item, found in zip(todo, flags, strict=True)
    ]
    summary = f"{len(todo)} items to do, {sum(map(bool, flags))} of them with flags"
    return {
        "success": True, "items": items, "ledger_stats": ledger_stats(ledger), "summary": summary,
    }  # fmt: skip


def _flags(item: Item, work_dir: Path) -> list[dict[str, str]]:
    listed = item.get("ownsFiles") or item.get("owns_files")
    owned = [e for e in listed if isinstance(e, str) and e] if isinstance(listed, list) else []
    if not owned:
        return [{"type": MISSING, "detail": "ownsFiles names no file"}]
    folder = work_dir / str(item.get("workDir") or ".")
    return [
        {"type": STALE, "detail": f"{entry} does not exist, which is fine if the item creates it"}
        for entry in owned
        if "\0" not in entry and not os.path.exists(folder / entry)  # noqa: PTH110 - never raises
    ]


def ledger_stats(ledger: Path | None) -> dict[str, Any]:
    """Counts the rows of a ledger: in total, failed, repairs and by verdict. `data` tells if it
    could be read; if not, `note`, `reason` or `error` tells why."""
    if ledger is None:
        return {"data": UNAVAILABLE, "note": "no ledger was named"}
    try:
        lines = read_text(ledger).splitlines()
    except MissingFileError as error:
        return {"data": UNAVAILABLE, "reason": str(error)}
    except InputError as error:
        return {"data": UNAVAILABLE, "error": str(error)}
    rows = [row for row in map(cells_of, lines) if len(row) > _VERDICT and row[0][:1].isdigit()]
    failed = sum(row[_VERDICT] == "FAILED" for row in rows)
    repairs = sum(row[_PHASE : _PHASE + 1] == ["repair"] for row in rows)
    return {
        "data": AVAILABLE,
        "total_entries": len(rows),
        "failed_count": failed,
        "repair_count": repairs,
        "retry_rate": round(repairs / len(rows), 3) if rows else 0.0,
        "rows": len(rows),
        **Counter(row[_VERDICT] for row in rows),
    }
