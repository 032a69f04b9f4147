"""Where agents work: a private clone for each item, furnished like the user's checkout.

Makes clones and the base state of proving trees, and tells what an agent changed since its clone
was ready. Whether those changes may ship is judged elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from driver.domain.results import Change
from driver.execution.worker_pool import Turns
from driver.filesystem.tree import copy_into, newest_ns, remove_tree, signature_of, snapshot
from driver.git.private_git import PrivateGit, Repository
from driver.git.repository import borrow_objects, lay_git_dir
from driver.workspace.root import WorkspaceError, own_folder
from driver.workspace.setup import Preparation, check_copies, signatures
from driver.workspace.test_checkouts import TestCheckout, TestCheckouts
from state_store.documents.journal import safe_slug

# The clone is the agent's, but the user's global settings reach into it: no monitor process per
# clone, no hook of theirs on an agent's commit, no passphrase prompt, line ends as committed.
_CLONE_CONFIG = f"""\
\tbare = false
\tautocrlf = false
\tfsmonitor = false
\tuntrackedCache = false
\thooksPath = {os.devnull}
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_POINTER = b"version https://git-lfs.github.com/spec/"
_PROBED = frozenset({"filemode", "symlinks", "ignorecase", "precomposeunicode"})


@dataclass(frozen=True, slots=True)
class Collected:
    """What an agent made: the base tree with exactly its changes, and those changes, also as a
    patch."""

    tree: str
    changes: tuple[Change, ...]
    patch: bytes


@dataclass(frozen=True, slots=True)
class Workspace:
    """One item's clone. `start` is its tree right after set-up, which nobody is blamed for."""

    path: Path
    index: Path
    git: PrivateGit
    base_tree: str
    start: str
    started_ns: int

    def collect(self, owned: Sequence[str]) -> Collected:
        """Everything changed since the set-up, told from the disk; see `PrivateGit.collect`.

        Raises WorkspaceError for what somebody else put into git by its name.
        """
        now = self.git.collect(self.path, self.index, owned, made_after_ns=self.started_ns)
        if self.start == self.base_tree:
            tree = now
        else:
            tree = self.git.tree_with(self.base_tree, self.git.changes(self.start, now))
        return self.of_tree(tree)

    def of_tree(self, tree: str) -> Collected:
        """The same of work that is in git already."""
        found = self.git.examined(self.base_tree, tree)
        if found.forged:
            named = ", ".join(found.forged)
            raise WorkspaceError(f"objects in git whose content is not what they say: {named}")
        return Collected(tree, found.changes, found.patch)

    def put(self, tree: str) -> None:
        """Bring in the work of `tree`, the base with changes; for a clone that is still as made."""
        wanted = self.git.tree_with(self.start, self.git.changes(self.base_tree, tree))
        index = self.index.with_suffix(".put")
        shutil.copyfile(self.index, index)
        try:
            self.git.switch(wanted, self.path, index)
        finally:
            index.unlink(missing_ok=True)

    def ignored(self, paths: Sequence[str]) -> dict[str, str]:
        """Which of `paths` git leaves out of commits, with the rule of each."""
        return self.git.ignored(self.path, self.index, paths)

    def unfiltered(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Files that a filter program of the user's would have turned into something else; what
        stands for a large file is what comes out of it."""
        there = {change.path: change.blob for change in changes if change.blob}
        filtered = self.git.filtered(self.path, self.index, [*there])
        blobs = ((path, there[path]) for path in filtered)
        return tuple(p for p, b in blobs if b and not self.git.blob(b).startswith(_POINTER))

    @contextlib.contextmanager
    def out_of_reach(self) -> Iterator[None]:
        """While inside nothing is at `path`: what is read from there would be in no commit."""
        away = self.path.with_name(uuid.uuid4().hex)
        self.path.rename(away)
        try:
            yield
        finally:
            away.rename(self.path)

    def remove(self) -> None:
        """Remove the clone; fine when it is gone. Raises WorkspaceError naming what stays."""
        try:
            remove_tree(self.path)
        except OSError as trouble:
            raise WorkspaceError(f"the workspace {self.path} was not removed: {trouble}") from None
        self.index.unlink(missing_ok=True)


class WorkspaceFactory:
    """Makes workspaces and proving trees of one repository at one base commit, below `root`;
    `tracked` is every path in that commit.

    Raises InputError for `copy` paths that are missing, tracked or outside the checkout, and
    WorkspaceError when `root` cannot be used. Safe to use from many threads.
    """

    def __init__(
        self,
        root: Path,
        git: PrivateGit,
        repo: Repository,
        base: str,
        prepare: Preparation,
        environ: Mapping[str, str],
    ) -> None:
        self.root = root
        self._git = git
        self._repo = repo
        self._base = base
        self.base_tree = git.tree_of(base)
        self._prepare = prepare
        self._environ = environ
        # All at once they would be ready all at the end, and no agent at work before.
        self._checkouts = Turns(os.cpu_count() or 2)
        self.tracked = frozenset(git.paths_in(self.base_tree))
        check_copies(repo.top, prepare.copy, self.tracked)
        self._copied = self._sources()
        own_folder(root, environ)
        for name in ("items", "proving", "reading", "indexes"):
            (root / name).mkdir(exist_ok=True)

    def at(self, commit: str) -> WorkspaceFactory:
        """The same for another base commit."""
        root = self.root / f"at-{commit[:12]}"
        return WorkspaceFactory(root, self._git, self._repo, commit, self._prepare, self._environ)

    def workspace(self, name: str) -> Workspace:
        """A fresh clone for the slug `name`; what an earlier one left there is removed."""
        name = safe_slug(name)  # people may call an item ../../home, and its folder is removed
        path, index = self.root / "items" / name, self.root / "indexes" / name
        self._furnish(path, index)
        start, started_ns = self.base_tree, 0
        if self._starts_dirty():
            # Before the start tree is taken: that takes longer than the tick of any clock here.
            started_ns = _file_system_time(index.with_suffix(".tick"))
            start = self._git.collect(path, index, ())
            shutil.copyfile(index, path / ".git" / "index")
        return Workspace(path, index, self._git, self.base_tree, start, started_ns)

    def proving_trees(self, size: int) -> TestCheckouts:
        """A pool of at most `size` trees to test in; each is made when first needed."""
        return TestCheckouts(size, self._proving_tree, self._renew_git)

    def wait_for_clones(self) -> None:
        """Wait until no clone is being written: the sooner agents begin, the sooner all is over."""
        self._checkouts.wait_until_none()

    def changed_sources(self) -> tuple[str, ...]:
        """The `copy` paths that are other than when this was made: not all places are alike."""
        now = self._sources()
        return tuple(name for name in self._prepare.copy if now[name] != self._copied[name])

    def _sources(self) -> dict[str, object]:
        return {name: signatures(self._repo.top / name) for name in self._prepare.copy}

    @contextlib.contextmanager
    def reading_copy(self, name: str, tree: str) -> Iterator[TestCheckout]:
        """A checkout of `tree` for somebody to read, gone afterwards; the base is its HEAD.

        No set-up is run in it. Raises WorkspaceError when it cannot be made.
        """
        path, index = self.root / "reading" / name, self.root / "indexes" / f"reading-{name}"
        with _all_or_nothing(path):
            remove_tree(path)
            self._git.checkout(tree, path, index)
            self._lay_git(path, index, head=self._base, branch=self._repo.branch)
            borrow_objects(path / ".git", self._repo, self._git.path / "objects")
            copy = TestCheckout(path, index, self._git, {}, snapshot(path))
            copy.settle()
        try:
            yield copy
        finally:
            copy.discard()

    def _proving_tree(self, number: int) -> TestCheckout:
        path = self.root / "proving" / str(number)
        index = self.root / "indexes" / f"proving-{number}.index"
        self._furnish(path, index)
        folders = {str(above) for path in self.tracked for above in PurePosixPath(path).parents}
        for cache in folders:
            # Compiled from the base's files: with size and second the same as the next tree's,
            # Python would run the base instead of what is to be proven.
            remove_tree(path / cache / "__pycache__")
        seen = snapshot(path)
        known = self.tracked | folders
        products = {name: signature for name, signature in seen.items() if name not in known}
        shown = "" if self._starts_dirty() else self.base_tree
        return TestCheckout(path, index, self._git, products, seen, shown=shown)

    def _starts_dirty(self) -> bool:
        """Whether a furnished clone may differ from the base: set-up, or line-end attributes."""
        attributes = any(path.rpartition("/")[2] == ".gitattributes" for path in self.tracked)
        return bool(self._prepare.copy or self._prepare.setup or attributes)

    def _furnish(self, path: Path, index: Path) -> None:
        with _all_or_nothing(path):
            with self._checkouts:
                remove_tree(path)
                self._git.checkout(self.base_tree, path, index)
                self._lay_git(path, index, head=self._base, branch=self._repo.branch)
            for name in self._prepare.copy:
                copy_into(self._repo.top / name, path / name)
            for command in self._prepare.setup:
                if problem := self._prepare.run(command, path):
                    raise WorkspaceError(f"set-up command {command!r} failed: {problem}")

    def _renew_git(self, place: TestCheckout) -> None:
        """Give a proving tree a `.git` no test has written in, its index that of the tree."""
        own = place.path / ".git"
        with contextlib.suppress(OSError):
            if not own.is_symlink() and snapshot(own) == place.git_dir:
                index = own / "index"
                shutil.copyfile(place.index, index)
                place.git_dir = {**place.git_dir, "index": signature_of(index.lstat())}
                return
        self._lay_git(place.path, place.index, head=self._base, branch=self._repo.branch)
        # A test may ask git for what is about to be committed, whose objects only we have.
        borrow_objects(own, self._repo, self._git.path / "objects")
        place.git_dir = snapshot(own)

    def stand_on(self, place: TestCheckout, commit: str, branch: str | None) -> None:
        """Give a proving tree, until it shows another tree, a `.git` where `branch` is at `commit`,
        so that git there says of all that differs that it is staged."""
        self._lay_git(place.path, place.index, head=commit, branch=branch)
        borrow_objects(place.path / ".git", self._repo, self._git.path / "objects")

    def _lay_git(self, path: Path, index: Path, *, head: str, branch: str | None) -> None:
        own = path / ".git"
        remove_tree(own)
        config = self._probed + _CLONE_CONFIG
        lay_git_dir(own, self._repo, head=head, branch=branch, config=config)
        shutil.copyfile(index, own / "index")

    @functools.cached_property
    def _probed(self) -> str:
        """What git found out about this file system. Each key once, or agents cannot set it."""
        made = (self._git.path / "config").read_text(encoding="utf-8").splitlines(keepends=True)
        return "".join(line for line in made if line.split("=")[0].strip() in _PROBED)


@contextlib.contextmanager
def _all_or_nothing(path: Path) -> Iterator[None]:
    """Remove what a failure leaves of a place, and call trouble with the disk by its name."""
    try:
        yield
    except BaseException as trouble:
        with contextlib.suppress(OSError):
            remove_tree(path)
        if isinstance(trouble, OSError):
            raise WorkspaceError(f"the workspace {path} was not made: {trouble}") from trouble
        raise


def _file_system_time(probe: Path) -> int:
    probe.write_bytes(b"")
    now = newest_ns(probe.stat())
    probe.unlink()
    return now
