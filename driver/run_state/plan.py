"""The request of a wave: its options, its planned items, and where their work goes. Data only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driver.domain.ownership import OwnedPath
from driver.domain.prompts import command_text, in_sequence
from driver.domain.results import TestName
from driver.domain.tiers import Policy
from driver.domain.work_item import WorkItem
from driver.execution.cancellation import CancellationToken
from driver.limits.admission import CheckCeiling
from driver.pipeline.definition import CLASSIC, Pipeline
from driver.terminal.progress import Ask, Progress
from driver.workspace.repository_info import RepositoryInfo
from state_store.values.lazy_dataclass import dataclass, field
from tools.settings.load import Settings

if TYPE_CHECKING:  # a dry run needs neither
    from driver.backends.recording import RecordingWriter
    from driver.run_state.leases import LeaseManager

SHIP_MODES = ("branch", "current")


@dataclass(frozen=True)
class WaveOptions:
    """The options of a command line beyond `run_wave`'s own parameters. Changes of `own_paths`
    while the wave runs are nobody's fault: people edit the tracker at any time. `withdrawn` says,
    by id, why the user wants items of these ids no more. `survey` is what the caller has found out
    already, and `plan` the plan that it has checked. Steps before `from_phase` are taken as done;
    `ask` lets a person decide on each step. `check_ceiling` stands in for `cost_ceiling.check`.
    `queued` is the number of open items that stay for later waves; None if unknown. `clean_up` gets
    the removal of the wave's places, for which no report need wait; None to wait for it."""

    settings: Settings | None = None
    repo: Path | None = None
    recording: RecordingWriter | None = None
    progress: Progress = field(default_factory=lambda: Progress(None))
    stop: CancellationToken = field(default_factory=CancellationToken)
    leases: LeaseManager | None = None
    own_paths: tuple[Path, ...] = ()
    withdrawn: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}
    survey: RepositoryInfo | None = None
    from_phase: str | None = None
    ask: Ask | None = None
    plan: Plan | None = None
    check_ceiling: CheckCeiling | None = None
    queued: int | None = None
    clean_up: ExitStack | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """The location of an item: a repository's top and the work folder in it, or a plain folder."""

    top: Path | None
    folder: Path
    work_dir: str

    @property
    def key(self) -> str:
        """Items with one key share one repository context."""
        return str(self.top or self.folder)


@dataclass(frozen=True, slots=True)
class Planned:
    """An item that passed preflight. `owned` is relative to the repository's top, or in place to
    the work folder. `prompt_files` are its pipeline's as they were committed then."""

    item: WorkItem
    policy: Policy
    home: Home
    owned: tuple[OwnedPath, ...]
    pipeline: Pipeline = CLASSIC
    prompt_files: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def slug(self) -> str:
        """The item's name in every report."""
        return self.item.slug


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that passed the pre-flight. `target` is the branch to start from, None for the one
    that is checked out."""

    items: tuple[Planned, ...]
    settings: Settings
    survey: RepositoryInfo
    target: str | None

    @property
    def tops(self) -> set[Path]:
        """The repositories of its items."""
        return {planned.home.top for planned in self.items if planned.home.top}


def needs_of(plan: Plan) -> dict[TestName, frozenset[str]]:
    """The resources of each test of the wave, gates included: those of all items that have it. The
    commands of `[verify] integration` belong to no item, and need all that have a name there."""
    verify, found = plan.settings.verify, dict[TestName, frozenset[str]]()
    every = verify.exclusive if isinstance(verify.exclusive, tuple) else ()
    asked = [(".", command, every) for command in verify.integration]
    for planned in plan.items:
        gates, work_dir = planned.pipeline.commands, planned.home.work_dir
        commands = (planned.item.test_command, *gates, *([in_sequence(gates)] if gates else []))
        asked += [(work_dir, command, planned.item.needs or ()) for command in commands]
    for work_dir, command, needs in asked:
        name = work_dir, command_text(command)
        found[name] = found.get(name, frozenset()).union(needs)
    return {name: needs for name, needs in found.items() if needs}


@dataclass(frozen=True)
class Shipping:
    """The destination of verified work. `mode` is "branch" (a wave branch), "current" (on to the
    branch it started from) or "none"; `target` is that branch, None for what the settings say."""

    mode: str
    expect_top: str | None = None
    target: str | None = None

    @classmethod
    def from_git(cls, git: Mapping[str, Any] | None) -> Shipping:
        """From `run_wave`'s `git`: None ships nothing, and without a mode it is the source's."""
        if git is None:
            return cls("none")
        expected, target = git.get("expectTopLevel") or None, git.get("target") or None
        return cls(str(git.get("mode", "current")), expected, target)

    @property
    def is_wanted(self) -> bool:
        """True if verified work is to be shipped."""
        return self.mode != "none"

    @property
    def onto_target(self) -> bool:
        """True if it goes on to the branch that it started from."""
        return self.mode == "current"
