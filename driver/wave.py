"""The wave engine: every item through its own line, then together onto a branch."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.agent_driver import AgentDriver
from driver.gates import CEILING, HALT, GateClosedError, Gates
from driver.git import PrivateGit, find_remote, open_repository
from driver.ground import FolderGround, Ground, RepositoryGround
from driver.item_line import outcome_of, walk, work_patch
from driver.manifest import Manifest, parse_manifest
from driver.outcome import ItemOutcome, Verdict
from driver.phases.integrate import Entry
from driver.phases.preflight import PreflightError, check_ready, preflight
from driver.phases.ship import Shipment, ship
from driver.pool import run_all
from driver.process import Command, Processes, child_environment, could_not_run_reason
from driver.recorder import Recorder
from driver.report import ItemReport, WaveReport
from driver.stop import InterruptedWaveError
from driver.verification_policy import verification_policy
from driver.wave_context import Planned, Shipping, Wave, WaveOptions
from driver.workspace import Preparation, Workshop, workspace_root
from state_store.errors import ExitCode, InputError, TidegateError
from state_store.journal import safe_slug
from tools.settings import Settings
from tools.settings import load as load_settings

DEFAULT_WIDTH = 8


@dataclass(frozen=True)
class WaveRequest:
    """What a wave is asked to do. `state_dir` None keeps no journal and asks no gate."""

    driver: AgentDriver
    manifest: Mapping[str, Any]
    state_dir: Path | None
    shipping: Shipping
    resume: bool
    options: WaveOptions


def run(request: WaveRequest) -> WaveReport:
    """Bring every item to a verdict, then ship what is verified. Input errors become a report."""
    wave_id = str(request.manifest.get("wave_id") or uuid.uuid4())
    try:
        manifest = parse_manifest(request.manifest, new_wave_id=lambda: wave_id)
        with _opened(request, manifest) as wave:
            outcomes = _walk_all(wave)
            shipments = _ship_all(wave, outcomes)
            return _conclude(request, wave, outcomes, shipments)
    except TidegateError as error:
        request.options.progress.say(str(error))
        return _aborted(wave_id, error)


@contextlib.contextmanager
def _opened(request: WaveRequest, manifest: Manifest) -> Iterator[Wave]:
    """The wave with everything it needs made, and all of it removed afterwards."""
    options, driver = request.options, request.driver
    base_dir = (options.repo or Path.cwd()).resolve()
    settings = options.settings or load_settings(project=base_dir)
    plan = preflight(manifest, driver, request.shipping, base_dir, settings.environ)
    check_ready(driver)
    gates = Gates(request.state_dir, options.stop, driver.get_tokens_spent)
    gates.check()
    processes = Processes()
    options.stop.on_set(driver.cancel)
    options.stop.on_set(processes.cancel)
    with contextlib.ExitStack() as cleanup:
        run_dir = cleanup.enter_context(_run_dir(request.state_dir, manifest.wave_id))
        grounds = _open_grounds(plan, settings, processes, manifest.wave_id, cleanup)
        recorder = Recorder(request.state_dir, manifest.wave_id, options.progress)
        recorder.say(_first_line(manifest, plan, driver, request.state_dir))
        yield Wave(
            wave_id=manifest.wave_id,
            plan=plan,
            grounds=grounds,
            driver=driver,
            settings=settings,
            shipping=request.shipping,
            gates=gates,
            recorder=recorder,
            processes=processes,
            run_dir=run_dir,
            options=options,
        )


def _first_line(
    manifest: Manifest, plan: Sequence[Planned], driver: AgentDriver, state_dir: Path | None
) -> str:
    stop = f"; to stop: python tools/halt.py --state-dir {state_dir} set REASON" if state_dir else ""
    return f"wave {manifest.wave_id}: {len(plan)} items with {driver.describe()}{stop}"


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


def _open_grounds(
    plan: Sequence[Planned],
    settings: Settings,
    processes: Processes,
    wave_id: str,
    cleanup: contextlib.ExitStack,
) -> dict[str, Ground]:
    grounds: dict[str, Ground] = {}
    for planned in plan:
        home = planned.home
        if home.key not in grounds:
            ground: Ground = (
                _open_repository(home.top, settings, processes, wave_id, cleanup)
                if home.top
                else FolderGround(home.folder)
            )
            cleanup.callback(ground.close)
            grounds[home.key] = ground
    return grounds


def _open_repository(
    top: Path,
    settings: Settings,
    processes: Processes,
    wave_id: str,
    cleanup: contextlib.ExitStack,
) -> RepositoryGround:
    repository = open_repository(top, settings.environ)
    root = workspace_root(settings.workspace.root, settings.environ, repository)
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{safe_slug(wave_id)[:16]}-", dir=root))
    cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    git = PrivateGit.create(folder / "private.git", repository, settings.environ)
    prepare = Preparation(
        settings.workspace.copy, settings.workspace.setup, _setup_runner(settings, processes)
    )
    workshop = Workshop(folder, git, repository, repository.head, prepare, settings.environ)
    trees = workshop.proving_trees(settings.limits.max_parallel_tests or os.cpu_count() or 2)
    remote = find_remote(repository, settings.environ, settings.ship.remote)
    return RepositoryGround(repository, git, workshop, trees, remote, settings.environ)


@dataclass(frozen=True)
class _SetupRunner:
    settings: Settings
    processes: Processes

    def __call__(self, command: str | tuple[str, ...], folder: Path) -> str:
        settings = self.settings
        environment = child_environment(settings.environ, settings.verify.env)
        done = self.processes.run(
            Command(command, folder, environment, settings.workspace.setup_timeout_s)
        )
        if done.exit_code == 0:
            return ""
        why = could_not_run_reason(done) or done.reason or f"it ended with {done.exit_code}"
        return f"set-up command {command!r}: {why}: {(done.stderr or done.stdout)[-500:].strip()}"


def _setup_runner(settings: Settings, processes: Processes) -> _SetupRunner:
    return _SetupRunner(settings, processes)


def _walk_all(wave: Wave) -> list[ItemOutcome]:
    limit = wave.settings.limits.max_workers or DEFAULT_WIDTH
    return run_all(
        wave.plan,
        lambda planned: walk(planned, wave),
        width=limit,
        is_stopped=lambda: wave.gates.stop.is_set,
        abandoned=lambda planned: outcome_of(
            planned, Verdict.HALTED, "interrupted; its backend did not come back in time", []
        ),
    )


def _ship_all(wave: Wave, outcomes: Sequence[ItemOutcome]) -> dict[str, Shipment] | None:
    """A shipment for each repository with verified items; None when no ship was asked for."""
    if wave.shipping.mode == "none":
        return None
    shipments: dict[str, Shipment] = {}
    for key, ground in wave.grounds.items():
        entries = _verified(wave, outcomes, key)
        if entries and isinstance(ground, RepositoryGround):
            try:
                shipments[key] = ship(ground, entries, wave)
            except (GateClosedError, InterruptedWaveError) as stopped:
                shipments[key] = Shipment(key, error=_gate_word(stopped), detail=str(stopped))
            except TidegateError as error:
                shipments[key] = Shipment(key, error="could_not_ship", detail=str(error))
    return shipments


def _verified(wave: Wave, outcomes: Sequence[ItemOutcome], key: str) -> list[Entry]:
    return [
        (planned, outcome)
        for planned, outcome in zip(wave.plan, outcomes, strict=True)
        if planned.home.key == key and outcome.verdict is Verdict.VERIFIED
    ]


def _conclude(
    request: WaveRequest,
    wave: Wave,
    outcomes: Sequence[ItemOutcome],
    shipments: Mapping[str, Shipment] | None,
) -> WaveReport:
    items = tuple(
        _item_report(wave, planned, outcome, (shipments or {}).get(planned.home.key))
        for planned, outcome in zip(wave.plan, outcomes, strict=True)
    )
    reason, exit_code = _abort(wave, outcomes)
    return WaveReport(
        wave_id=wave.wave_id,
        items=items,
        shipments=None if shipments is None else tuple(shipments.values()),
        policy=verification_policy(wave.driver.probe_capabilities()),
        ceiling=wave.gates.last_ceiling,
        review_mode=wave.settings.review.mode,
        abort_reason=reason,
        error=str(wave.gates.closed) if wave.gates.closed else None,
        abort_exit=exit_code,
        resumed=request.resume,
    )


def _item_report(
    wave: Wave, planned: Planned, outcome: ItemOutcome, shipment: Shipment | None
) -> ItemReport:
    left_out = dict((p.slug, o) for p, o in shipment.left_out) if shipment else {}
    outcome = left_out.get(planned.slug, outcome)
    commit = dict(shipment.commits).get(planned.slug) if shipment else None
    _record_end(wave, planned, outcome, commit, planned.slug in left_out)
    patch = work_patch(planned, wave)
    if commit:
        patch.unlink(missing_ok=True)
    failed = shipment is not None and outcome.verdict is Verdict.VERIFIED and not commit
    return ItemReport(
        planned=planned,
        outcome=outcome,
        commit=commit,
        ship_error=shipment.detail or shipment.error if failed and shipment else None,
        ship_warning=shipment.warning if shipment and commit else None,
        saved_work=str(patch) if patch.exists() else None,
    )


def _record_end(
    wave: Wave, planned: Planned, outcome: ItemOutcome, commit: str | None, evicted: bool
) -> None:
    if commit:
        wave.recorder.shipped(planned.slug, planned.item.repo, outcome, commit)
    elif evicted:
        wave.recorder.settled(planned.slug, planned.item.repo, outcome)


def _abort(wave: Wave, outcomes: Sequence[ItemOutcome]) -> tuple[str | None, ExitCode | None]:
    if wave.gates.stop.is_set:
        return "interrupted", wave.gates.stop.exit_code
    closed = wave.gates.closed
    if closed is None:
        return None, None
    if closed.gate == CEILING:
        repairing = any(o.verdict is Verdict.OVER_BUDGET and o.attempts for o in outcomes)
        word = "cost_ceiling_exceeded" + ("_in_repair" if repairing else "")
        return word, closed.exit_code
    return _gate_word(closed), closed.exit_code


def _gate_word(stopped: GateClosedError | InterruptedWaveError) -> str:
    if isinstance(stopped, InterruptedWaveError):
        return "interrupted"
    words = {CEILING: "cost_ceiling_exceeded", HALT: "halted"}
    return words.get(stopped.gate, stopped.gate)


def _aborted(wave_id: str, error: TidegateError) -> WaveReport:
    details: dict[str, Any] = {}
    if isinstance(error, InputError):
        details["problems"] = list(error.problems)
    if isinstance(error, PreflightError):
        details |= error.details
    return WaveReport(
        wave_id=wave_id,
        preflight_ok=False,
        abort_reason=_abort_word(error),
        error=str(error),
        details=details,
        abort_exit=error.exit_code,
    )


def _abort_word(error: TidegateError) -> str:
    if isinstance(error, PreflightError):
        return error.abort_reason
    if isinstance(error, GateClosedError | InterruptedWaveError):
        return _gate_word(error)
    return "invalid_manifest" if isinstance(error, InputError) else "cannot_run_here"
