"""Writes a wave's results to the tracker: shipped items move on, failed ones keep the reason.

`edits_for` decides the edits without I/O; `backlog` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from driver.backlog.publication_status import KEY, Shipped, note_of
from driver.backlog.retry_policy import RetryPolicy, after_try, no_wait, opened
from driver.backlog.tracker import Edit
from driver.domain.results import REPAIRABLE, Verdict
from driver.limits.admission import PARKED, REFUSED
from driver.scheduler.backlog import Backlog
from driver.scheduler.report import WaveResults
from driver.terminal.safe_text import with_note, without_remedy
from state_store.documents.errors import TidegateError
from state_store.documents.item_status import IN_PROGRESS, is_open
from state_store.values.lazy_dataclass import dataclass

# The reasons of these verdicts are kept even if no agent was dispatched.
_WITH_REASON = (Verdict.UNDECIDED, Verdict.OVER_BUDGET)


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts beside a wave's results: its id, the record of each shipment by slug, the retry
    policy and the time."""

    wave_id: str
    shipments: Mapping[str, Shipped | None]
    policy: RetryPolicy
    now: datetime


def update_tracker(
    backlog: Backlog, resources: Mapping[str, str], results: WaveResults, terms: Terms
) -> dict[str, Any]:
    """Write the results; returns the cycle report's keys about it.

    `resources` names each item's lease by item id. Raises nothing: shipped items are shipped, and
    the report has to say so.
    """
    edits = edits_for(results, terms)
    if not edits:
        return {"tracker_update_attempted": False}
    attempted: dict[str, Any] = {"tracker_update_attempted": True}
    try:
        unknown = backlog.write({name: (resources[name], edit) for name, edit in edits.items()})
    except (TidegateError, OSError) as error:
        return {**attempted, "tracker_update_error": f"tracker_update_exception: {error}"}
    if not unknown:
        return attempted
    fault = "unmapped_shipped_slugs"
    return {**attempted, "tracker_update_error": fault, "tracker_unmapped_slugs": list(unknown)}


def edits_for(results: WaveResults, terms: Terms) -> dict[str, Edit]:
    """The edits by item id; an item that no agent worked on is only given back."""
    edits: dict[str, Edit] = {}
    for slug, item_id in results.ids.items():
        record = results.built.get(slug) or {}
        if record.get("verdict") == Verdict.LEASED_ELSEWHERE:
            continue  # the holder of its lease writes its result
        if slug in results.shipped:
            edits[item_id] = partial(_in_progress, terms, slug)
        elif record.get("verdict") in (Verdict.SHIPPED_ELSEWHERE, Verdict.WITHDRAWN):
            edits[item_id] = opened
        elif _was_tried(record):
            why = record.get("ship_error") or record.get("error")
            if record.get("verified") and results.report.get("shipped", ()) is None:
                work = f": {record['savedWork']}" if record.get("savedWork") else ""
                why = f'verified, and kept as a patch as [ship] mode is "none"{work}'
            reason = without_remedy(why) if why else None
            edits[item_id] = partial(
                after_try,
                verdict=_verdict_that_counts(record, results.report.get("abort_reason")),
                why=reason,
                policy=terms.policy,
                now=terms.now,
                waits=bool(record.get("waitsForPerson")),
            )
        else:
            edits[item_id] = opened
    return edits


def _was_tried(record: Mapping[str, Any]) -> bool:
    """True if an agent worked on the item, or if it has a reason of its own to wait."""
    verdict = record.get("verdict")
    # A remote may also refuse the work of an earlier run.
    refused = verdict == Verdict.REFUSED and bool(record.get("attempts"))
    return bool(record.get("dispatched")) or verdict in _WITH_REASON or refused


def _is_unpaid(record: Mapping[str, Any], abort_reason: object) -> bool:
    """True if no test ran, and no agent is known to have answered. A backend that takes no work
    may leave the use unknown."""
    usage = record.get("usage")
    if record.get("testExit") is not None or not isinstance(usage, Mapping):
        return False
    used = [usage.get(key) for key in ("totalTokens", "inputTokens", "outputTokens", "costUsd")]
    closed = abort_reason in (PARKED, REFUSED)
    never = record.get("dispatched") is False and not record.get("attempts")
    return not any(used) and (closed or never or used[0] == 0)


def _verdict_that_counts(record: Mapping[str, Any], abort_reason: object) -> object:
    """The verdict that decides the cost of a try: of failed work that a ceiling kept from its
    repair, that of the work, because it was paid for. An undecided item that nothing was paid for
    waits for nothing: a person may have removed the cause, and to look again is free."""
    verdict, attempts = record.get("verdict"), record.get("attempts")
    if verdict == Verdict.UNDECIDED and _is_unpaid(record, abort_reason):
        return Verdict.HALTED
    if verdict != Verdict.OVER_BUDGET or not isinstance(attempts, list) or not attempts:
        return verdict
    last = attempts[-1].get("verdict")
    return last if last in REPAIRABLE else verdict


def _in_progress(terms: Terms, slug: str, item: Mapping[str, Any]) -> dict[str, Any]:
    note = with_note(item.get("notes"), note_of(terms.wave_id))
    # A status that was set while the wave ran stays.
    status = IN_PROGRESS if is_open(item) else item.get("status")
    cured = {"lastError": None} if item.get("lastError") else {}
    kept = terms.shipments.get(slug)
    shipped = {KEY: kept.to_json()} if kept else {}
    return {"status": status, "notes": note, **shipped, **cured, **no_wait(item)}
