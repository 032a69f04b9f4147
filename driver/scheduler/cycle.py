"""The scheduler cycle: gates, intake, manifest, wave, tracker, report."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from driver.backends.duck_typed import adapted
from driver.backlog.publication_status import Shipped
from driver.backlog.retry_policy import RetryPolicy
from driver.backlog.selection import PATIENT, Selection, Skipped
from driver.domain.results import Verdict
from driver.limits.admission import GateClosedError, check_before_start, check_halt
from driver.run_state.state_folder import prepare_state_dir
from driver.scheduler.context import (
    Cycle,
    CycleRequest,
    git_of,
    place_of,
    settled,
    wave_options,
    wave_request,
)
from driver.scheduler.intake import manifest_of, taken
from driver.scheduler.report import (
    DISPATCH,
    INTAKE,
    MANIFEST,
    MOST_OF_A_REASON,
    WaveResults,
    concluded,
    cycle_report,
    failed,
    nothing_to_do,
    stopped,
)
from driver.terminal.progress import to_stderr
from driver.wave.dry_run import describe_dry_run
from driver.wave.planning import check
from state_store.database.publications import Publication
from state_store.documents.errors import TidegateError
from state_store.documents.item_id import id_of
from state_store.documents.journal_facts import ask_again
from state_store.redaction.installed import hiding, redacted_value
from state_store.sql.addresses import address_of
from state_store.views.publications import known_publications
from tools.settings.secret_values import secret_values

# A dry run, and a cycle that finds nothing to do, load nothing of what follows here and below.
if TYPE_CHECKING:
    from driver.scheduler.backlog import Backlog
    from driver.scheduler.status import CycleStatus

_NO_REQUESTS = "none"  # the value of [ship] pr without pull requests

RunWave = Callable[..., dict[str, Any]]
Intake = tuple[Selection, dict[str, Any]]


class _StoppedAt(Exception):
    """The cycle ends here with this report; `idle` says that there is no item to work on."""

    def __init__(self, report: dict[str, Any], *, idle: bool = False) -> None:
        self.report = report
        self.idle = idle
        super().__init__(report.get("phase"))


def run(request: CycleRequest, run_wave: RunWave) -> dict[str, Any]:
    """Run a cycle and return its report. Bad input gives a report too, with `error`.

    `run_wave` is `wave_loop.run_wave`, or a function with exactly the source's parameters.
    """
    with ExitStack() as until_the_end:
        return dict(redacted_value(_report(request, run_wave, until_the_end)))


def _report(request: CycleRequest, run_wave: RunWave, until_the_end: ExitStack) -> dict[str, Any]:
    """The report of a cycle. Its secrets stay hidden until the caller's end, also in the notice of
    a closed gate and in an error."""
    wave_id = str(uuid.uuid4())
    followed: dict[str, Any] = {}
    cycle: Cycle | None = None
    try:
        cycle = settled(request)
        until_the_end.callback(cycle.reader.forget)
        until_the_end.enter_context(hiding(secret_values(cycle.settings)))
        check_halt(cycle.state_dir)
        ask_again(cycle.state_dir)
        cycle = _with_tracker(cycle, until_the_end)
        followed = {} if cycle.dry_run else _followed(cycle)
        return _wave(cycle, run_wave, wave_id) | followed
    except GateClosedError as closed:
        if cycle is not None and not cycle.dry_run:
            from driver.notices.send import notify_closed  # noqa: PLC0415 - only for a closed gate

            say = cycle.options.progress.say if cycle.options else to_stderr().say
            notify_closed(wave_id, closed, cycle.settings, cycle.state_dir, say)
        return stopped(wave_id, closed) | followed
    except TidegateError as error:
        return failed(wave_id, error) | followed


def _with_tracker(cycle: Cycle, until_the_end: ExitStack) -> Cycle:
    """The cycle with a tracker file that has what the store has, if other machines share it or
    there is no file."""
    is_shared = address_of(cycle.state_dir) is not None
    if not is_shared and cycle.tracker.exists():
        return cycle
    from driver.scheduler import backlog  # noqa: PLC0415 - by need

    if cycle.dry_run:
        found = backlog.is_only_in_store(cycle)
        return backlog.with_items_of_store(cycle, until_the_end) if found else cycle
    if is_shared or backlog.is_only_in_store(cycle):
        backlog.sync_with_others(cycle)
    return cycle


def _followed(cycle: Cycle) -> dict[str, Any]:
    """Brings shipped and open items up to date, if there are any."""
    index = cycle.tracker_index()
    if not index.shipped and not index.todo.names:
        return {}
    from driver.scheduler.follow_up import follow_up  # noqa: PLC0415 - by need

    return follow_up(cycle)


def _wave(cycle: Cycle, run_wave: RunWave, wave_id: str) -> dict[str, Any]:
    try:
        planned = _planned(cycle, wave_id)
        if cycle.dry_run:
            selection, manifest = planned
            checked = check(wave_request(cycle, manifest), dry=True).items if cycle.options else ()
            plan = describe_dry_run(adapted(cycle.driver), manifest, checked)
            return cycle_report(MANIFEST, manifest["wave_id"], selection, success=True, **plan)
        check_before_start(cycle.state_dir, cycle.settings)
        if cycle.check_gates is not None:
            cycle.check_gates(cycle.state_dir, cycle.settings)
        cycle = _checked(cycle, *planned)
        del planned  # of a long tracker it is large
        from driver.scheduler.backlog import Backlog  # noqa: PLC0415 - by need
        from driver.scheduler.checkpoint import checkpointed  # noqa: PLC0415 - by need
        from driver.scheduler.status import CycleStatus  # noqa: PLC0415 - by need

        prepare_state_dir(cycle.state_dir, cycle.settings.environ)
        with Backlog.opened(cycle) as backlog:
            status = CycleStatus(backlog.api, cycle.state_dir, wave_id, cycle.progress)
            with status.shown():
                status.enter(INTAKE)
                claimed = _claimed(cycle, wave_id, backlog)
                report = _run_claimed(cycle, run_wave, backlog, status, *claimed)
            report |= checkpointed(backlog.api, cycle.repo, cycle.settings, wave_id)
        cycle.reader.keep(cycle.tracker, cycle.state_dir)
        built = (report.get("wave") or {}).get("built") or ()
        # The tracker has to name the branch of items that another state folder shipped meanwhile.
        elsewhere = any(record.get("verdict") == Verdict.SHIPPED_ELSEWHERE for record in built)
        return report | (_followed(cycle) if elsewhere else {})
    except _StoppedAt as stop:
        if cycle.dry_run or not stop.idle:
            return stop.report | ({"dry_run": True} if cycle.dry_run else {})
        cycle.reader.keep(cycle.tracker, cycle.state_dir)
        if cycle.settings.ship.pr == _NO_REQUESTS:
            return stop.report
        from driver.scheduler.pending_requests import requests_left  # noqa: PLC0415 - by need

        return stop.report | requests_left(cycle, stop.report)


def _planned(
    cycle: Cycle, wave_id: str, held_back: Mapping[str, Skipped] = MappingProxyType({})
) -> Intake:
    """The selection from the tracker as it is now, and its manifest; `held_back` stays out."""
    selection = taken(cycle, held_back)
    if not selection.selected:
        index = cycle.tracker_index()
        there = {} if index.todo.names else {"tracker_statuses": dict(index.statuses)}
        raise _StoppedAt(nothing_to_do(wave_id, selection) | there, idle=True)
    return selection, manifest_of(cycle, selection, wave_id)


def _claimed(cycle: Cycle, wave_id: str, backlog: Backlog) -> Intake:
    """Select and claim items that are still open after the claim.

    Another cycle may have built an item and released it between our selection and our claim, so the
    tracker is read once more when everything is claimed.
    """
    from driver.scheduler.backlog import refused_claims  # noqa: PLC0415 - by need

    held_back = backlog.sync()
    while True:
        selection, _ = _planned(cycle, wave_id, held_back)
        refused = refused_claims(cycle, selection, backlog)
        held_back |= refused
        if not refused:
            claimed = {id_of(item) for item in selection.selected}
            again, manifest = _planned(cycle, wave_id, held_back)
            if claimed.issuperset(id_of(item) for item in again.selected):
                # The tracker's items need no memory while the wave runs.
                return again.shortened(MOST_OF_A_REASON), manifest


def _checked(cycle: Cycle, selection: Selection, manifest: Mapping[str, Any]) -> Cycle:
    """Returns the cycle with the checked plan of its wave. Stops before anything is made if the
    wave cannot start."""
    if cycle.options is None:  # a caller of the functions: `run_wave`, or its replacement, decides
        return cycle
    try:
        plan = check(wave_request(cycle, manifest))
    except TidegateError as error:
        code, wave_id = int(error.exit_code), str(manifest["wave_id"])
        report = cycle_report(
            MANIFEST, wave_id, selection, success=False, exit_code=code, error=str(error)
        )
        raise _StoppedAt(report) from error
    return replace(cycle, options=replace(cycle.options, plan=plan))


def _run_claimed(
    cycle: Cycle,
    run_wave: RunWave,
    backlog: Backlog,
    status: CycleStatus,
    selection: Selection,
    manifest: Mapping[str, Any],
) -> dict[str, Any]:
    from driver.backlog.watched_fields import WatchedTracker  # noqa: PLC0415 - by need
    from driver.scheduler.audit import audited  # noqa: PLC0415 - by need
    from driver.scheduler.backlog import resource  # noqa: PLC0415 - by need
    from driver.scheduler.status import TRACKER  # noqa: PLC0415 - by need
    from driver.scheduler.tracker_update import Terms, update_tracker  # noqa: PLC0415 - by need

    wave_id = str(manifest["wave_id"])
    status.enter(DISPATCH)
    resources = {str(id_of(item)): resource(item, cycle.repo) for item in selection.selected}
    cycle.reader.forget()
    with backlog.claimed(resources), WatchedTracker(cycle.tracker) as watched:
        queued = sum(count for reason, count in selection.counts.items() if reason in PATIENT)
        wave_report = _run_wave(run_wave, cycle, backlog, manifest, queued)
        results = WaveResults.of(wave_report, selection)
        warning = watched.warning()
    status.enter(TRACKER)
    if warning:
        cycle.progress.say(warning)
    limits = cycle.settings.limits
    policy = RetryPolicy(
        limits.max_attempts_per_item, limits.retry_backoff_s, limits.retry_backoff_max_s
    )
    terms = Terms(wave_id, _shipments(cycle, manifest, results), policy, datetime.now(UTC))
    update = update_tracker(backlog, resources, results, terms)
    if warning:
        update["tracker_warning"] = warning
    update |= audited(backlog, wave_id, results.report, propose=cycle.settings.audit.propose)
    backend = adapted(cycle.driver).name
    return concluded(wave_id, selection, results, update=update, backend=backend)


def _shipments(
    cycle: Cycle, manifest: Mapping[str, Any], results: WaveResults
) -> dict[str, Shipped | None]:
    """The tracker's records of shipments by slug, without the branches that earlier waves published
    if the store, which knows them, cannot be read."""
    known: tuple[Publication, ...] = ()
    commits = {str(record.get("commit")) for record in results.built.values()}
    if results.shipped:
        with suppress(TidegateError):
            known = known_publications(cycle.state_dir, commits=commits)
    slugs = {item["slug"]: place_of(item, cycle.repo) for item in manifest["items"]}
    return {slug: results.shipment(slug, location, known) for slug, location in slugs.items()}


def _run_wave(
    run_wave: RunWave, cycle: Cycle, backlog: Backlog, manifest: Mapping[str, Any], queued: int
) -> dict[str, Any]:
    from driver.backends.recording import RecordingWriter  # noqa: PLC0415 - by need

    # A replacement of `run_wave` gets the source's parameters only.
    extra: dict[str, Any] = {}
    if "options" in inspect.signature(run_wave).parameters:
        options = wave_options(cycle)
        extra["options"] = replace(
            options,
            recording=RecordingWriter(cycle.record) if cycle.record else options.recording,
            leases=backlog.leases,
            own_paths=(cycle.tracker,),
            queued=queued,
            withdrawn=backlog.withdrawn,
        )
    return run_wave(
        driver=cycle.driver,
        manifest=manifest,
        state_dir=cycle.state_dir,
        git=git_of(cycle, manifest),
        resume_journal=True,
        **extra,
    )
