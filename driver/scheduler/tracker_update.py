"""What a wave leaves in the tracker: shipped items move on, tried ones remember why they did not.

Which edits those are is decided without I/O, what a try costs in `attempts`; how they are written
is `backlog`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from driver.backlog.publication_status import KEY, Shipped, note_of
from driver.backlog.retry_policy import RetryPolicy, after_try, no_wait, opened
from driver.backlog.tracker import Edit
from driver.domain.results import Verdict
from driver.scheduler.backlog import Backlog
from driver.scheduler.report import WaveResults
from driver.terminal.safe_text import with_note, without_remedy
from state_store.documents.errors import TidegateError
from state_store.documents.item_status import IN_PROGRESS, is_open

# These say why even where nobody has worked.
_TOLD = (Verdict.UNDECIDED, Verdict.OVER_BUDGET)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a wave's results are noted with: its id, what is kept of each shipment, by slug, how
    often and how soon an item is tried again, and what time it is."""

    wave_id: str
    shipments: Mapping[str, Shipped | None]
    patience: RetryPolicy
    now: datetime


def update_tracker(
    backlog: Backlog, resources: Mapping[str, str], results: WaveResults, terms: Terms
) -> dict[str, Any]:
    """Note what came of a wave; the answer is the cycle report's keys about it.

    `resources` says by item id what each item's lease is called.

    Nothing is raised: what was shipped is shipped, and the report has to say so.
    """
    edits = edits_for(results, terms)
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


def edits_for(results: WaveResults, terms: Terms) -> dict[str, Edit]:
    """What to change, by item id; an item that nobody worked on is only given back."""
    edits: dict[str, Edit] = {}
    for slug, item_id in results.ids.items():
        record = results.built.get(slug) or {}
        if record.get("verdict") == Verdict.LEASED_ELSEWHERE:
            continue  # its present holder has the word
        if slug in results.shipped:
            edits[item_id] = partial(_in_progress, terms, slug)
        elif record.get("verdict") in (Verdict.SHIPPED_ELSEWHERE, Verdict.WITHDRAWN):
            edits[item_id] = opened
        elif record.get("dispatched") or record.get("verdict") in _TOLD:
            edits[item_id] = partial(_tried, terms, {**record, **_unasked(results, record)})
        else:
            edits[item_id] = opened
    return edits


def _unasked(results: WaveResults, record: Mapping[str, Any]) -> dict[str, str]:
    """What keeps verified work where it is when no ship was asked for."""
    if not record.get("verified") or results.told.get("shipped", ()) is not None:
        return {}
    work = f": {record['savedWork']}" if record.get("savedWork") else ""
    return {"ship_error": f'verified, and kept as a patch as [ship] mode is "none"{work}'}


def _in_progress(terms: Terms, slug: str, item: Mapping[str, Any]) -> dict[str, Any]:
    note = with_note(item.get("notes"), note_of(terms.wave_id))
    # Whoever moved the item on while the wave ran knows more than the wave.
    status = IN_PROGRESS if is_open(item) else item.get("status")
    cured = {"lastError": None} if item.get("lastError") else {}
    kept = terms.shipments.get(slug)
    shipped = {KEY: kept.to_json()} if kept else {}
    return {"status": status, "notes": note, **shipped, **cured, **no_wait(item)}


def _tried(terms: Terms, record: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    why = record.get("ship_error") or record.get("error")
    told = without_remedy(why) if why else None
    return after_try(item, record.get("verdict"), told, terms.patience, terms.now)
