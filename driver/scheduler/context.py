"""The context of a cycle: tracker, repository, settings and backend, settled once.

Also builds a wave's request and its `git` argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.duck_typed import adapted
from driver.backends.registry import driver_of
from driver.backlog.index_reader import TrackerReader
from driver.backlog.item_filter import ItemFilter
from driver.backlog.tracker_index import TrackerIndex
from driver.git.repository import toplevel_of
from driver.run_state.plan import Shipping, WaveOptions
from driver.terminal.progress import Progress
from driver.wave.planning import WaveRequest
from driver.workspace.repository_info import RepositoryInfo
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.load import Settings, process_environment
from tools.settings.load import load as load_settings

CheckGates = Callable[[Path, Settings], None]
TOOL_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CycleRequest:
    """A request for a cycle; a None value comes from the settings or the current folder.
    `check_gates` are gates of the caller, beside our own; it raises GateClosedError."""

    tracker: Path
    max_items: int
    dry_run: bool = False
    driver: AgentDriver | None = None
    state_dir: Path | None = None
    options: WaveOptions | None = None
    record: Path | None = None
    item_filter: ItemFilter = field(default_factory=ItemFilter)
    check_gates: CheckGates | None = None


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
    repositories: RepositoryInfo
    record: Path | None = None
    item_filter: ItemFilter = field(default_factory=ItemFilter)
    check_gates: CheckGates | None = None
    reader: TrackerReader = field(default_factory=TrackerReader)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment the settings were read with."""
        return self.settings.environ

    def tracker_index(self) -> TrackerIndex:
        """The tracker as it is now. Raises InputError for one that cannot be read."""
        return self.reader.read(self.tracker, self.state_dir)

    @property
    def keeps(self) -> Path | None:
        """The folder for what is kept for later cycles; None in a dry run, which keeps nothing."""
        return None if self.dry_run else self.state_dir

    @property
    def progress(self) -> Progress:
        """The progress output for the user."""
        return (self.options or WaveOptions()).progress


def settled(request: CycleRequest) -> Cycle:
    """Fill in what the request leaves open. Raises InputError for bad settings."""
    options = request.options
    repo = options.repo if options else None
    if repo is None:
        repo = repository_in_sight((request.tracker.parent, Path.cwd()))
    project = repo or request.tracker.parent
    settings = (options and options.settings) or load_settings(project=project)
    return Cycle(
        tracker=request.tracker,
        max_items=request.max_items,
        dry_run=request.dry_run,
        driver=request.driver or driver_of(settings),
        state_dir=request.state_dir or settings.state_dir,
        repo=repo,
        settings=settings,
        options=options,
        repositories=RepositoryInfo(settings.environ),
        record=request.record,
        item_filter=request.item_filter,
        check_gates=request.check_gates,
    )


def repository_in_sight(folders: Iterable[Path]) -> Path | None:
    """The top of the first repository that contains one of `folders`; never the checkout that
    Tidegate itself runs from."""
    environ = process_environment()
    tops = (toplevel_of(folder, environ) for folder in folders)
    return next((top for top in tops if top and top.resolve() != TOOL_CHECKOUT), None)


def by_repository(
    cycle: Cycle, items: Iterable[Mapping[str, Any]]
) -> dict[Path, list[Mapping[str, Any]]]:
    """The items by the top of their repository, without those whose repository does not exist."""
    by_name: dict[str | None, list[Mapping[str, Any]]] = {}
    for item in items:
        by_name.setdefault(named_repo(item), []).append(item)
    found: dict[Path, list[Mapping[str, Any]]] = {}
    for named, mine in by_name.items():
        folder = Path(named) if named else cycle.repo
        top = cycle.repositories.top_of(folder) if folder and folder.is_absolute() else None
        if top is not None:
            found.setdefault(top, []).extend(mine)
    return found


def named_repo(item: Mapping[str, Any]) -> str | None:
    """The repository that an item, perhaps not validated yet, names."""
    named = item.get("repo")
    return named if isinstance(named, str) and named else None


def place_of(item: Mapping[str, Any], repo: Path | None) -> str | None:
    """The repository that an item is built in, `repo` if it names none, as leases and reports name
    it."""
    named = named_repo(item)
    folder = Path(named) if named else repo
    return os.path.realpath(folder) if folder else None


def wave_request(cycle: Cycle, manifest: Mapping[str, Any]) -> WaveRequest:
    """The wave that a cycle would start with `manifest`."""
    shipping = Shipping.from_git(git_of(cycle, manifest))
    driver, options = adapted(cycle.driver), wave_options(cycle)
    return WaveRequest(driver, manifest, cycle.state_dir, shipping, True, options)


def wave_options(cycle: Cycle) -> WaveOptions:
    """The caller's options, completed by the cycle's settings and repository."""
    options = cycle.options or WaveOptions()
    return replace(options, settings=cycle.settings, repo=cycle.repo, survey=cycle.repositories)


def git_of(cycle: Cycle, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The `git` argument of `run_wave`; items that all name their repositories are shipped there,
    wherever the cycle was started."""
    named = all(item.get("repo") for item in manifest["items"])
    expected = None if named or cycle.repo is None else str(cycle.repo)
    return {"expectTopLevel": expected, "mode": cycle.settings.ship.mode}
