"""Creates the resources of a wave before its first item, and removes them after its last."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from driver.backend_api.driver import ROLE_VERIFY, AgentDriver
from driver.backend_api.provider_fault import ASKED_AGAIN
from driver.checkout_guard.home_settings import HomeSettings, settings_of_checkers
from driver.domain.work_item import Manifest
from driver.execution.process_marks import new_key
from driver.execution.processes import child_environment
from driver.execution.supervisor import hide_memory
from driver.execution.worker_pool import Afterwards
from driver.filesystem.temporary import scratch_folder
from driver.git.user_hooks import HOOKS_REMEDY, missing_hooks
from driver.handover.choice import handover_of
from driver.homes.compiled import CompilerCaches
from driver.limits.admission import Admission, check_before_start, halt_command
from driver.limits.spending import Spending
from driver.limits.spending import opened as spending_of
from driver.merge_queue.ahead import WaveAhead
from driver.pipeline.definition import REQUIRE
from driver.run_state.context import AssignedBackend, Wave
from driver.run_state.event_log import EventLog
from driver.run_state.leases import LeaseManager
from driver.run_state.plan import Plan, needs_of
from driver.run_state.recorder import Recorder
from driver.run_state.run_registry import clear_up, noted, run_mark
from driver.run_state.snapshot import take_snapshot
from driver.run_state.test_turns import TestTurns
from driver.terminal.safe_text import counted
from driver.verification.baseline import WaveBaselines
from driver.verification.readiness import WaveReadiness
from driver.walls.choice import WALLS
from driver.walls.wave_walls import Walls, walls_of
from driver.wave.item_pipelines import phase_drivers
from driver.wave.planning import WaveRequest, checked_plan, reviewing_driver
from driver.wave.repositories import RepositoryOpener, SideProcesses, parallel_tests
from driver.workspace.run_folder import leave
from driver.workspace.saved_patch import WORK
from state_store.api import StateAPI
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.journal import safe_slug
from state_store.redaction.installed import hiding
from state_store.values.lazy_dataclass import replace
from state_store.views.anchors import check_kept
from state_store.views.publications import import_publications
from state_store.write_api import STATE_DB_FILENAME
from tools.settings.load import Settings
from tools.settings.run_sections import HOST
from tools.settings.secret_values import secret_values

_TEMPORARY_STATE = "state"  # in the run folder, for a wave without a state folder


def banner(wave: Wave) -> Iterator[str]:
    """The banner: items and backend, the way to stop the wave, the output folder, and each base."""
    caps = wave.driver.probe_capabilities()
    items = counted(len(wave.plan), "item")
    home = " with your own home" if wave.settings.sandbox.home == HOST else ""
    tier = f"{caps.recommended_verification_tier}, sandbox {wave.walls.name}{home}"
    stop = ""
    if wave.gates.state_dir is not None:
        stop = f"; or anywhere: {halt_command(wave.gates.state_dir, 'set', 'REASON')}"
    title = f"wave {wave.wave_id}: {items}, backend {caps.name}, tier {tier}"
    yield f"{title}; to stop it, press Ctrl-C here{stop}"
    if wave.reviewer and any(item.wants_review for item in wave.items):
        model = f" ({wave.reviewer.model})" if wave.reviewer.model else ""
        yield f"reviews are made by backend {wave.reviewer.driver.name}{model}"
    yield f"prompts and outputs of agents and tests: {wave.run_dir}"
    for repository, context in ((one.repository, one) for one in wave.repositories.values()):
        where = f"branch {repository.branch}" if repository.branch else "a detached HEAD"
        depth = ", a shallow clone" if repository.shallow else ""
        yield f"{repository.top}: builds on {where} at {repository.head[:12]}{depth}"
        if wave.settings.ship.hooks != "run" or not wave.shipping.is_wanted:
            continue
        if missing := missing_hooks(repository, wave.settings.environ, context.configured):
            yield f"warning: {missing}; {HOOKS_REMEDY}"


@contextlib.contextmanager
def opened(request: WaveRequest, manifest: Manifest) -> Iterator[Wave]:
    """The wave with all its resources, which are removed afterwards."""
    plan, wave_id, stop = checked_plan(request, manifest), manifest.wave_id, request.options.stop
    reviewing, by_phase = reviewing_driver(plan), phase_drivers(plan.items, plan.settings)
    drivers = (request.driver, *filter(None, [reviewing]), *by_phase.values())
    gates = _admitted(request, plan.settings)
    side = SideProcesses.ending_with(stop, drivers, plan.settings.limits.halt_push_s)
    with hiding(secret_values(plan.settings)), contextlib.ExitStack() as cleanup:
        with _errors_described():
            run_dir, state_dir = cleanup.enter_context(_folders(request.state_dir, wave_id))
            api = _open_store(request, state_dir, cleanup)
            log = _open_log(request, plan, wave_id, api, cleanup)
            spending = cleanup.enter_context(_spending(request, wave_id, api, gates, plan, drivers))
            mark, key = run_mark(run_dir, wave_id), new_key()
            walls = _walls(request, plan, side, drivers, cleanup)
            places = cleanup.enter_context(contextlib.ExitStack())
            opener = _opener(request, plan, side, mark, key, walls)
            contexts = opener.for_agents_of(drivers).open(cleanup, places)
        wave = Wave(
            wave_id=wave_id, plan=plan.items, state_dir=state_dir, run_dir=run_dir,
            contexts=contexts, driver=request.driver, settings=plan.settings,
            shipping=request.shipping, gates=gates,
            recorder=Recorder(state_dir, wave_id, log, request.options.progress),
            spending=spending, processes=side.setups, options=request.options,
            baselines=WaveBaselines(gates.stop),
            readiness=WaveReadiness(),
            ahead=WaveAhead(parallel_tests(plan.settings)),
            key=key,
            home=_home(run_dir, plan.settings, cleanup),
            turns=_turns(request, plan, gates, cleanup),
            walls=walls,
            handover=handover_of(api.store),
            resume=request.resume,
            reviewer=_reviewer(request, plan.settings, gates, reviewing),
            phase_backends=_phase_backends(request, plan.settings, by_phase),
        )  # fmt: skip
        yield _begun(wave, log, cleanup)
        if request.options.clean_up is not None:
            leave([context.folder for context in wave.repositories.values()])
            request.options.clean_up.callback(_closed_quietly, places.pop_all())


def _closed_quietly(places: contextlib.ExitStack) -> None:
    """Remove or keep the places of a wave whose report is out: later runs remove what stays."""
    failpoint("clean_up.begun")
    with contextlib.suppress(TidegateError, OSError):
        places.close()


def _begun(wave: Wave, log: EventLog, cleanup: contextlib.ExitStack) -> Wave:
    """The wave, noted for later runs, and announced."""
    folders = [one.folder for one in wave.repositories.values()]
    # If this run dies, the next run learns from this note which folders to clear up.
    cleanup.enter_context(noted(wave.run_dir, wave.wave_id, folders, wave.key))
    cleanup.callback(wave.handover.close, wave)
    cleanup.callback(wave.baselines.close)
    cleanup.callback(wave.ahead.close)
    take_snapshot(wave)
    slugs = [planned.slug for planned in wave.plan]
    log.begin(slugs, ceilings=_ceilings(wave), queued=wave.options.queued)
    others = [wave.reviewer] if wave.reviewer else []
    for driver in {wave.driver, *(one.driver for one in (*others, *wave.phase_backends.values()))}:
        driver.attend(partial(_provider_said, wave), wave.settings.limits.give_up_s)
    wave.spending.on_wait = wave.recorder.notes.room
    for line in banner(wave):
        wave.recorder.say(line)
    return wave


def _provider_said(wave: Wave, line: str) -> None:
    wave.recorder.notes.provider(not line.startswith(ASKED_AGAIN), line)
    wave.recorder.say(line)


def _ceilings(wave: Wave) -> dict[str, float]:
    """The wave's own ceilings, by their unit."""
    limits = wave.settings.limits
    found = {
        "tokens": limits.max_wave_tokens,
        "usd": limits.max_wave_usd,
        "minutes": limits.max_wave_minutes,
        "dispatches": limits.max_wave_dispatches,
    }
    return {unit: ceiling for unit, ceiling in found.items() if ceiling is not None}


def _admitted(request: WaveRequest, settings: Settings) -> Admission:
    """The gates of the wave, checked once before anything is created."""
    gates = _open_gates(request, settings)
    gates.check()
    if request.state_dir is not None:
        check_before_start(request.state_dir, settings)
    return gates


def _opener(
    request: WaveRequest, plan: Plan, side: SideProcesses, mark: str, key: str, walls: Walls
) -> RepositoryOpener:
    """The opener of the plan's repositories, which watches all but our own paths."""
    return RepositoryOpener(plan, plan.settings, side, mark, key, _own_paths(request), walls)


def _walls(
    request: WaveRequest,
    plan: Plan,
    side: SideProcesses,
    drivers: Sequence[AgentDriver],
    cleanup: contextlib.ExitStack,
) -> Walls:
    """The walls of the wave, from which this process hides its memory. The answer of the escape
    test stays in the state folder."""
    hide_memory()
    file = request.state_dir / WALLS if request.state_dir else None
    environ = child_environment(plan.settings.environ, plan.settings.verify.env)
    checkers = map(Path, settings_of_checkers(environ))
    walls = walls_of(plan.settings, file, plan.tops, side.setups, checkers)
    cleanup.callback((removals := Afterwards()).close)
    inside = all(driver.encloses for driver in drivers)
    walls = replace(walls, agents_inside=inside, removals=removals)
    if walls.closed and walls.has_homes:
        caches = CompilerCaches(cleanup.enter_context(scratch_folder()))
        walls = replace(walls, caches=caches)
    hermetic = [
        f"phase {phase.name} of {one.slug}"
        for one in plan.items
        for phase in one.pipeline.phases
        if phase.hermetic == REQUIRE
    ]
    if hermetic and not (walls.closed and walls.agents_inside):
        raise CannotRunError(
            f'{hermetic[0]}: hermetic = "require" cannot be kept: there is no sandbox of the level'
            f" landlock or above around all of the wave (it is {walls.name}); see doctor, set"
            ' [sandbox] level, or set "host"'
        )
    return walls


def _home(run_dir: Path, settings: Settings, cleanup: contextlib.ExitStack) -> HomeSettings:
    """The settings of the user's home before the first agent."""
    views = run_dir / "homes"
    cleanup.callback(shutil.rmtree, views, ignore_errors=True)
    return HomeSettings(child_environment(settings.environ, settings.verify.env), views)


def _turns(
    request: WaveRequest, plan: Plan, gates: Admission, cleanup: contextlib.ExitStack
) -> TestTurns:
    """The turns of the wave's tests. Without a state folder nothing learned is kept."""
    turns = TestTurns(
        request.state_dir,
        lambda: gates.stop.is_set,
        slots=parallel_tests(plan.settings),
        everything=plan.settings.verify.exclusive is True,
        needs=needs_of(plan),
    )
    cleanup.callback(turns.close)
    return turns


@contextlib.contextmanager
def _errors_described() -> Iterator[None]:
    """An OSError, such as a full disk or missing rights, becomes a CannotRunError."""
    try:
        yield
    except OSError as trouble:
        raise CannotRunError(f"the wave cannot be begun: {trouble}") from trouble


def _open_gates(request: WaveRequest, settings: Settings) -> Admission:
    return Admission(request.state_dir, request.options.stop, settings.limits.halt_grace_s)


def _reviewer(
    request: WaveRequest, settings: Settings, gates: Admission, own: AgentDriver | None
) -> AssignedBackend:
    """The reviewer's backend: `own`, with its own gates, else the builder's backend."""
    driver = own or request.driver
    own_gates = gates if own is None else _open_gates(request, settings)
    return AssignedBackend(driver, own_gates, driver.resolve_model(ROLE_VERIFY) or None)


def _phase_backends(
    request: WaveRequest, settings: Settings, drivers: Mapping[str, AgentDriver]
) -> dict[str, AssignedBackend]:
    """The backends of phases, each with its own gates."""
    return {
        key: AssignedBackend(driver, _open_gates(request, settings))
        for key, driver in drivers.items()
    }


def _open_store(request: WaveRequest, state_dir: Path, cleanup: contextlib.ExitStack) -> StateAPI:
    """The store of the wave. Raises CannotRunError if it lacks a state that an anchor names."""
    api = cleanup.enter_context(StateAPI(state_dir / STATE_DB_FILENAME))
    if request.state_dir is not None:
        if request.options.leases is None:  # else the caller has the store open, and has checked it
            check_kept(api.store, request.state_dir)
        import_publications(api.store, request.state_dir)
    return api


@contextlib.contextmanager
def _spending(
    request: WaveRequest,
    wave_id: str,
    api: StateAPI,
    gates: Admission,
    plan: Plan,
    drivers: Sequence[AgentDriver],
) -> Iterator[Spending]:
    """The wave's ledger. Without a state folder nothing is stored and no ceiling is checked."""
    settings = plan.settings
    phases = [phase for planned in plan.items for phase in planned.pipeline.phases]
    backends = [settings.backend, *(phase.backend for phase in phases if phase.backend)]
    own = [phase.timeout_s for phase in phases if phase.timeout_s]
    longest_s = max([*own, *(backend.timeout_s for backend in backends)])
    kept = api if request.state_dir else None
    with spending_of(kept, wave_id, gates, settings, drivers, longest_s) as spending:
        spending.check_ceiling = request.options.check_ceiling
        yield spending


def _open_log(
    request: WaveRequest, plan: Plan, wave_id: str, api: StateAPI, cleanup: contextlib.ExitStack
) -> EventLog:
    """The wave's event log, with leases of this run or of its caller."""
    leases = request.options.leases
    if request.state_dir is None or leases is None:
        if request.state_dir is not None:
            for line in clear_up(request.state_dir, plan.settings.environ):
                request.options.progress.say(line)
        leases = cleanup.enter_context(LeaseManager(api.store, plan.settings.limits.lease_s))
    return EventLog(api, leases, wave_id, is_kept=request.state_dir is not None)


@contextlib.contextmanager
def _folders(state_dir: Path | None, wave_id: str) -> Iterator[tuple[Path, Path]]:
    """The folder for the output of agents and tests, and the state folder. Without a state folder
    there is one in the first folder, which is removed after the wave, unless it has unshipped
    work."""
    if state_dir is not None:
        folder = state_dir / "runs" / safe_slug(wave_id)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve(), state_dir
        return
    folder = Path(tempfile.mkdtemp(prefix="tidegate-run-"))
    (folder / _TEMPORARY_STATE).mkdir()
    try:
        yield folder, folder / _TEMPORARY_STATE
    finally:
        if not any(folder.glob(f"*/{WORK}")):
            shutil.rmtree(folder, ignore_errors=True)


def _own_paths(request: WaveRequest) -> tuple[Path, ...]:
    """The paths that Tidegate or its users write during a wave."""
    recording = request.options.recording
    found = (request.state_dir, recording.path if recording else None, *request.options.own_paths)
    return tuple(path for path in found if path is not None)
