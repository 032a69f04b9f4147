"""Builds the scheduler's JSON report, also for a cycle that stopped before its wave. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from driver.backlog.publication_status import Shipped
from driver.backlog.selection import LEASED_ELSEWHERE, Selection
from driver.limits.admission import CEILING, HALT, UNAVAILABLE, GateClosedError
from state_store.database.publications import Publication
from state_store.documents.errors import ExitCode, InputError, TidegateError
from state_store.documents.item_id import id_of
from state_store.values.lazy_dataclass import dataclass


class AllBrokenError(InputError):
    """Every remaining item is broken. `selection` has the reason for each."""

    def __init__(self, problems: Sequence[str], selection: Selection) -> None:
        super().__init__(problems)
        self.selection = selection


@dataclass(frozen=True, slots=True)
class WaveResults:
    """The results of a wave: its whole `report`, the item id of each selected slug, the record of
    each slug that was `built`, and the `shipped` slugs of selected items."""

    report: Mapping[str, Any]
    ids: Mapping[str, str]
    built: Mapping[str, Mapping[str, Any]]
    shipped: tuple[str, ...]

    @classmethod
    def of(cls, report: Mapping[str, Any], selection: Selection) -> WaveResults:
        """Read the report of a `run_wave`."""
        ids = {item["slug"]: str(id_of(item)) for item in selection.selected}
        built = {record["slug"]: record for record in report.get("built") or ()}
        return cls(report, ids, built, tuple(s for s in report.get("shipped") or () if s in ids))

    @property
    def not_shipped(self) -> tuple[str, ...]:
        """The ids of the selected items that were not shipped."""
        return tuple(found for slug, found in self.ids.items() if slug not in self.shipped)

    def shipment(
        self, slug: str, location: str | None, known: Iterable[Publication]
    ) -> Shipped | None:
        """The tracker's record of a shipment, None without a commit; `location` is its repository.
        The `known` publications say what an earlier wave published."""
        record = self.built.get(slug) or {}
        commit = _text(record.get("commit"))
        if not commit:
            return None
        mine = next((one for one in known if one.has(commit)), None)
        bases = self.report.get("base") or ()
        mine_only = (b for b in bases if len(bases) == 1 or b.get("repo") == location)
        base: Mapping[str, Any] = next(mine_only, {})
        # The base of this wave may already have what an earlier wave published.
        onto = "" if record.get("skipped_from_journal") else _text(base.get("commit"))
        return Shipped(
            wave=mine.wave if mine else _text(self.report.get("wave_id")),
            commit=commit,
            branch=mine.branch if mine else _text(self.report.get("branch")),
            target=_text(base.get("branch")),
            onto=onto,
        )

    @property
    def error(self) -> str | None:
        """The sentence that says why the wave did not finish."""
        return self.report.get("error")

    @property
    def exit_code(self) -> int:
        """The report's exit code; derived only if a replaced `run_wave` gives none."""
        if "exit_code" in self.report:
            return int(self.report["exit_code"])
        began = self.report.get("preflight_ok") and not self.report.get("aborted")
        proven = all(self.built.get(slug, {}).get("verified") for slug in self.shipped)
        done = began and proven and len(self.shipped) == len(self.ids)
        return int(ExitCode.DONE if done else ExitCode.NOT_ALL_SHIPPED)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


MOST_OF_A_REASON = 100
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
    exit_code, error = results.exit_code, results.error
    if untracked := update.get("tracker_update_error"):
        error = error or f"what came of the wave is not noted in the tracker: {untracked}"
        if exit_code == ExitCode.DONE:
            exit_code = int(ExitCode.NOT_ALL_SHIPPED)
    phase = _PHASE_OF_ABORT.get(str(results.report.get("abort_reason")), DISPATCH)
    reason = {f"{phase}_reason": results.error} if phase in (HALT, CEILING) else {}
    return cycle_report(
        phase,
        wave_id,
        selection,
        success=exit_code == ExitCode.DONE,
        exit_code=exit_code,
        items_shipped=[_shipped(results.built.get(s), s, backend) for s in results.shipped],
        items_failed_build=list(results.not_shipped),
        branch=results.report.get("branch") or None,
        sha=results.report.get("sha") or None,
        **update,
        error=error,
        **reason,
        wave=dict(results.report),
    )


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
    """A report with the selected items, and the reasons why the others were not selected: their
    counts, and the first `MOST_OF_A_REASON` items of each."""
    skipped = []
    for one in selection.shortened(MOST_OF_A_REASON).skipped:
        clash = {"clash": one.clash} if one.clash is not None else {}
        skipped.append({"id": one.id, "reason": one.reason, "detail": one.detail, **clash})
    return emit_report(
        phase,
        wave_id,
        [item["id"] for item in selection.selected],
        success=success,
        items_skipped=skipped,
        items_skipped_counts=dict(selection.counts) or None,
        selection=None if selection.exact else "greedy",
        **{"exit_code": int(ExitCode.DONE if success else ExitCode.NOT_ALL_SHIPPED), **more},
    )


def nothing_to_do(wave_id: str, selection: Selection) -> dict[str, Any]:
    """The report of a cycle that takes no item: a success, unless other runs hold them all."""
    taken = next((s for s in selection.skipped if s.reason == LEASED_ELSEWHERE), None)
    if taken is None:
        return cycle_report(INTAKE, wave_id, selection, success=True)
    why = f"every item to do is being worked on elsewhere: {taken.detail}"
    code = int(ExitCode.STOPPED_BY_POLICY)
    return cycle_report(INTAKE, wave_id, selection, success=False, exit_code=code, error=why)


def failed(wave_id: str, error: TidegateError) -> dict[str, Any]:
    """The report of a cycle that failed before its wave, with the reason for each broken item."""
    selection = error.selection if isinstance(error, AllBrokenError) else Selection((), ())
    code = int(error.exit_code)
    return cycle_report(INTAKE, wave_id, selection, success=False, exit_code=code, error=str(error))


def stopped(wave_id: str, closed: GateClosedError) -> dict[str, Any]:
    """The report of a cycle that a closed gate stopped before its wave."""
    key = {HALT: "halt_reason", CEILING: "ceiling_reason"}.get(closed.gate)
    reason: dict[str, Any] = {key: str(closed)} if key else {}
    return emit_report(
        closed.gate,
        wave_id,
        [],
        success=False,
        exit_code=int(closed.exit_code),
        error=str(closed),
        **reason,
    )


def emit_report(  # noqa: PLR0913, PLR0917 - the source's parameters, which callers give in order
    phase: str,
    wave_id: str,
    items_selected: Sequence[str],
    items_shipped: Sequence[Mapping[str, Any]] | None = None,
    items_failed_build: Sequence[str] | None = None,
    items_skipped: Sequence[Mapping[str, Any]] | None = None,
    branch: str | None = None,
    sha: str | None = None,
    halt_reason: str | None = None,
    ceiling_reason: str | None = None,
    error: str | None = None,
    tracker_update_error: str | None = None,
    tracker_update_attempted: bool = False,
    tracker_unmapped_slugs: Sequence[str] | None = None,
    success: bool = False,
    merged: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The report of a cycle: the fixed keys, those of the original project that are not empty, and
    `more`, without None and empty lists."""
    items = {"items_failed_build": items_failed_build, "items_skipped": items_skipped}
    place = {"branch": branch, "sha": sha}
    why = {"halt_reason": halt_reason, "ceiling_reason": ceiling_reason, "error": error}
    tracker = {
        "tracker_update_error": tracker_update_error,
        "tracker_update_attempted": tracker_update_attempted,
        "tracker_unmapped_slugs": tracker_unmapped_slugs,
    }
    optional: dict[str, Any] = {**items, **place, **why, **tracker}
    return {
        "phase": phase,
        "wave_id": wave_id,
        "items_selected": list(items_selected),
        "items_shipped": list(items_shipped or ()),
        "merged": merged,
        "timestamp": datetime.now(UTC).isoformat(),
        "success": success,
        **{key: value for key, value in optional.items() if value},
        **{key: value for key, value in more.items() if value not in (None, [])},
    }
