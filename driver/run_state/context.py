"""What the steps of one wave share. Frozen: steps return values, only the recorder remembers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Semaphore
from typing import Any, Protocol

from driver.backend_api.driver import AgentDriver
from driver.backends.recording import RecordingWriter
from driver.backlog.publication_status import PublishedItem, is_noted
from driver.domain.commit_message import item_name
from driver.domain.item_key import ItemKey, digest
from driver.domain.ownership import OwnedPath
from driver.domain.results import Evidence
from driver.domain.reviews import is_required
from driver.domain.tiers import Policy
from driver.domain.work_item import WorkItem
from driver.execution.cancellation import CancellationToken
from driver.execution.processes import Processes
from driver.limits.admission import Admission
from driver.limits.spending import Spending
from driver.pipeline.definition import CLASSIC, Phase, Pipeline
from driver.policy.protected_paths import Protection
from driver.run_state.leases import LeaseManager
from driver.run_state.recorder import Recorder
from driver.run_state.run_registry import run_mark
from driver.terminal.progress import Ask, Progress
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import RepositoryContext, Workspace
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.journal import safe_slug
from tools.settings.load import Settings

SHIP_MODES = ("branch", "current")


@dataclass(frozen=True)
class WaveOptions:
    """What a command line may ask for beyond `run_wave`'s own parameters. Changes of `own_paths`
    while the wave runs are nobody's fault: people edit the tracker at any time. `withdrawn` says,
    by id, why somebody wants items of these ids no more. `survey` is what the caller has found out
    already, and `plan` the plan that it has checked. Steps before `from_phase` are taken as done;
    `ask` lets a person decide on each step."""

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


@dataclass(frozen=True, slots=True)
class Home:
    """Where an item lives: a repository's top and the work folder in it, or a plain folder."""

    top: Path | None
    folder: Path
    work_dir: str

    @property
    def key(self) -> str:
        """Items with one key share one ground."""
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


@dataclass(frozen=True)
class Shipping:
    """Where verified work goes. `mode`: "branch" (a wave branch), "current" (on to the branch it
    started from) or "none"; `target` is that branch, None for what the settings say."""

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
        """Whether verified work goes anywhere at all."""
        return self.mode != "none"

    @property
    def onto_target(self) -> bool:
        """Whether it goes on to the branch that it started from."""
        return self.mode == "current"


@dataclass(frozen=True, slots=True)
class AssignedBackend:
    """Who does a phase. `gates` are the wave's where the wave's backend does it, else its own: that
    a reviewer's provider takes no work keeps nobody from building."""

    driver: AgentDriver
    gates: Admission
    model: str | None = None


class Baselines(Protocol):
    """The tests of a wave's items on their bases."""

    def begin(self, planned: Planned, wave: Wave) -> None:
        """Start the item's test on its base beside everything else, where that is wanted."""

    def of(self, planned: Planned, wave: Wave) -> Evidence:
        """How it ended, or why there is none; waits for its end."""

    def close(self, wave: Wave) -> None:
        """Start no further one, and wait for those at work."""


@dataclass(frozen=True)
class Wave:
    """One wave under way. `test_slots` bounds the tests of all its repositories and folders."""

    wave_id: str
    plan: tuple[Planned, ...]
    grounds: Mapping[str, RepositoryContext]
    driver: AgentDriver
    settings: Settings
    shipping: Shipping
    gates: Admission
    recorder: Recorder
    spending: Spending
    processes: Processes
    run_dir: Path
    options: WaveOptions
    baselines: Baselines
    test_slots: Semaphore
    state_dir: Path | None = None
    resume: bool = False
    reviewer: AssignedBackend | None = None
    performers: Mapping[str, AssignedBackend] = field(default_factory=dict)

    def performer(self, phase: Phase) -> AssignedBackend:
        """Who does an agent's phase."""
        found = self.performers.get(phase.backend_key) or AssignedBackend(self.driver, self.gates)
        return replace(found, model=phase.model or found.model)

    def reviewer_of(self, planned: Planned) -> AssignedBackend | None:
        """Who reads an item's work."""
        phase = planned.pipeline.review
        if phase is None or self.reviewer is None:
            return self.reviewer
        found = self.performers.get(phase.backend_key) or self.reviewer
        return replace(found, model=phase.model or found.model)

    def is_stepwise(self, planned: Planned) -> bool:
        """Whether each step is written down by itself: a pipeline of the user's own, or one that a
        person has a say in."""
        options = self.options
        return planned.pipeline.explicit or bool(options.ask or options.from_phase)

    def wants_review(self, planned: Planned) -> bool:
        """Whether the item may ship only when it was approved."""
        required, mode = planned.policy.require_review, self.settings.review.mode
        return is_required(required=required, mode=mode)

    @property
    def mark(self) -> str:
        """What all processes of this run have in their environment."""
        return run_mark(self.run_dir, self.wave_id)

    def ground_of(self, planned: Planned) -> RepositoryContext:
        """The repository or folder an item works on."""
        return self.grounds[planned.home.key]

    @property
    def repositories(self) -> dict[str, CloneContext]:
        """The contexts that are repositories, and not plain folders, by their key."""
        found = self.grounds.items()
        return {key: one for key, one in found if isinstance(one, CloneContext)}

    def repository_of(self, planned: Planned) -> CloneContext | None:
        """The repository an item works on; None in a plain folder."""
        return self.repositories.get(planned.home.key)

    def protection(self, planned: Planned) -> Protection:
        """Which files decide what the item's test means."""
        ground = self.ground_of(planned)
        return Protection(
            ground.paths,
            planned.item.test_command,
            planned.home.work_dir,
            self.settings.verify.protected,
            ground.text,
        )

    def subject(self, planned: Planned) -> ItemKey:
        """What journal, events and leases know the item by."""
        ground, item = self.ground_of(planned), planned.item
        # Another prompt, other files or another test make it other work, whatever its slug is.
        asked = (planned.home.work_dir, item.prompt, sorted(item.owns_files), item.test_command)
        steps = (planned.pipeline.config_hash,) if planned.pipeline.explicit else ()
        content, task = digest(ground.base, *asked, *steps), digest(item.item_id, *asked)
        return ItemKey(planned.slug, planned.home.key, item.repo, content, task)

    def knows(self, one: PublishedItem) -> bool:
        """Whether a shipment is of a wave of this state folder, or of one that the tracker names:
        who asks for its item once more knows what they ask for."""
        mine = (p.item for p in self.plan if item_name(p.item) == one.item)
        return self.recorder.knows(one.wave) or any(is_noted(i.extra, one.wave) for i in mine)

    def scratch(self, slug: str) -> Path:
        """The folder for everything that one item's agents and tests print, made when missing."""
        folder = self.scratch_path(slug)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch_path(self, slug: str) -> Path:
        """Where that folder is, or would be."""
        return self.run_dir / safe_slug(slug)


@dataclass(frozen=True, slots=True)
class Placed:
    """An item of a wave in its place."""

    planned: Planned
    place: Workspace
    wave: Wave
