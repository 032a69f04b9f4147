"""Make what a wave needs before its first item, and remove all of it after its last."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.agent_driver import ROLE_VERIFY, AgentDriver
from driver.backend_config import of_reviewer, review_driver_from
from driver.checkout_watch import CheckoutFingerprint, CheckoutWatch
from driver.gates import Gates, check_before_start, halt_command
from driver.git import PrivateGit, Repository, find_remote, open_repository
from driver.ground import FolderGround, Ground, RepositoryGround
from driver.leasing import Leases
from driver.manifest import Manifest, parse_manifest
from driver.memory import Forgetful, Memory, WaveMemory
from driver.neighbourhood import Neighbourhood
from driver.own_files import is_own_part
from driver.phases.baseline import WaveBaselines
from driver.phases.preflight import check_integration, check_ready, preflight
from driver.process import Command, Processes, child_environment, could_not_run_reason
from driver.prompts import command_text
from driver.recorder import Recorder
from driver.reviews import is_required
from driver.runs import RUN_VARIABLE, clear_up, noted, run_mark
from driver.spending import opened as spending_of
from driver.spending import told_in_this_wave
from driver.state_folder import check_state_dir
from driver.stop import Stop
from driver.survey import Survey
from driver.text import counted
from driver.tripwire import Tripwire
from driver.users_hooks import take_hooks
from driver.wave_context import Planned, Reviewer, Shipping, Wave, WaveOptions
from driver.workplace import sign
from driver.workspace import Preparation, Workshop, workspace_root
from state_store.anchors import check_kept
from state_store.api import StateAPI
from state_store.errors import CannotRunError
from state_store.journal import safe_slug
from state_store.write_api import STATE_DB_FILENAME
from tools import cost_ceiling
from tools.settings import Settings
from tools.settings import load as load_settings


@dataclass(frozen=True)
class WaveRequest:
    """What a wave is asked to do. `state_dir` None keeps no journal and asks no gate."""

    driver: AgentDriver
    manifest: Mapping[str, Any]
    state_dir: Path | None
    shipping: Shipping
    resume: bool
    options: WaveOptions


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request that passed the pre-flight."""

    items: tuple[Planned, ...]
    settings: Settings
    survey: Survey


@dataclass(frozen=True, slots=True)
class _Started:
    """What is run for a wave besides agents and tests: set-ups, and who talks to the remote."""

    setups: Processes = field(default_factory=Processes)
    talks: Processes = field(default_factory=Processes)

    def end_with(self, stop: Stop, drivers: Sequence[AgentDriver]) -> None:
        """End all of it when the wave is to end. A halt lets a push go on that was begun: what is
        sent cannot be recalled, and half sent nobody knows whether it arrived."""
        stop.on_set(self.setups.cancel)
        stop.on_set(self.talks.cancel, only_by_signal=True)
        for driver in drivers:
            stop.on_set(driver.cancel)


def wave_id_of(manifest: object) -> str:
    """The name that a manifest gives its wave, else a new one."""
    named = manifest.get("wave_id") if isinstance(manifest, Mapping) else None
    return str(named or uuid.uuid4())


def check(request: WaveRequest, *, dry: bool = False) -> None:
    """Raise what would keep this wave from its first item; nothing is made or changed.
    A dry run needs neither an agent, nor leave to spend, nor a place for its state."""
    plan = _plan(request, parse_manifest(request.manifest, new_wave_id=lambda: "not-begun"))
    if not dry:
        check_ready(request.driver)
        _reviewing_driver(plan)
    if not dry and request.state_dir is not None:
        check_before_start(request.state_dir, plan.settings)
        check_state_dir(request.state_dir, request.options.repo)
    for top in {planned.home.top for planned in plan.items if planned.home.top}:
        plan.survey.check_repository(top)


def _plan(request: WaveRequest, manifest: Manifest) -> _Plan:
    options, shipping = request.options, request.shipping
    base_dir = (options.repo or Path(shipping.expect_top or Path.cwd())).resolve()
    settings = options.settings or load_settings(project=base_dir)
    check_integration(settings.verify.integration)
    survey = options.survey or Survey(settings.environ)
    items = preflight(manifest, request.driver, shipping, base_dir, survey)
    return _Plan(items, settings, survey)


@contextlib.contextmanager
def opened(request: WaveRequest, manifest: Manifest) -> Iterator[Wave]:
    """The wave with everything it needs made, and all of it removed afterwards."""
    plan = _plan(request, manifest)
    check_ready(request.driver)
    reviewing = _reviewing_driver(plan)
    drivers = (request.driver, *([reviewing] if reviewing else []))
    gates = _open_gates(request, plan.settings, drivers)
    gates.check_dispatch()
    started = _Started()
    started.end_with(request.options.stop, drivers)
    with contextlib.ExitStack() as cleanup:
        with _trouble_told():
            api = _open_store(request, cleanup)
            memory = _open_memory(request, plan.settings, manifest.wave_id, api, cleanup)
            books = spending_of(api, manifest.wave_id, gates, plan.settings, drivers)
            spending = cleanup.enter_context(books)
            run_dir = cleanup.enter_context(_run_dir(request.state_dir, manifest.wave_id))
            mark = run_mark(run_dir, manifest.wave_id)
            grounds = _open_grounds(plan, started, mark, _own_places(request), cleanup)
        wave = Wave(
            wave_id=manifest.wave_id,
            plan=plan.items,
            run_dir=run_dir,
            grounds=grounds,
            driver=request.driver,
            settings=plan.settings,
            shipping=request.shipping,
            gates=gates,
            recorder=_recorder(request, manifest.wave_id, memory),
            spending=spending,
            processes=started.setups,
            options=request.options,
            baselines=WaveBaselines(request.state_dir),
            test_slots=threading.Semaphore(_parallel_tests(plan.settings)),
            state_dir=request.state_dir,
            resume=request.resume,
            reviewer=_reviewer(request, plan.settings, gates, reviewing),
        )
        _begin(wave, memory, cleanup)
        yield wave


def _recorder(request: WaveRequest, wave_id: str, memory: Memory) -> Recorder:
    return Recorder(request.state_dir, wave_id, memory, request.options.progress)


def _begin(wave: Wave, memory: Memory, cleanup: contextlib.ExitStack) -> None:
    cleanup.enter_context(_noted(wave))
    cleanup.callback(wave.baselines.close, wave)
    memory.begin([planned.slug for planned in wave.plan])
    _announce(wave, wave.state_dir)


@contextlib.contextmanager
def _trouble_told() -> Iterator[None]:
    """A full disk, a folder without rights: one sentence, and no wave."""
    try:
        yield
    except OSError as trouble:
        raise CannotRunError(f"the wave cannot be begun: {trouble}") from trouble


def _open_gates(request: WaveRequest, settings: Settings, drivers: Sequence[AgentDriver]) -> Gates:
    limits = cost_ceiling.load_config(settings)
    spent = functools.partial(told_in_this_wave, drivers)
    grace_s = settings.limits.halt_grace_s
    return Gates(
        request.state_dir, request.options.stop, spent, config=limits, halt_grace_s=grace_s
    )


def _reviewing_driver(plan: _Plan) -> AgentDriver | None:
    """The reviewer's own backend; None where it has none, or where nothing is to be reviewed.

    Raises CannotRunError when it is not ready: before anything is built that nobody could read.
    """
    mode = plan.settings.review.mode
    if not any(is_required(required=p.policy.require_review, mode=mode) for p in plan.items):
        return None
    driver = review_driver_from(plan.settings)
    if driver is not None:
        check_ready(driver, of_reviewer)
    return driver


def _reviewer(
    request: WaveRequest, settings: Settings, gates: Gates, own: AgentDriver | None
) -> Reviewer:
    """Who reviews: `own`, with gates of its own, else the backend that builds."""
    driver = own or request.driver
    own_gates = gates if own is None else _open_gates(request, settings, [own])
    return Reviewer(driver, own_gates, driver.resolve_model(ROLE_VERIFY) or None)


def _open_store(request: WaveRequest, cleanup: contextlib.ExitStack) -> StateAPI | None:
    if request.state_dir is None:
        return None
    api = cleanup.enter_context(StateAPI(request.state_dir / STATE_DB_FILENAME))
    check_kept(api.store, request.state_dir)
    return api


def _open_memory(
    request: WaveRequest,
    settings: Settings,
    wave_id: str,
    api: StateAPI | None,
    cleanup: contextlib.ExitStack,
) -> Memory:
    """The store as the wave needs it, with leases of this run or those the caller holds."""
    if api is None or request.state_dir is None:
        return Forgetful()
    leases = request.options.leases
    if leases is None:
        for line in clear_up(request.state_dir, settings.environ):
            request.options.progress.say(line)
        leases = cleanup.enter_context(Leases(api.store, settings.limits.lease_s))
    return WaveMemory(api, leases, wave_id, request.driver.name)


def _noted(wave: Wave) -> contextlib.AbstractContextManager[None]:
    """This run's note, from which the next one learns what to clear up if this one dies."""
    if wave.state_dir is None:
        return contextlib.nullcontext()
    folders = [g.folder for g in wave.grounds.values() if isinstance(g, RepositoryGround)]
    return noted(wave.run_dir, wave.wave_id, folders)


def _announce(wave: Wave, state_dir: Path | None) -> None:
    for driver in {wave.driver, wave.reviewer.driver if wave.reviewer else wave.driver}:
        driver.attend(wave.recorder.say, wave.settings.limits.give_up_s)
    for line in _first_lines(wave, state_dir):
        wave.recorder.say(line)
    for ground in wave.grounds.values():
        if isinstance(ground, RepositoryGround):
            wave.recorder.say(_base_line(ground.repository))


def _first_lines(wave: Wave, state_dir: Path | None) -> Iterator[str]:
    caps = wave.driver.probe_capabilities()
    items = counted(len(wave.plan), "item")
    tier = caps.recommended_verification_tier
    stop = f"; or anywhere: {halt_command(state_dir, 'set', 'REASON')}" if state_dir else ""
    told = f"wave {wave.wave_id}: {items}, backend {caps.name}, tier {tier}"
    yield f"{told}; to stop it, press Ctrl-C here{stop}"
    if wave.reviewer and any(map(wave.wants_review, wave.plan)):
        model = f" ({wave.reviewer.model})" if wave.reviewer.model else ""
        yield f"what needs a review is read by backend {wave.reviewer.driver.name}{model}"
    yield f"prompts and outputs of agents and tests: {wave.run_dir}"


def _base_line(repository: Repository) -> str:
    where = f"branch {repository.branch}" if repository.branch else "a detached HEAD"
    depth = ", a shallow clone" if repository.shallow else ""
    return f"{repository.top}: builds on {where} at {repository.head[:12]}{depth}"


@contextlib.contextmanager
def _run_dir(state_dir: Path | None, wave_id: str) -> Iterator[Path]:
    """The folder for what agents and tests print; without a state folder it goes with the wave,
    unless unshipped work lies in it."""
    if state_dir is not None:
        folder = state_dir / "runs" / safe_slug(wave_id)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="tidegate-run-"))
    try:
        yield folder
    finally:
        if not any(folder.glob("*/work.patch")):
            shutil.rmtree(folder, ignore_errors=True)


def _own_places(request: WaveRequest) -> tuple[Path, ...]:
    """Where Tidegate itself writes while the wave runs, and people do at any time."""
    recording = request.options.recording
    found = (request.state_dir, recording.path if recording else None, *request.options.own_paths)
    return tuple(path for path in found if path is not None)


def _open_grounds(
    plan: _Plan,
    started: _Started,
    mark: str,
    ours: tuple[Path, ...],
    cleanup: contextlib.ExitStack,
) -> dict[str, Ground]:
    grounds: dict[str, Ground] = {}
    for home in {planned.home.key: planned.home for planned in plan.items}.values():
        ground: Ground = (
            _open_repository(home.top, plan, started, mark, ours, cleanup)
            if home.top
            else FolderGround(home.folder)
        )
        cleanup.callback(ground.close)
        grounds[home.key] = ground
    return grounds


def _open_repository(
    top: Path,
    plan: _Plan,
    started: _Started,
    mark: str,
    ours: tuple[Path, ...],
    cleanup: contextlib.ExitStack,
) -> RepositoryGround:
    settings = plan.settings
    repository = open_repository(top, settings.environ)
    root = workspace_root(settings.workspace.root, settings.environ, repository)
    folder = _fresh_folder(root, f"{safe_slug(mark)[:16]}-")
    cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    sign(folder, mark, repository)
    git = PrivateGit.create(folder / "private.git", repository, settings.environ)
    prepare = Preparation(
        settings.workspace.copy,
        settings.workspace.setup,
        functools.partial(run_setup, settings, started.setups, mark),
    )
    workshop = Workshop(folder, git, repository, repository.head, prepare, settings.environ)
    trees = workshop.proving_trees(_parallel_tests(settings))
    remote = find_remote(repository, settings.environ, settings.ship.remote, started.talks)
    watch = CheckoutWatch(repository, settings.environ, folder / "watch")
    around = Neighbourhood(folder, settings.environ, may_install=_may_install(plan))

    def look() -> CheckoutFingerprint:
        return CheckoutFingerprint({**watch.look().parts, **around.look()})

    tripwire = Tripwire(look, lambda name: is_own_part(repository.top, name, ours))
    ground = RepositoryGround(repository, git, workshop, trees, remote, tripwire)
    if settings.ship.hooks == "run":
        ground.hooks = take_hooks(repository, git, settings.environ, folder / "hooks")
    return ground


def _parallel_tests(settings: Settings) -> int:
    return settings.limits.max_parallel_tests or os.cpu_count() or 2


def _may_install(plan: _Plan) -> bool:
    """Whether our own commands may change what is installed beside any repository."""
    tests = (command_text(planned.item.test_command) for planned in plan.items)
    return bool(plan.settings.workspace.setup) or any("install" in test for test in tests)


def _fresh_folder(root: Path, prefix: str) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    except OSError as trouble:
        why = f"no workspaces can be made in {root}: {trouble.strerror or trouble}"
        raise CannotRunError(f"{why}; name another folder as [workspace] root") from trouble


def run_setup(
    settings: Settings,
    processes: Processes,
    mark: str,
    command: str | tuple[str, ...],
    folder: Path,
) -> str:
    """Run one set-up command in a fresh place: "" or the sentence that says what went wrong."""
    extra = {RUN_VARIABLE: mark}
    environment = child_environment(settings.environ, settings.verify.env, extra)
    limit = settings.workspace.setup_timeout_s
    done = processes.run(Command(command, folder, environment, limit))
    if done.exit_code == 0:
        return ""
    if could_not_run := could_not_run_reason(done):
        return could_not_run
    why = done.reason or f"it ended with exit {done.exit_code}"
    said = (done.stderr or done.stdout)[-500:].strip()
    return f"{why}: {said}" if said else why
