"""What a wave leaves in the tracker: shipped items move on, tried ones remember why they did not.

Which edits those are is decided without I/O; how they get into the file is `tracker`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from driver.outcome import Verdict
from driver.tracker import Edit, update_items
from driver.wave_results import WaveResults
from state_store.errors import TidegateError

# What speaks of the surroundings and not of the item's work costs it no attempt.
_NO_ATTEMPT = (
    Verdict.UNDECIDED,
    Verdict.HALTED,
    Verdict.OVER_BUDGET,
    Verdict.LEASED_ELSEWHERE,
    Verdict.VERIFIED,
)


def update_tracker(tracker: Path, results: WaveResults, wave_id: str) -> dict[str, Any]:
    """Note what came of a wave; the answer is the cycle report's keys about it.

    Nothing is raised: what was shipped is shipped, and the report has to say so.
    """
    edits = edits_for(results, wave_id)
    if not edits:
        return {"tracker_update_attempted": False}
    return {"tracker_update_attempted": True, **_written(tracker, edits)}


def _written(tracker: Path, edits: Mapping[str, Edit]) -> dict[str, Any]:
    try:
        unknown = update_items(tracker, edits)
    except (TidegateError, OSError) as error:
        return {"tracker_update_error": f"tracker_update_exception: {error}"}
    if not unknown:
        return {}
    return {
        "tracker_update_error": "unmapped_shipped_slugs",
        "tracker_unmapped_slugs": list(unknown),
    }


def edits_for(results: WaveResults, wave_id: str) -> dict[str, Edit]:
    """What to change, by item id; an item that nobody worked on is left alone."""
    edits: dict[str, Edit] = {}
    for slug, item_id in results.ids.items():
        record = results.built.get(slug) or {}
        if slug in results.shipped:
            edits[item_id] = partial(_in_progress, wave_id)
        elif record.get("dispatched") or record.get("verdict") == Verdict.UNDECIDED:
            edits[item_id] = partial(_tried, record)
    return edits


def _in_progress(wave_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    note = f"{item.get('notes') or ''} [wave {wave_id[:8]}]".strip()
    # Whoever moved the item on while the wave ran knows more than the wave.
    status = "in_progress" if item.get("status") == "todo" else item.get("status")
    return {"status": status, "notes": note}


def _tried(record: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    before = item.get("attempts")
    attempts = before if isinstance(before, int) else 0
    if record.get("verdict") not in _NO_ATTEMPT:
        attempts += 1
    return {"attempts": attempts, "lastError": record.get("ship_error") or record.get("error")}
