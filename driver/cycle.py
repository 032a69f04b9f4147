"""One scheduler cycle: gates, intake, selection, manifest, wave, tracker, report."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.agent_driver import AgentDriver
from driver.backend_config import driver_from
from driver.backlog import Backlog, place_of
from driver.cycle_report import INTAKE, MANIFEST, conclude, cycle_report, emit_report, failed
from driver.dry_run import describe_dry_run
from driver.gates import CEILING, HALT, GateClosedError, check_before_start, check_halt
from driver.git import toplevel_of
from driver.item_fields import id_of
from driver.opening import WaveRequest, check
from driver.phases.preflight import PreflightError
from driver.recording import RecordingWriter
from driver.selection import Selection, Skipped, filter_todo_items, select_disjoint
from driver.state_folder import check_state_dir, prepare_state_dir
from driver.tracker import read_tracker, tracker_problems, validate_item
from driver.wave_bridge import adapted, build_manifest_item
from driver.wave_context import Shipping, WaveOptions
from state_store.errors import ExitCode, InputError, TidegateError
from tools import cost_ceiling
from tools.settings import Settings, process_environment
from tools.settings import load as load_settings

LEASED_ELSEWHERE = "leased_elsewhere"
CONFLICT = "tracker_conflict"
TOOL_CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class CycleRequest:
    """What a cycle is asked to do; what is None comes from the settings or the surroundings."""

    tracker: Path
    max_items: int
    dry_run: bool = False
    driver: AgentDriver | None = None
    state_dir: Path | None = None
    options: WaveOptions | None = None
    record: Path | None = None


RunWave = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Cycle:
    """A request with everything settled. `repo` None: items must name theirs."""

    tracker: Path
    max_items: int
    dry_run: bool
    driver: AgentDriver
    state_dir: Path
    repo: Path | None
    settings: Settings
    options: WaveOptions | None
    record: Path | None = None


class _StoppedAt(Exception):
    """`report` is the cycle's report."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        super().__init__(report.get("phase"))


def run(request: CycleRequest, run_wave: RunWave) -> dict[str, Any]:
    """One cycle; the answer is its report. Bad input is a report too, with `error`.

    `run_wave` is `wave_loop.run_wave`, or a function with exactly the source's parameters.
    """
    wave_id = str(uuid.uuid4())
    try:
        cycle = _settle(request)
        _ask_gates(cycle, wave_id, ceiling=False)
        selection, manifest = _planned(cycle, wave_id)
        if cycle.dry_run:
            plan = describe_dry_run(adapted(cycle.driver), manifest)
            return cycle_report(MANIFEST, wave_id, selection, success=True, **plan)
        _ask_gates(cycle, wave_id, ceiling=True)
        _check_startable(cycle, selection, manifest)
        prepare_state_dir(cycle.state_dir, cycle.settings.environ)
        progress = (cycle.options or WaveOptions()).progress
        environ = cycle.settings.environ
        with Backlog.opened(cycle.state_dir, cycle.tracker, environ, progress) as backlog:
            selection, manifest = _claimed(cycle, wave_id, backlog)
            result = _run_wave(run_wave, cycle, manifest, backlog)
            backend = adapted(cycle.driver).name
            return conclude(
                wave_id, selection, result, backlog=backlog, repo=cycle.repo, backend=backend
            )
    except _StoppedAt as stopped:
        return stopped.report
    except TidegateError as error:
        return failed(wave_id, error)


def _settle(request: CycleRequest) -> Cycle:
    options = request.options
    repo = _repository(request)
    project = repo or request.tracker.parent
    settings = (options and options.settings) or load_settings(project=project)
    return Cycle(
        tracker=request.tracker,
        max_items=request.max_items,
        dry_run=request.dry_run,
        driver=request.driver or driver_from(settings.backend, settings.environ),
        state_dir=request.state_dir or settings.state_dir,
        repo=repo,
        settings=settings,
        options=options,
        record=request.record,
    )


def _repository(request: CycleRequest) -> Path | None:
    """The repository asked for, else the tracker's, else the current folder's."""
    if request.options is not None and request.options.repo is not None:
        return request.options.repo
    return repository_in_sight((request.tracker.parent, Path.cwd()))


def repository_in_sight(folders: Iterable[Path]) -> Path | None:
    """The top of the first repository that one of `folders` is in; never, by such an accident,
    the checkout that Tidegate itself runs from."""
    environ = process_environment()
    tops = (toplevel_of(folder, environ) for folder in folders)
    return next((top for top in tops if top and top.resolve() != TOOL_CHECKOUT), None)


def _ask_gates(cycle: Cycle, wave_id: str, *, ceiling: bool) -> None:
    try:
        if ceiling:
            check_before_start(cycle.state_dir, cost_ceiling.load_config(cycle.settings))
        else:
            check_halt(cycle.state_dir)
    except GateClosedError as closed:
        raise _StoppedAt(_stopped(wave_id, closed)) from closed


def _stopped(wave_id: str, closed: GateClosedError) -> dict[str, Any]:
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


def _planned(
    cycle: Cycle, wave_id: str, held_back: Mapping[str, Skipped] | None = None
) -> tuple[Selection, dict[str, Any]]:
    """What the tracker has for a wave right now, and its manifest; `held_back` stays out."""
    selection = _select(cycle, held_back or {})
    if not selection.selected:
        raise _StoppedAt(_nothing_to_do(wave_id, selection))
    return selection, _manifest(cycle, selection, wave_id)


def _nothing_to_do(wave_id: str, selection: Selection) -> dict[str, Any]:
    taken = [left_out for left_out in selection.skipped if left_out.reason == LEASED_ELSEWHERE]
    if not taken:
        return cycle_report(INTAKE, wave_id, selection, success=True)
    why = f"every item is being worked on elsewhere: {taken[0].detail}"
    code = int(ExitCode.STOPPED_BY_POLICY)
    return cycle_report(INTAKE, wave_id, selection, success=False, exit_code=code, error=why)


def _claimed(cycle: Cycle, wave_id: str, backlog: Backlog) -> tuple[Selection, dict[str, Any]]:
    """What is ours to do: selected, claimed, and after that still to do.

    Another cycle may have built an item and let go of it between our look and our claim.
    """
    held_back = {
        item_id: Skipped(item_id, CONFLICT, detail=str(conflict))
        for item_id, conflict in backlog.sync().items()
    }
    while True:
        selection, manifest = _planned(cycle, wave_id, held_back)
        refused = _refused_claims(cycle, selection, backlog)
        if not refused:
            break
        held_back |= refused
    again, manifest = _planned(cycle, wave_id, held_back)
    same = {id_of(item) for item in selection.selected}
    if {id_of(item) for item in again.selected} <= same:
        return again, manifest
    return _claimed(cycle, wave_id, backlog)


def _refused_claims(cycle: Cycle, selection: Selection, backlog: Backlog) -> dict[str, Skipped]:
    refused = {}
    for item in selection.selected:
        if why := backlog.claim(place_of(item, cycle.repo), item["slug"]):
            name = str(id_of(item))
            refused[name] = Skipped(name, LEASED_ELSEWHERE, detail=why)
    return refused


def _select(cycle: Cycle, held_back: Mapping[str, Skipped]) -> Selection:
    if cycle.max_items < 1:
        raise InputError(f"--max-items {cycle.max_items}: at least 1 item is needed")
    tracker = read_tracker(cycle.tracker)
    ambiguous = tracker_problems(tracker.items)
    if ambiguous:
        raise InputError(ambiguous)
    todo = filter_todo_items(tracker.items)
    apart = [held_back[str(id_of(item))] for item in todo if str(id_of(item)) in held_back]
    todo = [item for item in todo if str(id_of(item)) not in held_back]
    broken = [Skipped("", "not_an_object", detail=stray) for stray in tracker.strays]
    broken += [_broken(item, problems) for item in todo if (problems := validate_item(item))]
    sound = [item for item in todo if not validate_item(item)]
    _check_own_checkout(cycle, sound)
    selection, homeless = _select_at_home(cycle, sound)
    broken += homeless
    if broken and not selection.selected and not apart:
        raise InputError([f"item {item.id or '(no id)'}: {item.detail}" for item in broken])
    return Selection(selection.selected, (*broken, *apart, *selection.skipped))


def _select_at_home(
    cycle: Cycle, items: Sequence[Mapping[str, Any]]
) -> tuple[Selection, list[Skipped]]:
    """Disjoint items whose repository and work folder are there, and those that have none: one
    item's slip must neither stop the others nor take their place."""
    default_repo = str(cycle.repo) if cycle.repo else None
    homeless: dict[int, Skipped] = {}
    while True:
        at_home = [item for item in items if id(item) not in homeless]
        selection = select_disjoint(at_home, cycle.max_items, default_repo)
        fresh = {id(item): lost for item in selection.selected if (lost := _homeless(cycle, item))}
        if not fresh:
            return selection, list(homeless.values())
        homeless |= fresh


def _homeless(cycle: Cycle, item: Mapping[str, Any]) -> Skipped | None:
    if cycle.options is None:
        return None  # as in _check_startable
    try:
        check(_request(cycle, {"items": [item]}), dry=True)
    except PreflightError as error:
        return Skipped(str(id_of(item)), error.abort_reason, detail=str(error))
    except InputError as error:
        return Skipped(str(id_of(item)), "invalid_repo_path", detail=str(error))
    return None


def _check_own_checkout(cycle: Cycle, items: Iterable[Mapping[str, Any]]) -> None:
    if cycle.repo is not None or all(item.get("repo") for item in items):
        return
    if any(
        folder.resolve().is_relative_to(TOOL_CHECKOUT)
        for folder in (cycle.tracker.parent, Path.cwd())
    ):
        raise InputError(
            f"the only repository in sight is Tidegate's own checkout {TOOL_CHECKOUT}:"
            " name yours with --repo DIR"
        )


def _broken(item: Mapping[str, Any], problems: Sequence[str]) -> Skipped:
    reason, _, detail = problems[0].partition(": ")
    return Skipped(str(item.get("id") or item.get("slug") or ""), reason, detail=detail)


def _manifest(cycle: Cycle, selection: Selection, wave_id: str) -> dict[str, Any]:
    try:
        items = [build_manifest_item(cycle.driver, item) for item in _placed(cycle, selection)]
    except ValueError as error:
        raise InputError(str(error)) from error
    return {
        "wave_id": wave_id,
        "items": items,
        "wave_description": f"{len(items)} items from {cycle.tracker.name}",
    }


def _placed(cycle: Cycle, selection: Selection) -> Iterable[Mapping[str, Any]]:
    """A wave's items name their repository all or none; where one does, the rest learn theirs."""
    items = selection.selected
    if cycle.repo is None or not any(item.get("repo") for item in items):
        return items
    return [{**item, "repo": item.get("repo") or str(cycle.repo)} for item in items]


def _check_startable(cycle: Cycle, selection: Selection, manifest: Mapping[str, Any]) -> None:
    """Find what would keep the wave from starting before anything is made for it."""
    if cycle.options is None:
        return  # a caller of the functions: run_wave, or what stands in its place, decides
    try:
        check_state_dir(cycle.state_dir, cycle.repo)
        check(_request(cycle, manifest))
    except TidegateError as error:
        told = {"exit_code": int(error.exit_code), "error": str(error)}
        wave_id = str(manifest["wave_id"])
        report = cycle_report(MANIFEST, wave_id, selection, success=False, **told)
        raise _StoppedAt(report) from error


def _request(cycle: Cycle, manifest: Mapping[str, Any]) -> WaveRequest:
    options = replace(cycle.options or WaveOptions(), settings=cycle.settings, repo=cycle.repo)
    shipping = Shipping.from_git(_git(cycle, manifest))
    return WaveRequest(adapted(cycle.driver), manifest, cycle.state_dir, shipping, True, options)


def _git(cycle: Cycle, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Items that name their repositories are shipped there, wherever the cycle was started."""
    named = all(item.get("repo") for item in manifest["items"])
    expected = None if named or cycle.repo is None else str(cycle.repo)
    return {"expectTopLevel": expected, "mode": "branch"}


def _run_wave(
    run_wave: RunWave, cycle: Cycle, manifest: Mapping[str, Any], backlog: Backlog
) -> dict[str, Any]:
    # Whoever put another function in place of run_wave gets the source's parameters only.
    extra: dict[str, Any] = {}
    if "options" in inspect.signature(run_wave).parameters:
        options = cycle.options or WaveOptions()
        recording = RecordingWriter(cycle.record) if cycle.record else options.recording
        extra["options"] = replace(
            options,
            settings=cycle.settings,
            repo=cycle.repo,
            recording=recording,
            leases=backlog.leases,
        )
    return run_wave(
        driver=cycle.driver,
        manifest=manifest,
        state_dir=cycle.state_dir,
        git=_git(cycle, manifest),
        resume_journal=True,
        **extra,
    )
