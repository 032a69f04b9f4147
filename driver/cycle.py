"""One scheduler cycle: gates, intake, selection, manifest, wave, tracker, report."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from driver import wave_loop
from driver.agent_driver import AgentDriver
from driver.backend_config import driver_from
from driver.dry_run import describe_dry_run
from driver.gates import CEILING, HALT, UNAVAILABLE, GateClosedError, check_before_start, check_halt
from driver.git import toplevel_of
from driver.opening import WaveRequest, check
from driver.recording import RecordingWriter
from driver.selection import Selection, Skipped, filter_todo_items, select_disjoint
from driver.state_folder import check_state_dir, held
from driver.tracker import Edit, read_tracker, tracker_problems, update_items, validate_item
from driver.wave_bridge import adapted, build_manifest_item
from driver.wave_context import Shipping, WaveOptions
from state_store.errors import ExitCode, InputError, TidegateError
from tools import cost_ceiling
from tools.settings import Settings, process_environment
from tools.settings import load as load_settings

INTAKE = "intake"
MANIFEST = "manifest"
DISPATCH = "dispatch"
TOOL_CHECKOUT = Path(__file__).resolve().parents[1]
_PHASE_OF_ABORT = {
    "halted": HALT,
    "cost_ceiling_exceeded": CEILING,
    "cost_ceiling_exceeded_in_repair": CEILING,
    UNAVAILABLE: UNAVAILABLE,
}


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


def run(request: CycleRequest) -> dict[str, Any]:
    """One cycle; the answer is its report. Bad input is a report too, with `error`."""
    wave_id = str(uuid.uuid4())
    try:
        cycle = _settle(request)
        _ask_gates(cycle, wave_id, ceiling=False)
        selection, manifest = _planned(cycle, wave_id)
        if cycle.dry_run:
            plan = describe_dry_run(cycle.driver, manifest)
            return _report(MANIFEST, wave_id, selection, success=True, **plan)
        _ask_gates(cycle, wave_id, ceiling=True)
        _check_startable(cycle, selection, manifest)
        with held(cycle.state_dir, cycle.settings.environ):
            # Again: the cycle that just ended here may have taken some of them.
            selection, manifest = _planned(cycle, wave_id)
            result = _run_wave(cycle, manifest)
            return _conclude(cycle, selection, manifest, result)
    except _StoppedAt as stopped:
        return stopped.report
    except TidegateError as error:
        return _failed(wave_id, error)


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


def _planned(cycle: Cycle, wave_id: str) -> tuple[Selection, dict[str, Any]]:
    """What the tracker has for a wave right now, and its manifest."""
    selection = _select(cycle)
    if not selection.selected:
        raise _StoppedAt(_report(INTAKE, wave_id, selection, success=True))
    return selection, _manifest(cycle, selection, wave_id)


def _select(cycle: Cycle) -> Selection:
    if cycle.max_items < 1:
        raise InputError(f"--max-items {cycle.max_items}: at least 1 item is needed")
    tracker = read_tracker(cycle.tracker)
    ambiguous = tracker_problems(tracker.items)
    if ambiguous:
        raise InputError(ambiguous)
    todo = filter_todo_items(tracker.items)
    broken = [Skipped("", "not_an_object", detail=stray) for stray in tracker.strays]
    broken += [_broken(item, problems) for item in todo if (problems := validate_item(item))]
    sound = [item for item in todo if not validate_item(item)]
    if broken and not sound:
        raise InputError([f"item {item.id or '(no id)'}: {item.detail}" for item in broken])
    _check_own_checkout(cycle, sound)
    default_repo = str(cycle.repo) if cycle.repo else None
    selection = select_disjoint(sound, cycle.max_items, default_repo)
    return Selection(selection.selected, (*broken, *selection.skipped))


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
        items = [build_manifest_item(cycle.driver, item) for item in selection.selected]
    except ValueError as error:
        raise InputError(str(error)) from error
    return {
        "wave_id": wave_id,
        "items": items,
        "wave_description": f"{len(items)} items from {cycle.tracker.name}",
    }


def _check_startable(cycle: Cycle, selection: Selection, manifest: Mapping[str, Any]) -> None:
    """Find what would keep the wave from starting before anything is made for it."""
    if cycle.options is None:
        return  # a caller of the functions: run_wave, or what stands in its place, decides
    options = replace(cycle.options, settings=cycle.settings, repo=cycle.repo)
    shipping = Shipping.from_git(_git(cycle))
    driver = adapted(cycle.driver)
    request = WaveRequest(driver, manifest, cycle.state_dir, shipping, True, options)
    try:
        check_state_dir(cycle.state_dir, cycle.repo)
        check(request)
    except TidegateError as error:
        wave_id = str(manifest["wave_id"])
        code = int(error.exit_code)
        raise _StoppedAt(
            _report(MANIFEST, wave_id, selection, success=False, exit_code=code, error=str(error))
        ) from error


def _git(cycle: Cycle) -> dict[str, Any]:
    return {"expectTopLevel": str(cycle.repo) if cycle.repo else None, "mode": "branch"}


def _run_wave(cycle: Cycle, manifest: Mapping[str, Any]) -> dict[str, Any]:
    # Callers may put a function with exactly the source's parameters in place of run_wave.
    extra: dict[str, Any] = {}
    if cycle.options is not None:
        recording = RecordingWriter(cycle.record) if cycle.record else cycle.options.recording
        extra["options"] = replace(
            cycle.options, settings=cycle.settings, repo=cycle.repo, recording=recording
        )
    return wave_loop.run_wave(
        driver=cycle.driver,
        manifest=manifest,
        state_dir=cycle.state_dir,
        git=_git(cycle),
        resume_journal=True,
        **extra,
    )


def _conclude(
    cycle: Cycle, selection: Selection, manifest: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    wave_id = str(manifest["wave_id"])
    built = {record["slug"]: record for record in result.get("built") or ()}
    ids = {item["slug"]: item["id"] for item in selection.selected}
    shipped = [slug for slug in result.get("shipped") or () if slug in ids]
    update = _update_tracker(cycle, _edits(built, ids, shipped, wave_id))
    phase = _PHASE_OF_ABORT.get(str(result.get("abort_reason")), DISPATCH)
    exit_code = int(result.get("exit_code", _exit_code(result, shipped, ids)))
    if exit_code == 0 and update.get("tracker_update_error"):
        exit_code = int(ExitCode.NOT_ALL_SHIPPED)
    why = result.get("error") or _untracked(update)
    error = {"error": why} if why else {}
    reason = {f"{phase}_reason": result.get("error")} if phase in (HALT, CEILING) else {}
    return _report(
        phase,
        wave_id,
        selection,
        success=exit_code == 0,
        exit_code=exit_code,
        items_shipped=[_shipped(built.get(slug), slug, cycle.driver) for slug in shipped],
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


def _exit_code(result: Mapping[str, Any], shipped: Sequence[str], ids: Mapping[str, str]) -> int:
    # Only a replaced run_wave leaves the code to be derived here.
    done = result.get("preflight_ok") and not result.get("aborted") and len(shipped) == len(ids)
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
        elif record.get("dispatched"):
            edits[item_id] = partial(_tried, record.get("ship_error") or record.get("error"))
    return edits


def _in_progress(wave_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    note = f"{item.get('notes') or ''} [wave {wave_id[:8]}]".strip()
    # Whoever moved the item on while the wave ran knows more than the wave.
    status = "in_progress" if item.get("status") == "todo" else item.get("status")
    return {"status": status, "notes": note}


def _tried(why: str | None, item: Mapping[str, Any]) -> dict[str, Any]:
    attempts = item.get("attempts")
    return {"attempts": (attempts if isinstance(attempts, int) else 0) + 1, "lastError": why}


def _update_tracker(cycle: Cycle, edits: Mapping[str, Edit]) -> dict[str, Any]:
    if not edits:
        return {"tracker_update_attempted": False}
    try:
        unknown = update_items(cycle.tracker, edits)
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


def _shipped(record: Mapping[str, Any] | None, slug: str, driver: AgentDriver) -> dict[str, Any]:
    return {
        "slug": slug,
        "backend": driver.name,
        "tier": record.get("verificationTier") if record else None,
        "verified": bool(record and record.get("verified")),
        "testExit": record.get("testExit") if record else None,
        "buildRecord": dict(record) if record else None,
    }


def _report(
    phase: str, wave_id: str, selection: Selection, *, success: bool, **more: Any
) -> dict[str, Any]:
    skipped = [{"id": s.id, "reason": s.reason, "detail": s.detail} for s in selection.skipped]
    return emit_report(
        phase,
        wave_id,
        [item["id"] for item in selection.selected],
        success=success,
        items_skipped=skipped,
        **more,
    )


def _failed(wave_id: str, error: TidegateError) -> dict[str, Any]:
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
