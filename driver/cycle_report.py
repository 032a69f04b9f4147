"""What a cycle tells and writes down: its report, and the tracker's items as the wave left them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from driver.gates import CEILING, HALT, UNAVAILABLE
from driver.item_fields import id_of
from driver.outcome import Verdict
from driver.selection import Selection
from driver.tracker import Edit, update_items
from state_store.errors import ExitCode, TidegateError

INTAKE = "intake"
MANIFEST = "manifest"
DISPATCH = "dispatch"
_PHASE_OF_ABORT = {
    "halted": HALT,
    "cost_ceiling_exceeded": CEILING,
    "cost_ceiling_exceeded_in_repair": CEILING,
    UNAVAILABLE: UNAVAILABLE,
}
# What speaks of the surroundings and not of the item's work costs it no attempt.
_NO_ATTEMPT = (
    Verdict.UNDECIDED,
    Verdict.HALTED,
    Verdict.OVER_BUDGET,
    Verdict.LEASED_ELSEWHERE,
    Verdict.VERIFIED,
)


def conclude(
    wave_id: str,
    selection: Selection,
    result: Mapping[str, Any],
    *,
    tracker: Path,
    backend: str,
) -> dict[str, Any]:
    """Write what came of a wave into the tracker; the answer is the cycle's report."""
    built = {record["slug"]: record for record in result.get("built") or ()}
    ids = {item["slug"]: str(id_of(item)) for item in selection.selected}
    shipped = [slug for slug in result.get("shipped") or () if slug in ids]
    update = _update_tracker(tracker, _edits(built, ids, shipped, wave_id))
    phase = _PHASE_OF_ABORT.get(str(result.get("abort_reason")), DISPATCH)
    exit_code = int(result.get("exit_code", _exit_code(result, built, shipped, ids)))
    if exit_code == 0 and update.get("tracker_update_error"):
        exit_code = int(ExitCode.NOT_ALL_SHIPPED)
    why = result.get("error") or _untracked(update)
    error = {"error": why} if why else {}
    reason = {f"{phase}_reason": result.get("error")} if phase in (HALT, CEILING) else {}
    return cycle_report(
        phase,
        wave_id,
        selection,
        success=exit_code == 0,
        exit_code=exit_code,
        items_shipped=[_shipped(built.get(slug), slug, backend) for slug in shipped],
        items_failed_build=[ids[slug] for slug in ids if slug not in shipped],
        **{key: result[key] for key in ("branch", "sha") if result.get(key)},
        **update,
        **error,
        **reason,
        wave=dict(result),
    )


def _untracked(update: Mapping[str, Any]) -> str | None:
    fault = update.get("tracker_update_error")
    return f"what was shipped is not noted in the tracker: {fault}" if fault else None


def _exit_code(
    result: Mapping[str, Any],
    built: Mapping[str, Mapping[str, Any]],
    shipped: Sequence[str],
    ids: Mapping[str, str],
) -> int:
    # Only a replaced run_wave leaves the code to be derived here.
    began = result.get("preflight_ok") and not result.get("aborted")
    proven = all(built.get(slug, {}).get("verified") for slug in shipped)
    done = began and proven and len(shipped) == len(ids)
    return int(ExitCode.DONE if done else ExitCode.NOT_ALL_SHIPPED)


def _edits(
    built: Mapping[str, Mapping[str, Any]],
    ids: Mapping[str, str],
    shipped: Sequence[str],
    wave_id: str,
) -> dict[str, Edit]:
    """What changes in the tracker: shipped items move on, tried ones remember why they did not."""
    edits: dict[str, Edit] = {}
    for slug, item_id in ids.items():
        record = built.get(slug) or {}
        if slug in shipped:
            edits[item_id] = partial(_in_progress, wave_id)
        elif record.get("dispatched") or record.get("verdict") == Verdict.UNDECIDED:
            edits[item_id] = partial(_tried, record)
    return edits


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
    return {"attempts": attempts, "lastError": record.get("ship_error") or record.get("error")}


def _update_tracker(tracker: Path, edits: Mapping[str, Edit]) -> dict[str, Any]:
    if not edits:
        return {"tracker_update_attempted": False}
    try:
        unknown = update_items(tracker, edits)
    except (TidegateError, OSError) as error:
        return {
            "tracker_update_attempted": True,
            "tracker_update_error": f"tracker_update_exception: {error}",
        }
    if not unknown:
        return {"tracker_update_attempted": True}
    return {
        "tracker_update_attempted": True,
        "tracker_update_error": "unmapped_shipped_slugs",
        "tracker_unmapped_slugs": list(unknown),
    }


def _shipped(record: Mapping[str, Any] | None, slug: str, backend: str) -> dict[str, Any]:
    return {
        "slug": slug,
        "backend": backend,
        "tier": record.get("verificationTier") if record else None,
        "verified": bool(record and record.get("verified")),
        "testExit": record.get("testExit") if record else None,
        "buildRecord": dict(record) if record else None,
    }


def cycle_report(
    phase: str, wave_id: str, selection: Selection, *, success: bool, **more: Any
) -> dict[str, Any]:
    """A report with what was selected and why everything else was not."""
    skipped = [{"id": s.id, "reason": s.reason, "detail": s.detail} for s in selection.skipped]
    return emit_report(
        phase,
        wave_id,
        [item["id"] for item in selection.selected],
        success=success,
        items_skipped=skipped,
        **more,
    )


def failed(wave_id: str, error: TidegateError) -> dict[str, Any]:
    """The report of a cycle that found nothing it could work with."""
    return emit_report(
        INTAKE, wave_id, [], success=False, exit_code=int(error.exit_code), error=str(error)
    )


def emit_report(
    phase: str, wave_id: str, items_selected: Sequence[str], **optional: Any
) -> dict[str, Any]:
    """The report of a cycle: the keys that are always there, then `optional` where it says
    anything."""
    report = {
        "phase": phase,
        "wave_id": wave_id,
        "items_selected": list(items_selected),
        "items_shipped": [],
        "merged": False,
        "timestamp": datetime.now(UTC).isoformat(),
        "success": False,
    }
    return report | {key: value for key, value in optional.items() if value not in (None, [])}
