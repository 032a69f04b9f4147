"""What a wave leaves in the tracker: shipped items move on, tried ones remember why they did not.

Which edits those are is decided without I/O; how they are written is `backlog`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from driver.backlog import Backlog
from driver.outcome import Verdict
from driver.text import without_remedy
from driver.tracker import Edit
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
# These say why even where nobody has worked.
_TOLD = (Verdict.UNDECIDED, Verdict.OVER_BUDGET)


def update_tracker(
    backlog: Backlog, resources: Mapping[str, str], results: WaveResults, wave_id: str
) -> dict[str, Any]:
    """Note what came of a wave; the answer is the cycle report's keys about it.

    `resources` says by item id what each item's lease is called.

    Nothing is raised: what was shipped is shipped, and the report has to say so.
    """
    edits = edits_for(results, wave_id)
    if not edits:
        return {"tracker_update_attempted": False}
    leased = {name: (resources[name], edit) for name, edit in edits.items()}
    return {"tracker_update_attempted": True, **_written(backlog, leased)}


def _written(backlog: Backlog, edits: Mapping[str, tuple[str, Edit]]) -> dict[str, Any]:
    try:
        unknown = backlog.write(edits)
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
        if record.get("verdict") == Verdict.LEASED_ELSEWHERE:
            continue  # its present holder has the word
        if slug in results.shipped:
            edits[item_id] = partial(_in_progress, wave_id)
        elif record.get("dispatched") or record.get("verdict") in _TOLD:
            edits[item_id] = partial(_tried, {**record, **_unasked(results, record)})
    return edits


def _unasked(results: WaveResults, record: Mapping[str, Any]) -> dict[str, str]:
    """What keeps verified work where it is when no ship was asked for."""
    if not record.get("verified") or results.told.get("shipped", ()) is not None:
        return {}
    work = f": {record['savedWork']}" if record.get("savedWork") else ""
    return {"ship_error": f'verified, and kept as a patch as [ship] mode is "none"{work}'}


def _in_progress(wave_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    note = f"{item.get('notes') or ''} [wave {wave_id[:8]}]".strip()
    # Whoever moved the item on while the wave ran knows more than the wave.
    status = "in_progress" if item.get("status") == "todo" else item.get("status")
    cured = {"lastError": None} if item.get("lastError") else {}
    return {"status": status, "notes": note, **cured}


def _tried(record: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    before = item.get("attempts")
    attempts = before if isinstance(before, int) else 0
    if record.get("verdict") not in _NO_ATTEMPT:
        attempts += 1
    why = record.get("ship_error") or record.get("error")
    return {"attempts": attempts, "lastError": without_remedy(why) if why else None}
