"""The wave engine: runs every item through its pipeline, then ships the verified items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from driver.domain.results import ItemOutcome, Verdict
from driver.domain.shipment import Shipment
from driver.domain.work_item import parse_manifest
from driver.execution.worker_pool import ShutdownPolicy, repeating, run_all
from driver.handover.choice import take_over
from driver.limits.admission import GateClosedError, gate_word
from driver.live.watch import watched
from driver.merge_queue.batch import Entry
from driver.pipeline_run.resume import earlier_shipments, finish_pending
from driver.pipeline_run.resume_state import ResumeState, recall
from driver.publishing.ship import checkout_warning, ship
from driver.pull_requests.request import propose
from driver.run_state.context import ItemRun, Wave
from driver.wave.conclusion import aborted, conclude, with_requests
from driver.wave.item_run import abandoned, run_item
from driver.wave.opening import opened
from driver.wave.planning import WaveRequest, wave_id_of
from driver.wave.report import WaveReport
from driver.wave.repositories import agents_at_once
from state_store.documents.errors import ExitCode, StoppedByPolicyError, TidegateError
from state_store.redaction.installed import current
from state_store.values.lazy_dataclass import replace

HALT_LOOK_S = 0.1


def run(request: WaveRequest) -> WaveReport:
    """Bring every item to a verdict, then ship the verified work. Input errors become a report."""
    wave_id = wave_id_of(request.manifest)
    given: object = request.manifest
    if isinstance(given, Mapping) and given.get("items") == []:
        # No abort for callers of the original project, and still no green wave.
        return WaveReport(wave_id, error="the wave has no items", abort_exit=ExitCode.BAD_INPUT)
    is_begun = False
    try:
        manifest = parse_manifest(request.manifest, new_wave_id=lambda: wave_id)
        with opened(request, manifest) as wave, watched(wave):
            is_begun = True
            with repeating(HALT_LOOK_S, wave.gates.watch), _halts_of_others(wave):
                take_over(wave)
                states = recall(wave)
                outcomes = _run_items(wave, states)
                shipments = _ship_all(wave, outcomes, states)
            report = conclude(wave, outcomes, shipments, resumed=request.resume)
            report = with_requests(report, wave, propose(wave, outcomes, shipments))
            wave.recorder.ended(report.abort_reason)
            _notify(wave)
            return replace(report, redactor=current())
    except TidegateError as error:
        if not is_begun and isinstance(error, GateClosedError):
            _notify_closed(request, wave_id, error)
        return aborted(wave_id, error)


def _halts_of_others(wave: Wave) -> AbstractContextManager[None]:
    """Look for halts by other machines in the background, if others share the store."""
    gates, store = wave.gates, wave.recorder.store
    if not store.folder:
        return nullcontext()
    return repeating(gates.row_look_s, lambda: gates.look_at(store))


def _notify_closed(request: WaveRequest, wave_id: str, closed: GateClosedError) -> None:
    settings, folder = request.options.settings, request.state_dir
    if settings is not None and folder is not None:
        from driver.notices.send import notify_closed  # noqa: PLC0415 - only for a closed gate

        notify_closed(wave_id, closed, settings, folder, request.options.progress.say)


def _notify(wave: Wave) -> None:
    if wave.settings.notify.command or wave.settings.notify.webhook:
        from driver.notices.send import notify  # noqa: PLC0415 - only where it is wanted

        notify(wave)


def _run_items(wave: Wave, states: Mapping[str, ResumeState]) -> list[ItemOutcome]:
    _make_ready_to_push(wave)
    wave.recorder.acquire_all([item.key for item in wave.items])
    finish_pending(wave, states)
    return run_all(
        wave.items,
        lambda item: _settled(wave, item, states),
        width=agents_at_once(wave.settings),
        shutdown=ShutdownPolicy(
            is_stopped=lambda: wave.gates.stop.is_set,
            force=wave.gates.stop.force,
            abandoned=abandoned,
            grace_s=lambda: wave.gates.stop.grace_s,
        ),
    )


def _settled(wave: Wave, item: ItemRun, states: Mapping[str, ResumeState]) -> ItemOutcome:
    """Bring an item to its verdict, and let the batch be tested ahead with it."""
    outcome = run_item(item, states[item.slug])
    wave.ahead.settle(item, outcome)
    return outcome


def _make_ready_to_push(wave: Wave) -> None:
    """Start the processes that a push needs while agents work, so that the ship need not wait."""
    for context in wave.repositories.values() if wave.shipping.is_wanted else ():
        if context.remote is not None:
            context.remote.processes.make_ready()


def _ship_all(
    wave: Wave, outcomes: Sequence[ItemOutcome], states: Mapping[str, ResumeState]
) -> dict[str, Shipment] | None:
    """The shipments by repository; None if nothing was to be shipped. A repository has a shipment
    if it has verified items, if its checkout was changed, or if an earlier run left its publication
    open."""
    if not wave.shipping.is_wanted:
        return None
    shipments: dict[str, Shipment] = {}
    for key, context in wave.repositories.items():
        entries = _verified(wave, outcomes, key)
        try:
            shipment = ship(context, entries, wave) if entries else checkout_warning(context)
        except StoppedByPolicyError as stopped:
            shipment = Shipment(key, error=gate_word(stopped), detail=str(stopped))
        except (TidegateError, OSError) as error:
            shipment = Shipment(key, error="could_not_ship", detail=str(error))
        if shipment is not None:
            shipments[key] = shipment
    made, found = earlier_shipments(states.values())
    # If nothing new was shipped, the report names the earlier shipments.
    return shipments | made or found


def _verified(wave: Wave, outcomes: Sequence[ItemOutcome], key: str) -> list[Entry]:
    return [
        (item, outcome)
        for item, outcome in zip(wave.items, outcomes, strict=True)
        if item.planned.home.key == key
        and outcome.verdict is Verdict.VERIFIED
        and outcome.shipped_as is None
        and outcome.publish
    ]
