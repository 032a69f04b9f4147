"""Make what a wave needs before its first item, and remove all of it after its last."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.agent_driver import AgentDriver
from driver.gates import Gates, check_before_start
from driver.git import PrivateGit, Repository, find_remote, open_repository
from driver.ground import FolderGround, Ground, RepositoryGround
from driver.manifest import Manifest, parse_manifest
from driver.phases.preflight import check_ready, preflight
from driver.process import Command, Processes, child_environment, could_not_run_reason
from driver.recorder import Recorder
from driver.wave_context import Planned, Shipping, Wave, WaveOptions
from driver.workspace import Preparation, Workshop, workspace_root
from state_store.errors import CannotRunError
from state_store.journal import safe_slug
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


def check(request: WaveRequest, *, dry: bool = False) -> None:
    """Raise what would keep this wave from its first item; nothing is made or changed.
    A dry run needs neither an agent nor leave to spend."""
    manifest = parse_manifest(request.manifest, new_wave_id=lambda: "not-begun")
    base_dir = (request.options.repo or Path.cwd()).resolve()
    settings = request.options.settings or load_settings(project=base_dir)
    plan = preflight(manifest, request.driver, request.shipping, base_dir, settings.environ)
    if not dry:
        check_ready(request.driver)
        if request.state_dir is not None:
            check_before_start(request.state_dir, cost_ceiling.load_config(settings))
    for top in {planned.home.top for planned in plan if planned.home.top}:
        open_repository(top, settings.environ)


@contextlib.contextmanager
def opened(request: WaveRequest, manifest: Manifest) -> Iterator[Wave]:
    """The wave with everything it needs made, and all of it removed afterwards."""
    options, driver = request.options, request.driver
    base_dir = (options.repo or Path(request.shipping.expect_top or Path.cwd())).resolve()
    settings = options.settings or load_settings(project=base_dir)
    plan = preflight(manifest, driver, request.shipping, base_dir, settings.environ)
    check_ready(driver)
    limits = cost_ceiling.load_config(settings)
    gates = Gates(request.state_dir, options.stop, driver.get_tokens_spent, config=limits)
    gates.check()
    processes = Processes()
    options.stop.on_set(driver.cancel)
    options.stop.on_set(processes.cancel)
    with contextlib.ExitStack() as cleanup:
        with _trouble_told():
            run_dir = cleanup.enter_context(_run_dir(request.state_dir, manifest.wave_id))
            grounds = _open_grounds(plan, settings, processes, manifest.wave_id, cleanup)
        recorder = Recorder(request.state_dir, manifest.wave_id, options.progress)
        recorder.say(_first_line(manifest, plan, driver, request.state_dir))
        for ground in grounds.values():
            if isinstance(ground, RepositoryGround):
                recorder.say(_base_line(ground.repository))
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


@contextlib.contextmanager
def _trouble_told() -> Iterator[None]:
    """A full disk, a folder without rights: one sentence, and no wave."""
    try:
        yield
    except OSError as trouble:
        raise CannotRunError(f"the wave cannot be begun: {trouble}") from trouble


def _first_line(
    manifest: Manifest, plan: Sequence[Planned], driver: AgentDriver, state_dir: Path | None
) -> str:
    stop = (
        f"; to stop: python tools/halt.py --state-dir {state_dir} set REASON" if state_dir else ""
    )
    return f"wave {manifest.wave_id}: {len(plan)} items with {driver.describe()}{stop}"


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
    folder = _fresh_folder(root, f"{safe_slug(wave_id)[:16]}-")
    cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    git = PrivateGit.create(folder / "private.git", repository, settings.environ)
    prepare = Preparation(
        settings.workspace.copy,
        settings.workspace.setup,
        functools.partial(_run_setup, settings, processes),
    )
    workshop = Workshop(folder, git, repository, repository.head, prepare, settings.environ)
    trees = workshop.proving_trees(settings.limits.max_parallel_tests or os.cpu_count() or 2)
    remote = find_remote(repository, settings.environ, settings.ship.remote, processes)
    return RepositoryGround(repository, git, workshop, trees, remote, settings.environ)


def _fresh_folder(root: Path, prefix: str) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    except OSError as trouble:
        why = f"no workspaces can be made in {root}: {trouble.strerror or trouble}"
        raise CannotRunError(f"{why}; name another folder as [workspace] root") from trouble


def _run_setup(
    settings: Settings, processes: Processes, command: str | tuple[str, ...], folder: Path
) -> str:
    environment = child_environment(settings.environ, settings.verify.env)
    limit = settings.workspace.setup_timeout_s
    done = processes.run(Command(command, folder, environment, limit))
    if done.exit_code == 0:
        return ""
    why = could_not_run_reason(done) or done.reason or f"it ended with {done.exit_code}"
    return f"set-up command {command!r}: {why}: {(done.stderr or done.stdout)[-500:].strip()}"
