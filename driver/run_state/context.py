"""The wave under way, and each of its items in it: shared by all steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from driver.backend_api.driver import AgentDriver
from driver.backlog.publication_status import PublishedItem, is_noted
from driver.checkout_guard.fingerprint import STATE
from driver.checkout_guard.guard import CheckoutChange
from driver.checkout_guard.home_settings import HomeSettings
from driver.domain.commit_message import item_name
from driver.domain.item_key import ItemKey, digest
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import RESUME, Attempt, Evidence, ItemOutcome, TestRun, Verdict
from driver.domain.reviews import Review, is_required
from driver.execution.processes import Processes
from driver.limits.admission import Admission
from driver.limits.spending import Spending
from driver.pipeline.definition import Phase
from driver.policy.protected_paths import Protection
from driver.run_state.plan import Planned, Shipping, WaveOptions
from driver.run_state.recorder import Recorder
from driver.run_state.run_registry import run_mark
from driver.run_state.test_turns import TestTurns
from driver.walls.roles import Places
from driver.walls.wave_walls import NO_WALLS, Walls
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import (
    CLONE,
    IN_PLACE,
    RepositoryContext,
    Workspace,
)
from state_store.documents.errors import TidegateError
from state_store.documents.journal import safe_slug
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.load import Settings


@dataclass(frozen=True, slots=True)
class AssignedBackend:
    """The backend that does a phase. `gates` are the wave's for the wave's backend, else its own: a
    reviewer's provider that takes no work keeps no agent from building."""

    driver: AgentDriver
    gates: Admission
    model: str | None = None


class Baselines(Protocol):
    """The tests of a wave's items on their bases."""

    def begin(self, item: ItemRun) -> None:
        """Start the item's test on its base in the background, where that is wanted."""

    def of(self, item: ItemRun) -> Evidence:
        """The result, or the reason why there is none; waits for its end."""

    def close(self) -> None:
        """Start no further one, and wait for those at work."""


class Readiness(Protocol):
    """The questions that are asked before an agent is paid."""

    def begin(self, item: ItemRun) -> None:
        """Start to ask for the item in the background."""

    def of(self, item: ItemRun) -> str:
        """The reason why the item's test cannot test its work, "" for none; waits for it."""


class Ahead(Protocol):
    """The runs that a batch will need, while its last items are still at work."""

    def retract(self, item: ItemRun) -> None:
        """An agent goes on with the item's work."""

    def offer(self, item: ItemRun) -> None:
        """The item has work that only its tests may still refuse."""

    def settle(self, item: ItemRun, outcome: ItemOutcome) -> None:
        """The item has its verdict."""

    def take(self, context: CloneContext, key: tuple[str, Any]) -> TestRun | None:
        """The run of a test on a tree, None without one; waits for it if it has begun."""

    def stop(self) -> None:
        """Begin no more runs."""

    def close(self) -> None:
        """Begin no more runs, and wait for those at work."""


class Handover:
    """Work goes nowhere: no other machine shares the store."""

    def offer(self, item: ItemRun, tree: str | None) -> None:
        """A step of the item is recorded, and its work is `tree` now, if it has any."""

    def inherit(self, item: ItemRun, ref: str) -> None:
        """An earlier run put the item's work at a ref of the remote."""

    def close(self, wave: Wave) -> None:
        """Bring what still waits to its place."""


@dataclass(frozen=True)
class Wave:
    """The wave under way. `key` is the key of the marks of its tests and set-ups (`process_marks`).
    `turns` decides which tests run at the same time, in all its repositories and folders."""

    wave_id: str
    plan: tuple[Planned, ...]
    contexts: Mapping[str, RepositoryContext]
    driver: AgentDriver
    settings: Settings
    shipping: Shipping
    gates: Admission
    recorder: Recorder
    spending: Spending
    processes: Processes
    state_dir: Path
    run_dir: Path
    options: WaveOptions
    baselines: Baselines
    readiness: Readiness
    ahead: Ahead
    key: str
    turns: TestTurns
    home: HomeSettings
    walls: Walls = NO_WALLS
    handover: Handover = field(default_factory=Handover)
    resume: bool = False
    reviewer: AssignedBackend | None = None
    phase_backends: Mapping[str, AssignedBackend] = field(default_factory=dict)

    @cached_property
    def items(self) -> tuple[ItemRun, ...]:
        """The items of the plan in this run."""
        return tuple(ItemRun(planned, self) for planned in self.plan)

    def backend_of(self, phase: Phase) -> AssignedBackend:
        """The backend that does an agent's phase."""
        found = self.phase_backends.get(phase.backend_key) or AssignedBackend(
            self.driver, self.gates
        )
        return replace(found, model=phase.model or found.model)

    @property
    def repositories(self) -> dict[str, CloneContext]:
        """The contexts that are repositories, and not plain folders, by their key."""
        found = self.contexts.items()
        return {key: one for key, one in found if isinstance(one, CloneContext)}

    def places(self, top: Path) -> Places:
        """The places of a command in a clone or checkout at `top`."""
        owner = self._owner(top)
        return owner.places(top) if owner else Places(top)

    def base_tree(self, top: Path) -> str:
        """The tree of the base of a clone or checkout at `top`; "" for a plain folder."""
        owner = self._owner(top)
        return owner.base_tree if owner else ""

    def _owner(self, top: Path) -> CloneContext | None:
        contexts = self.repositories.values()
        return next((one for one in contexts if top.is_relative_to(one.folder)), None)

    @property
    def mark(self) -> str:
        """The mark that all agents of this run have in their environment."""
        return run_mark(self.run_dir, self.wave_id)

    def knows(self, one: PublishedItem) -> bool:
        """True if a shipment is of a wave of this state folder, or of one that the tracker names: a
        person who asks for its item again has seen that."""
        mine = (p.item for p in self.plan if item_name(p.item) == one.item)
        return self.recorder.knows(one.wave) or any(is_noted(i.extra, one.wave) for i in mine)

    def scratch(self, name: str) -> Path:
        """The folder for everything that one item's agents and tests print, made when missing."""
        folder = self.scratch_path(name)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch_path(self, name: str) -> Path:
        """The path of that folder, which may be missing."""
        return self.run_dir / safe_slug(name)


@dataclass(eq=False)
class ItemRun:
    """An item in this run: its plan, its wave, and what was done for it so far.

    `attempts`, `reviews` and `phases` grow while the item runs, and are read as well when the wave
    is stopped in the middle of it; `started` are phase and number of the agent that was asked last,
    reviewers left out. `at_limit` counts, by role, the agents that a limit ended. `workspace` may
    be asked for only while `in_workspace` is open.
    """

    planned: Planned
    wave: Wave
    attempts: list[Attempt] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    phases: list[PhaseReceipt] = field(default_factory=list)

    started: tuple[str, int] | None = None
    at_limit: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.slug = self.planned.slug
        self.spec = self.planned.item
        self.pipeline = self.planned.pipeline
        self.work_dir = self.planned.home.work_dir
        self.context = self.wave.contexts[self.planned.home.key]
        self.repository = self.wave.repositories.get(self.planned.home.key)
        self._workspace: Workspace | None = None

    @cached_property
    def key(self) -> ItemKey:
        """The name of the item in journal, events and leases."""
        # Another prompt, other files or another test make it other work, whatever its slug is.
        spec = self.spec
        asked = (self.work_dir, spec.prompt, sorted(spec.owns_files), spec.test_command)
        steps = (self.pipeline.config_hash,) if self.pipeline.explicit else ()
        content = digest(self.context.base, *asked, *steps)
        task = digest(spec.item_id, *asked)
        return ItemKey(self.slug, self.planned.home.key, spec.repo, content, task)

    @property
    def workspace(self) -> Workspace:
        """The files that the item's agents work on."""
        if self._workspace is None:
            raise AssertionError(f"{self.slug} has no workspace at this time")
        return self._workspace

    @property
    def open_workspace(self) -> Workspace | None:
        """The workspace, for other threads; None before and after the item's work."""
        return self._workspace

    @contextmanager
    def in_workspace(self) -> Iterator[Workspace]:
        """A new workspace at the base commit, removed when the block ends."""
        self._workspace = self.context.workspace(self.slug, self.work_dir, self.planned.owned)
        try:
            yield self._workspace
        finally:
            # Files of another user, for example of a container, may stay. The work is not at fault.
            try:
                self._workspace.close()
            except TidegateError as stays:
                self.say(str(stays))

    @contextmanager
    def guarded(self) -> Iterator[Callable[[], tuple[CheckoutChange, ...]]]:
        """Note that the item is at work until the block ends. The value names what changed in the
        user's checkout and may be the item's doing."""
        guard = self.context.checkout_guard
        if guard is None:
            yield tuple
            return

        def changes() -> tuple[CheckoutChange, ...]:
            if entry := self.wave.recorder.restored_entry(self.key):
                guard.report(f"{STATE}{entry.parent.name}/{entry.name}")
            return guard.changes_of(self.slug)

        with guard.guarded(self.slug, self.planned.owned):
            yield changes

    @property
    def scratch(self) -> Path:
        """The folder for everything that its agents and tests print, made when missing."""
        return self.wave.scratch(self.slug)

    @property
    def scratch_path(self) -> Path:
        """The path of that folder, which may be missing."""
        return self.wave.scratch_path(self.slug)

    @property
    def protection(self) -> Protection:
        """The files that decide what the item's test means."""
        return Protection(
            self.context.paths,
            self.spec.test_command,
            self.work_dir,
            self.wave.settings.verify.protected,
            self.context.text,
            self.wave.settings.workspace.setup,
        )

    @property
    def shows_phases(self) -> bool:
        """True if phases are shown by their names: in a pipeline of the user's own, or if the user
        is asked about each or names the first."""
        options = self.wave.options
        return self.pipeline.explicit or bool(options.ask or options.from_phase)

    @property
    def wants_review(self) -> bool:
        """True if the work counts only after an approval. Work in place cannot ship, so its
        backend's tier alone asks for none."""
        required = self.planned.policy.require_review and self.planned.home.top is not None
        return is_required(required=required, mode=self.wave.settings.review.mode)

    @property
    def reviewer(self) -> AssignedBackend | None:
        """The backend that reviews the item's work."""
        phase, general = self.pipeline.review, self.wave.reviewer
        if phase is None or general is None:
            return general
        found = self.wave.phase_backends.get(phase.backend_key) or general
        return replace(found, model=phase.model or found.model)

    def say(self, text: str, *, passing: bool = False) -> None:
        """Show people a line about the item; a live screen leaves out `passing` lines."""
        self.wave.recorder.say(f"{self.slug}: {text}", passing=passing)

    def outcome(self, verdict: Verdict, reason: str) -> ItemOutcome:
        """The item's outcome after what was done so far, with a verdict that may be another than
        that of its last attempt."""
        last = self.attempts[-1] if self.attempts else None
        return ItemOutcome(
            slug=self.slug,
            verdict=verdict,
            reason=reason,
            attempts=tuple(self.attempts),
            reviews=tuple(self.reviews),
            phases=tuple(self.phases),
            tree=last.tree if last else None,
            changes=last.changes if last else (),
            isolation=CLONE if self.planned.home.top else IN_PLACE,
            resumed=bool(last and self.attempts[0].phase == RESUME and len(self.attempts) == 1),
        )

    def settle(self, outcome: ItemOutcome) -> ItemOutcome:
        """Report and journal a verdict that is not that of the last attempt."""
        self.wave.recorder.settled(self.key, outcome)
        return outcome
