"""Where items are built and proven: a repository with private clones, or a plain folder.

A ground gives each item a place. In a repository the agent gets a clone of its own and tests run
in proving trees that no agent ever sees. Plain folders are in `folder_ground`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

from driver.checkout_guard.guard import CheckoutGuard
from driver.domain.ownership import OwnedPath, leaves_tree
from driver.domain.results import MODE_LINK, Change
from driver.git.private_git import PrivateGit, Remote, Repository
from driver.git.signing import Signer
from driver.git.user_hooks import UserHooks
from driver.workspace.agent_clone import head_moved, left_behind, put_back_head
from driver.workspace.root import WorkspaceError
from driver.workspace.test_checkouts import TestCheckouts
from driver.workspace.workspace import Collected, Workspace, WorkspaceFactory

CLONE = "clone"
IN_PLACE = "in_place"
REPLACED = "objects of your repository were given another content (see `git fsck`): {}"


@dataclass(frozen=True, slots=True)
class Observed:
    """What is on disk after an agent ran, compared with the base; never what the agent says.

    `git_left` names the branches, tags, stashes and worktrees that it made in its clone, `ignored`
    the new files that git leaves out of commits, each with the rule, `unfiltered` files that would
    have to pass a filter program of git's.
    """

    changes: tuple[Change, ...]
    tree: str | None = None
    head_moved: str = ""
    git_left: tuple[str, ...] = ()
    links_outside: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unfiltered: tuple[str, ...] = ()


class ProvingPlace(Protocol):
    """A checkout of exactly one tree, for one test run."""

    path: Path

    def tampered(self) -> tuple[str, ...]:
        """Tracked paths that differ from the tree by now."""


class CheckoutPool(Protocol):
    """Where trees are tested."""

    def proving(
        self, tree: str | None, *, fresh: bool = False
    ) -> AbstractContextManager[ProvingPlace]:
        """A checkout of `tree` for a test; waits while all are in use. In a `fresh` one no test
        ever ran."""

    def base_with(self, changes: Sequence[Change]) -> str | None:
        """The base's tree with these changes and no other; None in place."""


class Place(CheckoutPool, Protocol):
    """One item's place. `top` holds the repository's files, `workdir` is where the agent runs."""

    isolation: str
    top: Path
    workdir: Path

    def observe(self) -> Observed:
        """Compare the files on disk with the base."""

    def ignored(self) -> tuple[str, ...]:
        """What of its own this place could never commit, as git leaves it out, with the rules."""

    def contents(self, change: Change) -> bytes:
        """The bytes of a changed file; empty for a deletion."""

    def patch(self, tree: str | None) -> bytes:
        """The difference of base and `tree`, as git prints it; empty in place."""

    def whole_diff(self, tree: str, since: str | None = None) -> bytes:
        """All that `tree` changes, of the base or of the tree `since`, as lines; empty in place."""

    def reading(self, tree: str) -> AbstractContextManager[ProvingPlace]:
        """A copy of `tree` for a reviewer, thrown away afterwards; the agent's is out of reach."""

    def put(self, tree: str) -> None:
        """Bring an earlier run's work into a place that nobody has worked in yet."""

    def forget_commits(self) -> None:
        """Put the agent's own branch back on the base, files left as they are. What else it left
        in its git dir has been told, and is not told again."""

    def close(self) -> None:
        """Remove what was made for this item."""


class RepositoryContext(Protocol):
    """Where a set of items lives. `base` is the commit they start from, "" in a plain folder;
    `paths` is every path in it; `tripwire` watches the user's own checkout, where it is another."""

    base: str
    tripwire: CheckoutGuard | None
    paths: frozenset[str]

    def place(self, slug: str, work_dir: str, owned: tuple[OwnedPath, ...]) -> Place:
        """Make an item's place."""

    def text(self, path: str) -> str:
        """The text of a file of the base; "" where there is none."""

    def close(self) -> None:
        """Remove what was made for the wave."""


class CloneContext:
    """A repository: private clones for agents, proving trees for tests."""

    def __init__(
        self,
        repository: Repository,
        git: PrivateGit,
        workshop: WorkspaceFactory,
        trees: TestCheckouts,
        remote: Remote | None,
        tripwire: CheckoutGuard,
    ) -> None:
        self.folder = workshop.root
        self.repository = repository
        self.git = git
        self.workshop = workshop
        self.trees = trees
        self.remote = remote
        self.base = repository.head
        self.base_tree = workshop.base_tree
        self.paths = workshop.tracked
        self.environ = git.environ
        self.tripwire: CheckoutGuard | None = tripwire
        self.hooks = UserHooks()
        self._texts: dict[str, str] = {}  # each item's test command asks for the same few
        self.signer: Signer | None = None
        self.moved_to = ""  # where we moved its branch ourselves, before anybody was at work

    def place(self, slug: str, work_dir: str, owned: tuple[OwnedPath, ...]) -> Place:
        """A private clone at the base commit, prepared."""
        return _ClonePlace(self, self.workshop.workspace(slug), work_dir, owned)

    @contextmanager
    def proving(self, tree: str | None, *, fresh: bool = False) -> Iterator[ProvingPlace]:
        """For work that has no place any more; see `CheckoutPool`."""
        if tree is None:
            raise ValueError("a repository's item is proven on a tree")
        with self.trees.checkout(tree, fresh=fresh) as proving:
            yield proving

    def base_with(self, changes: Sequence[Change]) -> str | None:
        """See `CheckoutPool`."""
        return self.git.tree_with(self.base_tree, changes)

    def replaced_objects(self) -> tuple[str, ...]:
        """Objects of the base that somebody gave another content since the wave began. Nothing is
        proven then: tests see what git reads, and others will get what the names stand for."""
        return self.git.replaced(self._held, self.repository.objects)

    def observed(self, tree: str) -> Observed:
        """What `Place.observe` would say of work that is a tree and nothing else any more."""
        self.require_objects()
        with self.trees.checkout(tree) as shown:
            there = Workspace(shown.path, shown.index, self.git, self.base_tree, tree, 0)
            return self.look_at(there, there.of_tree(tree))

    def look_at(self, there: Workspace, work: Collected) -> Observed:
        """What is to be seen of work where its files are, whoever made it."""
        changes = work.changes
        links = (c.path for c in changes if c.mode == MODE_LINK)
        new = [c.path for c in changes if c.base_mode is None]
        attributes = any(p.rpartition("/")[2] == ".gitattributes" for p in self.paths)
        return Observed(
            changes,
            work.tree,
            links_outside=tuple(path for path in links if leaves_tree(there.path, path)),
            ignored=_with_rules(there.ignored(new)),
            unfiltered=there.unfiltered(changes) if attributes and changes else (),
        )

    def require_objects(self) -> None:
        """Raise WorkspaceError where `replaced_objects` are found."""
        if replaced := self.replaced_objects():
            raise WorkspaceError(REPLACED.format(", ".join(replaced)))

    @functools.cached_property
    def _held(self) -> frozenset[str]:
        return self.git.objects_in(self.base_tree)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """Every folder of the base, each with a slash at its end."""
        return frozenset(
            f"{above}/" for path in self.paths for above in PurePosixPath(path).parents
        )

    def move_trees(self, commit: str) -> None:
        """Have tests run in places that were set up on another commit than the base."""
        self.trees.close()
        self.trees = self.workshop.at(commit).proving_trees(self.trees.size)

    def text(self, path: str) -> str:
        if path not in self.paths:
            return ""
        if path not in self._texts:
            blob = self.git.blob(f"{self.base_tree}:{path}")
            self._texts[path] = blob.decode("utf-8", "replace")
        return self._texts[path]

    def close(self) -> None:
        """Remove the proving trees."""
        self.trees.close()


class _ClonePlace:
    isolation = CLONE

    def __init__(
        self,
        ground: CloneContext,
        workspace: Workspace,
        work_dir: str,
        owned: tuple[OwnedPath, ...],
    ) -> None:
        self._ground = ground
        self._workspace = workspace
        self._owned = [path.path + ("/" if path.is_dir else "") for path in owned]
        self.top = workspace.path
        self.workdir = workspace.path / work_dir
        self._branch, self._told = ground.repository.branch, set[str]()
        self._patches: dict[str, bytes] = {}
        self._lock, self._hiding, self._away = threading.Lock(), 0, ExitStack()

    def observe(self) -> Observed:
        self._ground.require_objects()
        collected = self._workspace.collect(self._owned)
        self._patches = {collected.tree: collected.patch}
        return replace(
            self._ground.look_at(self._workspace, collected),
            head_moved=head_moved(self.top, self._ground.base, self._branch),
            git_left=tuple(name for name in self._git_left() if name not in self._told),
        )

    def ignored(self) -> tuple[str, ...]:
        if any(path.rpartition("/")[2] == ".gitignore" for path in self._owned):
            return ()  # the rules are the item's to change
        there = (self._ground.paths, self._ground.folders)
        unseen = [p for p in self._owned if not any(p in known for known in there)]
        return _with_rules(self._workspace.ignored(unseen))

    @contextmanager
    def proving(self, tree: str | None, *, fresh: bool = False) -> Iterator[ProvingPlace]:
        with self._ground.proving(tree, fresh=fresh) as proving, self._hidden():
            yield proving

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """The workspace out of reach of any number of tests at once."""
        with self._lock:
            self._hiding += 1
            if self._hiding == 1:
                self._away.enter_context(self._workspace.out_of_reach())
        try:
            yield
        finally:
            with self._lock:
                self._hiding -= 1
                if not self._hiding:
                    self._away.close()

    def base_with(self, changes: Sequence[Change]) -> str | None:
        return self._ground.base_with(changes)

    def contents(self, change: Change) -> bytes:
        return self._ground.git.blob(change.blob) if change.blob else b""

    def patch(self, tree: str | None) -> bytes:
        if tree is None:
            return b""
        made = self._patches.pop(tree, None)  # asked for once at once, and it may be large
        return self._ground.git.patch(self._ground.base_tree, tree) if made is None else made

    def whole_diff(self, tree: str, since: str | None = None) -> bytes:
        return self._ground.git.whole_diff(since or self._ground.base_tree, tree)

    @contextmanager
    def reading(self, tree: str) -> Iterator[ProvingPlace]:
        name = self._workspace.path.name
        with self._ground.workshop.reading_copy(name, tree) as copy, self._hidden():
            yield copy

    def put(self, tree: str) -> None:
        self._workspace.put(tree)

    def forget_commits(self) -> None:
        self._told |= set(self._git_left())
        put_back_head(self.top, self._ground.base, self._branch)

    def _git_left(self) -> tuple[str, ...]:
        return left_behind(self.top, self._branch)

    def close(self) -> None:
        self._workspace.remove()


def _with_rules(ignored: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{path} ({rule})" for path, rule in ignored.items())
