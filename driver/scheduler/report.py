"""What a cycle tells: its report, of a wave that ran or of what kept it from running. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from driver.backlog.publication_status import Shipped
from driver.backlog.selection import LEASED_ELSEWHERE, Selection, Skipped
from driver.limits.admission import CEILING, HALT, UNAVAILABLE, GateClosedError
from state_store.documents.errors import ExitCode, TidegateError
from state_store.documents.item_id import id_of


@dataclass(frozen=True, slots=True)
class WaveResults:
    """`ids` is the item id of each selected slug, `built` the record of each slug that has one;
    `shipped` are slugs, of selected items only. `told` is everything, as it was answered."""

    told: Mapping[str, Any]
    ids: Mapping[str, str]
    built: Mapping[str, Mapping[str, Any]]
    shipped: tuple[str, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any], selection: Selection) -> WaveResults:
        """Read the answer of a `run_wave`."""
        ids = {item["slug"]: str(id_of(item)) for item in selection.selected}
        built = {record["slug"]: record for record in told.get("built") or ()}
        return cls(told, ids, built, tuple(s for s in told.get("shipped") or () if s in ids))

    @property
    def not_shipped(self) -> tuple[str, ...]:
        """The ids of the selected items that were left behind."""
        return tuple(found for slug, found in self.ids.items() if slug not in self.shipped)

    def shipment(
        self, slug: str, place: str | None, entries: Iterable[Mapping[str, Any]]
    ) -> Shipped | None:
        """What to keep of a shipment, None where no commit is told; `place` is its repository,
        `entries` the journal's of the item: one may know a line that an earlier wave published."""
        record = self.built.get(slug) or {}
        commit = _text(record.get("commit"))
        if not commit:
            return None
        known = (entry for entry in entries if entry.get("commit") == commit)
        mine: Mapping[str, Any] = next(known, {})
        bases = self.told.get("base") or ()
        mine_only = (b for b in bases if len(bases) == 1 or b.get("repo") == place)
        base: Mapping[str, Any] = next(mine_only, {})
        # What an earlier wave has published may be in the base of this one already.
        onto = "" if record.get("skipped_from_journal") else _text(base.get("commit"))
        return Shipped(
            wave=_text(mine.get("waveId")) or _text(self.told.get("wave_id")),
            commit=commit,
            branch=_text(mine.get("branch")) or _text(self.told.get("branch")),
            target=_text(base.get("branch")),
            onto=onto,
        )

    @property
    def error(self) -> str | None:
        """The sentence that says what kept the wave from its end."""
        return self.told.get("error")

    @property
    def exit_code(self) -> int:
        """As told; derived only where a replaced `run_wave` tells none."""
        if "exit_code" in self.told:
            return int(self.told["exit_code"])
        began = self.told.get("preflight_ok") and not self.told.get("aborted")
        proven = all(self.built.get(slug, {}).get("verified") for slug in self.shipped)
        done = began and proven and len(self.shipped) == len(self.ids)
        return int(ExitCode.DONE if done else ExitCode.NOT_ALL_SHIPPED)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


INTAKE = "intake"
MANIFEST = "manifest"
DISPATCH = "dispatch"
_PHASE_OF_ABORT = {
    "halted": HALT,
    "cost_ceiling_exceeded": CEILING,
    "cost_ceiling_exceeded_in_repair": CEILING,
    UNAVAILABLE: UNAVAILABLE,
}


def concluded(
    wave_id: str,
    selection: Selection,
    results: WaveResults,
    *,
    update: Mapping[str, Any],
    backend: str,
) -> dict[str, Any]:
    """The report of a cycle that ran a wave; `update` are the keys about the tracker."""
    untracked = update.get("tracker_update_error")
    exit_code = results.exit_code
    if exit_code == ExitCode.DONE and untracked:
        exit_code = int(ExitCode.NOT_ALL_SHIPPED)
    phase = _PHASE_OF_ABORT.get(str(results.told.get("abort_reason")), DISPATCH)
    reason = {f"{phase}_reason": results.error} if phase in (HALT, CEILING) else {}
    return cycle_report(
        phase,
        wave_id,
        selection,
        success=exit_code == ExitCode.DONE,
        exit_code=exit_code,
        items_shipped=[_shipped(results.built.get(s), s, backend) for s in results.shipped],
        items_failed_build=list(results.not_shipped),
        branch=results.told.get("branch") or None,
        sha=results.told.get("sha") or None,
        **update,
        error=results.error or _untracked(untracked),
        **reason,
        wave=dict(results.told),
    )


def _untracked(fault: str | None) -> str | None:
    return f"what came of the wave is not noted in the tracker: {fault}" if fault else None


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
    skipped = [_left_out(left_out) for left_out in selection.skipped]
    return emit_report(
        phase,
        wave_id,
        [item["id"] for item in selection.selected],
        success=success,
        items_skipped=skipped,
        selection=None if selection.exact else "greedy",
        **{"exit_code": int(ExitCode.DONE if success else ExitCode.NOT_ALL_SHIPPED), **more},
    )


def _left_out(skipped: Skipped) -> dict[str, Any]:
    clash = {"clash": skipped.clash} if skipped.clash is not None else {}
    return {"id": skipped.id, "reason": skipped.reason, "detail": skipped.detail, **clash}


def nothing_to_do(wave_id: str, selection: Selection) -> dict[str, Any]:
    """The report of a cycle that takes nothing, which is well unless others have it all."""
    taken = next((s for s in selection.skipped if s.reason == LEASED_ELSEWHERE), None)
    if taken is None:
        return cycle_report(INTAKE, wave_id, selection, success=True)
    why = f"every item to do is being worked on elsewhere: {taken.detail}"
    code = int(ExitCode.STOPPED_BY_POLICY)
    return cycle_report(INTAKE, wave_id, selection, success=False, exit_code=code, error=why)


def failed(wave_id: str, error: TidegateError) -> dict[str, Any]:
    """The report of a cycle that found nothing it could work with."""
    return emit_report(
        INTAKE, wave_id, [], success=False, exit_code=int(error.exit_code), error=str(error)
    )


def stopped(wave_id: str, closed: GateClosedError) -> dict[str, Any]:
    """The report of a cycle that a gate did not let begin."""
    key = {HALT: "halt_reason", CEILING: "ceiling_reason"}.get(closed.gate)
    reason = {key: str(closed)} if key else {}
    return emit_report(
        closed.gate,
        wave_id,
        [],
        success=False,
        exit_code=int(closed.exit_code),
        error=str(closed),
        **reason,
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
