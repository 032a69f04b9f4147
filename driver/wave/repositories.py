"""Opens the repositories and folders of a wave, and prepares workspaces in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.backend_api.driver import AgentDriver
from driver.backends.cli.local_driver import LocalDriver
from driver.checkout_guard.environment import EnvironmentFingerprint
from driver.checkout_guard.fingerprint import CheckoutFingerprint, CheckoutWatch
from driver.checkout_guard.guard import CheckoutGuard, is_own_write
from driver.domain.commit_message import pending_ref
from driver.domain.prompts import command_text
from driver.execution.cancellation import CancellationToken
from driver.execution.processes import Processes
from driver.git.private_git import (
    PrivateGit,
    Remote,
    Repository,
    commit_at,
    find_remote,
)
from driver.git.repository import read_from
from driver.git.signing import signer_of
from driver.git.user_hooks import copy_hooks
from driver.preparation.kept_places import KeptPlaces, folder_of
from driver.preparation.removal import finish_removals, remove_after_the_run
from driver.run_state.plan import Plan
from driver.test_command.invocations import programs
from driver.walls.wave_walls import Walls
from driver.workspace.base_branch import at_target
from driver.workspace.clone_context import CloneContext
from driver.workspace.in_place import InPlaceContext
from driver.workspace.partial_clones import PartialCloneContext
from driver.workspace.repository_context import RepositoryContext
from driver.workspace.root import workspace_root
from driver.workspace.run_folder import left_in, write_owner
from driver.workspace.setup import place_limits, preparation
from state_store.documents.errors import CannotRunError
from state_store.documents.journal import safe_slug
from state_store.values.lazy_dataclass import dataclass, replace
from tools.settings.load import Settings

_WIDTH = 8
_FEW_FILES = 3000  # with more files, an extra checkout takes longer than it saves


@dataclass(frozen=True, slots=True)
class SideProcesses:
    """The processes of a wave other than agents and tests: set-ups, and connections to a remote."""

    setups: Processes
    talks: Processes

    @classmethod
    def ending_with(
        cls, stop: CancellationToken, drivers: Sequence[AgentDriver], push_patience_s: float
    ) -> SideProcesses:
        """The side processes of a wave; they and the processes of `drivers` end when the wave
        stops. A halt lets a started push continue for `push_patience_s` seconds: after a cut-off
        push, nobody could know whether it arrived. One fork server starts all of them."""
        of_agents = (driver.processes for driver in drivers if isinstance(driver, LocalDriver))
        first = next(of_agents, None) or Processes()
        side = cls(first.with_same_fork_server(), first.with_same_fork_server())
        stop.on_set(side.setups.cancel)
        stop.on_set_patiently(side.talks.cancel, push_patience_s)
        for driver in drivers:
            stop.on_set(driver.cancel)
        return side


@dataclass(frozen=True, slots=True)
class RepositoryOpener:
    """Makes the repository contexts of a wave. `mark` is in the environment of its agents, `key` is
    the key of the marks of its tests and set-ups. Changes in or below the paths `ours` are
    attributed to no item. With `only_answers`, no agent reads more than its item owns."""

    plan: Plan
    settings: Settings
    side: SideProcesses
    mark: str
    key: str
    ours: tuple[Path, ...]
    walls: Walls
    only_answers: bool = False

    def for_agents_of(self, drivers: Sequence[AgentDriver]) -> RepositoryOpener:
        """The opener for a wave of these backends. One that reads more than an item owns is enough
        for whole clones, as any item may go on to it."""
        return replace(self, only_answers=all(driver.only_answers for driver in drivers))

    def open(
        self, cleanup: contextlib.ExitStack, places: contextlib.ExitStack
    ) -> dict[str, RepositoryContext]:
        """A context for each repository or folder, by its key. `places` closes and removes it,
        `cleanup` the rest. Raises CannotRunError if no workspaces can be made."""
        contexts: dict[str, RepositoryContext] = {}
        for home in {planned.home.key: planned.home for planned in self.plan.items}.values():
            context: RepositoryContext = (
                self._repository(home.top, cleanup, places)
                if home.top
                else InPlaceContext(home.folder)
            )
            places.callback(context.close)
            contexts[home.key] = context
        return contexts

    def _repository(
        self, top: Path, cleanup: contextlib.ExitStack, places: contextlib.ExitStack
    ) -> CloneContext:
        settings = self.settings
        checkout = self.plan.survey.opened_at(top)
        root = workspace_root(settings.workspace.root, settings.environ, checkout)
        try:
            root.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{safe_slug(self.mark)[:16]}-", dir=root))
        except OSError as trouble:
            why = f"no workspaces can be made in {root}: {trouble.strerror or trouble}"
            raise CannotRunError(f"{why}; name another folder as [workspace] root") from trouble
        for left in left_in(root):
            remove_after_the_run(left, settings.environ)
        finish_removals(root, settings.environ)
        made: list[CloneContext] = []
        places.callback(_remove, folder, made, settings.environ)
        write_owner(folder, self.mark, self.key, checkout)
        git = PrivateGit.create(folder / "private.git", checkout, settings.environ)
        theirs = self.plan.survey.settings_of(top)
        repository, remote = self._started_from(checkout, git, theirs, cleanup)
        if self.plan.target:
            write_owner(folder, self.mark, self.key, repository)
        objects = read_from(git.path / "objects")
        setups, walls = self.side.setups, self.walls
        prepare = preparation(settings, setups, self.key, checkout.top, walls, objects)
        guard = self._checkout_guard(checkout, folder, theirs)
        context = self._kind(folder, git, repository, prepare, remote, guard)
        context.configured = theirs
        made.append(context)
        if (limits := place_limits(settings)).places:
            kept = folder_of(root, checkout.top)
            context.warm.kept = KeptPlaces(kept, limits, self.mark, context.remove)
        here = sum(planned.home.top == top for planned in self.plan.items)
        context.hands_on = here > agents_at_once(settings)
        context.checkouts = context.pool(_trees_for(settings, len(context.paths)))
        context.signer = signer_of(repository, settings.environ, settings.ship.sign, theirs)
        if settings.ship.hooks == "run":
            context.hooks = copy_hooks(repository, git, settings.environ, folder / "hooks", theirs)
        return context

    @property
    def _kind(self) -> type[CloneContext]:
        """The steps of a pipeline of the user's own may read everything."""
        is_whole = not self.only_answers or any(one.pipeline.explicit for one in self.plan.items)
        return CloneContext if is_whole else PartialCloneContext

    def _started_from(
        self,
        repository: Repository,
        git: PrivateGit,
        theirs: Sequence[tuple[str, str]],
        cleanup: contextlib.ExitStack,
    ) -> tuple[Repository, Remote | None]:
        """The repository at the target branch, and the remote that this branch is pushed to."""
        environ, target = self.settings.environ, self.plan.target
        seen = replace(repository, branch=target) if target else repository
        remote = find_remote(seen, environ, self.settings.ship.remote, self.side.talks, theirs)
        if target is None:
            return repository, remote
        started = at_target(repository, git, remote, target)
        kept = pending_ref(started.head)
        if commit_at(repository, kept, environ):
            cleanup.callback(git.delete_ref, repository, started.head, kept)
        return started, remote

    def _checkout_guard(
        self, repository: Repository, folder: Path, theirs: Sequence[tuple[str, str]]
    ) -> CheckoutGuard:
        environ = self.settings.environ
        watch = CheckoutWatch(repository, environ, folder / "watch", self.ours, settings=theirs)
        around = EnvironmentFingerprint(
            folder, environ, may_install=self._may_install(), called=self._programs()
        )

        def look() -> CheckoutFingerprint:
            return CheckoutFingerprint({**watch.look().parts, **around.look()})

        places = (repository.top, repository.common_dir, folder)
        walled, ours = self.walls.keep_from(places), self.ours
        return CheckoutGuard(look, lambda name: is_own_write(repository.top, name, ours), walled)

    def _programs(self) -> set[str]:
        """The programs of the tests that are no files of the repository."""
        commands = (planned.item.test_command for planned in self.plan.items)
        called = {words[0] for command in commands for words in programs(command) if words}
        return {name for name in called if "/" not in name or Path(name).is_absolute()}

    def _may_install(self) -> bool:
        """True if Tidegate's own commands may change installed files outside all repositories."""
        tests = (command_text(planned.item.test_command) for planned in self.plan.items)
        return bool(self.settings.workspace.setup) or any("install" in test for test in tests)


def _remove(folder: Path, made: Sequence[CloneContext], environ: Mapping[str, str]) -> None:
    """Remove the folder of a run; the report does not wait for a large one."""
    if any(context.is_large for context in made):
        remove_after_the_run(folder, environ)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def agents_at_once(settings: Settings) -> int:
    """The number of items that may be at work at once."""
    return settings.limits.max_workers or _WIDTH


def parallel_tests(settings: Settings) -> int:
    """The number of tests that may run at once."""
    return settings.limits.max_parallel_tests or os.cpu_count() or 2


def _trees_for(settings: Settings, files: int) -> int:
    """The number of test checkouts. It is one more than the number of concurrent tests if a
    checkout is cheap: the next one is prepared while tests run."""
    tests, prepared = parallel_tests(settings), settings.workspace.setup or settings.workspace.copy
    return tests + (tests > 1 and not prepared and files <= _FEW_FILES)
