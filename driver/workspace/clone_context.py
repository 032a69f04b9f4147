"""A repository's context: makes private clones for agents at one commit, and checkouts for tests.
Both get the copied paths and the set-up of the settings: a clone on the base, a checkout on the
tree under test. No agent ever sees a test checkout."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from driver.checkout_guard.guard import CheckoutGuard
from driver.domain.ownership import OwnedPath
from driver.domain.results import MODE_FILE, MODE_PROGRAM, Change
from driver.execution.worker_pool import Turns
from driver.filesystem.clock import notes_all_changes
from driver.filesystem.tree import (
    newest_ns,
    remove_tree,
    renew_change_times,
    signature_of,
    snapshot,
)
from driver.git.private_git import PrivateGit, Remote, Repository
from driver.git.repository import borrow_objects, read_from, replace_in_refs
from driver.preparation.kept_copies import KeptCopies, LaidCopy
from driver.preparation.layered_copies import LayeredCopy
from driver.preparation.removal import Removal
from driver.preparation.setup_reads import SetupKey, SetupReads
from driver.preparation.stat_listing import StatListing
from driver.preparation.warm_places import AGENTS, REVIEWS, TESTS, WarmPlaces
from driver.walls.roles import Places
from driver.workspace import setup
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.own_git import OwnGit, exclude, put_index
from driver.workspace.repository_context import GitContext, Observed, TestCheckout
from driver.workspace.root import all_or_nothing, own_folder
from driver.workspace.setup import Preparation, SetupError, check_copies
from driver.workspace.test_checkouts import TestCheckouts, TreeCheckout
from state_store.documents.journal import safe_slug

_FEW_FILES = 3000  # so many are removed sooner than a program is started for it
_MOST_REVIEWS = 256  # at once


class CloneContext(GitContext):
    """Workspaces and test checkouts of one repository at its head, in the folder `folder`. Raises
    InputError for `copy` paths that are missing, tracked or outside the checkout, and
    WorkspaceError if `folder` cannot be used. Safe to use from many threads."""

    def __init__(
        self,
        folder: Path,
        git: PrivateGit,
        repository: Repository,
        prepare: Preparation,
        remote: Remote | None = None,
        checkout_guard: CheckoutGuard | None = None,
    ) -> None:
        super().__init__(git, repository, remote)
        self.folder = folder
        self.hands_on = False  # copies of an agent's clone to the next one
        self.checkout_guard = checkout_guard
        self._prepare = prepare
        self.objects = read_from(git.path / "objects")
        self._own_git = OwnGit(git, repository)
        self.leftovers = prepare.leftovers
        # If all clones were written at once, all would be ready late, and no agent could start
        # early.
        self._writing = Turns(os.cpu_count() or 2)
        check_copies(repository.top, prepare.copy, self.paths)
        self._removal = Removal(folder / "removed", git.environ)
        self._reads = SetupReads(prepare.setup, prepare.reads, self.paths, self.text)
        self._changes = dict[str, tuple[Change, ...]]()
        own_folder(folder, git.environ)
        by_content = self._by_content = not notes_all_changes(folder / "probe")
        self._copies = KeptCopies(
            repository.top, prepare.copy, git.environ, folder / "copies", by_content=by_content
        )
        self._layered = setup.layered(self._copies, folder / "layers", prepare)
        for name in ("items", "proving", "reading", "indexes"):
            (folder / name).mkdir(exist_ok=True)
        files, place = lambda tree: self.files_in(self._changed_from_base(tree)), folder / "warm"
        self.warm = WarmPlaces(git, place, files, self.remove, by_content=by_content)
        self.checkouts = self.pool(1)
        self._reviewed = TestCheckouts(_MOST_REVIEWS, self._make_reading_copy, self._renew_git)

    def pool(self, size: int) -> TestCheckouts:
        """A pool of at most `size` test checkouts, each made on first use."""
        return TestCheckouts(size, self._make_checkout, self._renew_git, self.setup_key)

    def setup_key(self, tree: str) -> SetupKey:
        """The files of a tree that its set-up uses, or that lie in copied folders, and the base
        does not have so."""
        prepare = self._prepare
        if tree in ("", self.base_tree) or not (prepare.setup or prepare.copy):
            return frozenset()
        changes = self._changed_from_base(tree)
        copied = {(c.path, c.mode, c.blob) for c in changes if self._copies.holds(c.path)}
        return self._reads.key(changes) | copied

    def _changed_from_base(self, tree: str) -> tuple[Change, ...]:
        if tree not in self._changes:
            self._changes[tree] = self.git.changes(self.base_tree, tree)
        return self._changes[tree]

    def move_checkouts(self, commit: str) -> None:
        """Run tests in checkouts that were set up on the commit `commit` instead of the base."""
        size = self.checkouts.size
        self.checkouts.close()
        folder = self.folder / f"at-{commit[:12]}"
        moved = CloneContext(folder, self.git, replace(self.repository, head=commit), self._prepare)
        moved.warm.kept, moved._layered = self.warm.kept, self._layered
        self.checkouts = moved.pool(size)

    def workspace(
        self, slug: str, work_dir: str = "", owned: Sequence[OwnedPath] = ()
    ) -> CloneWorkspace:
        name = safe_slug(slug)  # an item may be called ../../home, and its folder is removed later
        top, index = self.folder / "items" / name, self.folder / "indexes" / name
        ignored, own = partial(self.git.ignored, top, index), [one.path for one in owned]
        lay = partial(self._layered.lay_for_agent, own, ignored, hands_on=self.hands_on)
        environment, kept, _ = self._furnish(top, index, self.base_tree, self.paths, lay, AGENTS)
        exclude(top)
        made = CloneWorkspace(self, top, index, work_dir, owned)
        made.kept = kept
        made.environment, made.beside = environment, setup.environment_at(top)
        if self._starts_dirty or (self._prepare.copy and not isinstance(kept, LayeredCopy)):
            # Before the start tree is collected, which takes longer than a tick of the clock.
            tick = index.with_suffix(".tick")
            tick.write_bytes(b"")  # gets the current time of the file system
            started_ns = newest_ns(tick.stat())
            tick.unlink()
            made.collect_start(started_ns)
            put_index(top, index)
        return made

    @contextlib.contextmanager
    def test_checkout(self, tree: str | None, *, fresh: bool = False) -> Iterator[TreeCheckout]:
        if tree is None:
            raise ValueError("a repository's item is proven on a tree")
        with self.checkouts.checkout(tree, fresh=fresh) as checkout:
            yield checkout

    @contextlib.contextmanager
    def reading_copy(self, tree: str) -> Iterator[TreeCheckout]:
        """A checkout of `tree` to read, with the base as its HEAD. No set-up runs in it, and no
        test. Raises WorkspaceError if it cannot be made."""
        with self._reviewed.checkout(tree) as copy:
            yield copy

    def observed(self, tree: str) -> Observed:
        """The result of `Workspace.observe` for work that exists only as a tree."""
        self.require_objects()
        with self.checkouts.checkout(tree) as shown:
            there = CloneWorkspace(self, shown.path, shown.index)
            return there.seen(there.collected_as(tree))

    def wait_for_clones(self) -> None:
        """Wait until no clone is being written, so that agents can start first."""
        self._writing.wait_until_none()

    def changed_sources(self) -> tuple[str, ...]:
        """The `copy` paths that changed since this context was made, so that checkouts now
        differ."""
        return self._copies.changed()

    def show_as_staged(self, checkout: TreeCheckout, commit: str, branch: str | None) -> None:
        """Give a test checkout a `.git` with `branch` at `commit`, until it shows another tree. Git
        then reports every difference from the commit as staged."""
        self._own_git.lay(checkout.path, checkout.index, head=commit, branch=branch)
        # A test may read the staged objects, which are only in Tidegate's private git dir.
        borrow_objects(checkout.path / ".git", self.repository, self.git.path / "objects")

    def show_as_tracked(
        self, checkout: TestCheckout, path: str, *, committed: bool, changed: Sequence[str] = ()
    ) -> None:
        top, own = checkout.path, checkout.path / ".git"
        if committed:
            mode = MODE_PROGRAM if os.access(top / path, os.X_OK) else MODE_FILE
            content = (top / path).read_bytes()
            head = self.git.commit_like(self.base_text, self.listed, path, mode, content)
            replace_in_refs(own, self.base, head)
        there = renew_change_times(top, changed)
        self.git.stage(top, own / "index", [path, *there])

    def lay_git(self, path: Path, index: Path) -> None:
        self._own_git.lay(path, index, head=self.base, branch=self.repository.branch)
        exclude(path)

    def close(self) -> None:
        self.checkouts.close()
        self._reviewed.close()
        self.warm.finish()
        self._removal.stop()

    @property
    def is_large(self) -> bool:
        """True if clones and checkouts are likely to have thousands of files."""
        files = len(self.paths) + self._copies.size
        return bool(self._prepare.setup) or files > _FEW_FILES

    @property
    def _starts_dirty(self) -> bool:
        """True if a prepared clone may differ from the base, by set-up or by line-end
        attributes."""
        return bool(self._prepare.setup or self.has_attributes)

    def _make_checkout(self, number: int, tree: str) -> TreeCheckout:
        """A checkout with the set-up of `tree`, made on the base if the base has the same. Raises
        WorkSetupError if the set-up fails on `tree` twice, but not on the base."""
        if not self._prepare.setup and not self.setup_key(tree) and self._copies.may_move:
            return self._without_setup(number, tree)
        if not self.setup_key(tree):
            return self._set_up(number, self.base_tree)
        try:
            return self._set_up(number, tree)
        except SetupError as failed:
            # Raises the base's error if the project cannot be set up at all.
            self._set_up(number, self.base_tree).discard()
            try:
                return self._set_up(number, tree)
            except SetupError:
                raise failed.of_the_work() from None

    def _without_setup(self, number: int, tree: str) -> TreeCheckout:
        path, index = self._new_place(number)
        _, kept, printed = self._furnish(path, index, tree, (), self._layered.lay_for_test, TESTS)
        made = self._unused(path, index, tree, printed if kept is None else None, kept)
        # Its `.git` is as `show_as_staged` makes one, and nothing has run here yet.
        borrow_objects(path / ".git", self.repository, self.git.path / "objects")
        made.git_dir = snapshot(path / ".git")
        return made

    def _make_reading_copy(self, number: int, tree: str) -> TreeCheckout:
        path, index = self._new_place(number, "reading")
        with all_or_nothing(path), self._writing:
            remove_tree(path)
            printed = self.warm.lay(tree, path, index, REVIEWS)
            return self._unused(path, index, tree, printed, None)

    def _unused(
        self, path: Path, index: Path, tree: str, printed: bytes | None, kept: LaidCopy | None
    ) -> TreeCheckout:
        """A checkout that shows `tree`, in which nothing has run. `printed` lists it, if known."""
        listing = self._listing(path, (".git", *(self._copies.names if kept else ())))
        seen = listing.look_at(printed) if printed is not None else listing.look()
        shown = "" if self.has_attributes else tree
        made = TreeCheckout(path, index, self.git, listing, {}, seen, shown=shown, kept=kept)
        made.remove, made.warm, made.is_new = self.remove, self.warm, True
        return made

    def _set_up(self, number: int, tree: str) -> TreeCheckout:
        path, index = self._new_place(number)
        changes = self._changed_from_base(tree)
        paths = self.paths.union(c.path for c in changes) - {c.path for c in changes if c.deleted}
        folders = self.folders | {str(up) for c in changes for up in PurePosixPath(c.path).parents}

        def lay(place: Path) -> None:
            self._copies.copy_to(place)
            if any(map(self._copies.holds, (c.path for c in changes))):
                self.git.switch(tree, place, index)  # the tree's own files there go first
                put_index(place, index)

        environment, *_ = self._furnish(path, index, tree, paths, lay, TESTS)
        for folder in folders:
            # Compiled from the tree's files. If size and second equal those of the next tree,
            # Python would run this tree's code instead.
            remove_tree(path / folder / "__pycache__")
        listing = self._listing(path)
        seen = listing.look()
        known = paths | folders
        products = {name: signature for name, signature in seen.items() if name not in known}
        self._reads.learn_products(products)
        return TreeCheckout(
            path,
            index,
            self.git,
            listing,
            products,
            seen,
            made_for=tree,
            beside=beside if (beside := setup.environment_at(path)).is_dir() else None,
            environment=environment,
            remove=self.remove,
            warm=self.warm,
        )

    def _listing(self, path: Path, without: tuple[str, ...] = (".git",)) -> StatListing:
        files = len(self.listed)
        return StatListing(path, without=without, expected=files, by_content=self._by_content)

    def _new_place(self, number: int, kind: str = "proving") -> tuple[Path, Path]:
        return self.folder / kind / str(number), self.folder / "indexes" / f"{kind}-{number}.index"

    def places(self, top: Path) -> Places:
        """The places of a command in the clone or checkout at `top`."""
        return replace(setup.places_at(top, self.objects), layers=self._layered.at(top))

    def keep(self, folder: Path) -> bool:
        return self.warm.keep(folder)

    def remove(self, folder: Path) -> None:
        self.warm.forget(folder)
        if self.is_large:
            self._removal.remove(folder)
        else:
            remove_tree(folder)

    def _furnish(
        self,
        path: Path,
        index: Path,
        tree: str,
        tracked: Iterable[str],
        lay: Callable[[Path], LaidCopy | None],
        kind: str,
    ) -> tuple[dict[str, str], LaidCopy | None, bytes | None]:
        """Write `tree`, the copied paths with `lay`, and a `.git` to `path`, and run the set-up
        there. Returns the variables for programs in this folder, what `lay` returned, and how
        `find` lists the tree, if that is known."""
        with all_or_nothing(path):
            with self._writing:
                remove_tree(path)
                printed = self.warm.lay(tree, path, index, kind)
                self._own_git.lay(path, index, head=self.base, branch=self.repository.branch)
                if tree != self.base_tree:
                    borrow_objects(path / ".git", self.repository, self.git.path / "objects")
                # Also in turns: many at once would make the disk slow for all.
                kept = lay(path) if self._prepare.copy else None
            environment = dict[str, str]()
            if self._prepare.setup:
                environment = setup.set_up(self._prepare, self._reads, path, index, tracked)
            return environment, kept, printed

    def _renew_git(self, checkout: TreeCheckout) -> None:
        """Give a test checkout a `.git` that no test has written, with the index of the tree."""
        own = checkout.path / ".git"
        with contextlib.suppress(OSError):
            same = not self._by_content and not own.is_symlink()
            if same and snapshot(own) == checkout.git_dir:
                index = own / "index"
                shutil.copyfile(checkout.index, index)
                checkout.git_dir = {**checkout.git_dir, "index": signature_of(index.lstat())}
                return
        self.show_as_staged(checkout, self.base, self.repository.branch)
        checkout.git_dir = snapshot(own)
