"""Makes the report of a wave from its outcomes and shipments."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from driver.agents.attempt import work_patch
from driver.domain.results import ItemOutcome, Verdict
from driver.domain.shipment import Shipment
from driver.domain.tiers import verification_policy
from driver.domain.work_item import ManifestError
from driver.execution.cancellation import InterruptedWaveError
from driver.execution.worker_pool import run_all
from driver.limits.admission import CEILING, REFUSED, GateClosedError, gate_word, way_on
from driver.pull_requests.body import Proposed
from driver.run_state.context import ItemRun, Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.wave.preflight import PreflightError
from driver.wave.report import Base, ItemReport, WaveReport, is_done
from driver.workspace.saved_patch import STEPS
from state_store.documents.errors import ExitCode, InputError, StoppedByPolicyError, TidegateError

# Each journal entry is flushed to disk; concurrent flushes share one disk write.
JOURNAL_WRITERS = 16


def conclude(
    wave: Wave,
    outcomes: Sequence[ItemOutcome],
    shipments: Mapping[str, Shipment] | None,
    *,
    resumed: bool,
) -> WaveReport:
    """The report of a wave whose items ran."""
    wave.spending.give_up()
    items = run_all(
        tuple(zip(wave.items, outcomes, strict=True)),
        lambda pair: _item_report(*pair, (shipments or {}).get(pair[0].planned.home.key)),
        width=JOURNAL_WRITERS,
    )
    reason, exit_code = _abort(wave, outcomes)
    if reason == REFUSED and any(is_done(item, shipping=shipments is not None) for item in items):
        exit_code = None  # the backend served some items, so exit 4 would be wrong
    ceiling = wave.spending.ceiling_at_the_end()
    all_gates = (wave.gates, *([wave.reviewer.gates] if wave.reviewer else []))
    return WaveReport(
        wave_id=wave.wave_id,
        items=tuple(items),
        shipments=None if shipments is None else tuple(shipments.values()),
        policy=verification_policy(wave.driver.probe_capabilities()),
        ceiling=ceiling,
        spending=wave.spending.summary(),
        uses=tuple(wave.spending.uses),
        recorded=wave.spending.recorded,
        review_mode=wave.settings.review.mode,
        abort_reason=reason,
        error=_stopped_by(wave, ceiling),
        abort_exit=exit_code,
        journal_error=wave.recorder.problem or wave.spending.problem,
        resumed=resumed,
        bases=_bases(wave),
        parked_until=next(filter(None, (gates.parked_until for gates in all_gates)), None),
        provider=wave.driver.provider_load(),
        sandbox=wave.walls.to_json(),
    )


def _bases(wave: Wave) -> tuple[Base, ...]:
    """The start commits of the wave's repositories."""
    return tuple(
        Base(str(one.repository.top), one.base, one.repository.branch)
        for one in wave.repositories.values()
    )


def with_requests(report: WaveReport, wave: Wave, proposed: tuple[Proposed, ...]) -> WaveReport:
    """The report with the results of its pull requests. It also names a stop during these
    requests."""
    report = replace(report, proposed=proposed)
    cause = wave.gates.stop.cause
    if cause is None or report.abort_reason or all(one.made for one in proposed):
        return report
    word, code = gate_word(cause), cause.exit_code
    return replace(report, abort_reason=word, error=str(cause), abort_exit=code)


def _item_report(item: ItemRun, outcome: ItemOutcome, shipment: Shipment | None) -> ItemReport:
    shipment = shipment or Shipment("")
    evicted = {one.slug: one for one in shipment.evicted}
    shipped = dict(shipment.commits).get(item.slug)
    if runs := dict(shipment.batch_runs).get(item.slug):
        outcome = replace(outcome, batch_runs=runs)
    outcome = evicted.get(item.slug, outcome)
    try:
        if shipped:
            tip = shipment.tip or shipped
            item.wave.recorder.shipped(item.key, outcome, shipped, shipment.branch, tip)
        elif item.slug in evicted:
            item.settle(outcome)
        elif outcome.shipped_as:
            item.wave.recorder.found(item.key, outcome.shipped_as)
    except LeasedElsewhereError as lost:
        reason = f"{lost}; it also holds commit {shipped}"
        shipped, outcome = None, replace(outcome, verdict=Verdict.LEASED_ELSEWHERE, reason=reason)
    commit = shipped or outcome.shipped_as
    patch = work_patch(item)
    if commit:
        with contextlib.suppress(OSError):  # the work is shipped, so its copy may go
            for copy in (patch, *patch.parent.glob(STEPS)):
                copy.unlink(missing_ok=True)
    verified = outcome.verdict is Verdict.VERIFIED
    error = shipment.detail or shipment.error if verified and outcome.publish else None
    warning = shipment.warning if commit else None
    if verified and not outcome.publish:
        warning = "verified, not shipped: its pipeline has no publish phase, or the user skipped it"
    return ItemReport(
        planned=item.planned,
        outcome=outcome,
        commit=commit,
        ship_error=None if commit else error,
        ship_warning=warning,
        saved_work=str(patch) if patch.exists() else None,
        published=dict(shipment.trees).get(item.slug),
    )


def _abort(wave: Wave, outcomes: Sequence[ItemOutcome]) -> tuple[str | None, ExitCode | None]:
    if (cause := wave.gates.stop.cause) is not None:
        return gate_word(cause), cause.exit_code
    closed = wave.gates.closed
    if closed is None:
        return None, None
    if closed.gate == CEILING:
        repairing = any(o.verdict is Verdict.OVER_BUDGET and o.attempts for o in outcomes)
        word = "cost_ceiling_exceeded" + ("_in_repair" if repairing else "")
        return word, closed.exit_code
    return gate_word(closed), closed.exit_code


def _stopped_by(wave: Wave, ceiling: Mapping[str, Any] | None) -> str | None:
    """The reason for the stop; for a ceiling, also the way to continue."""
    stopped = wave.gates.stop.cause or wave.gates.closed
    if isinstance(stopped, GateClosedError) and stopped.gate == CEILING:
        own = stopped.answer if not (ceiling or {}).get("tripped") else ceiling
        return f"{stopped}{way_on(own, wave.gates.state_dir)}"
    return str(stopped) if stopped else None


def aborted(wave_id: str, error: TidegateError) -> WaveReport:
    """The report of a wave that did not begin."""
    details: dict[str, Any] = {}
    if isinstance(error, InputError):
        details["problems"] = list(error.problems)
    if isinstance(error, PreflightError):
        details |= error.details
    return WaveReport(
        wave_id=wave_id,
        # A closed gate is no fault of the input, which was checked before.
        preflight_ok=isinstance(error, StoppedByPolicyError),
        ceiling=error.answer if isinstance(error, GateClosedError) else None,
        abort_reason=_abort_word(error),
        error=str(error),
        details=details,
        abort_exit=error.exit_code,
    )


def _abort_word(error: TidegateError) -> str:
    if isinstance(error, PreflightError):
        return error.abort_reason
    if isinstance(error, GateClosedError | InterruptedWaveError):
        return gate_word(error)
    if isinstance(error, ManifestError):
        return "invalid_manifest"
    return "invalid_input" if isinstance(error, InputError) else "cannot_run_here"
