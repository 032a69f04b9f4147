"""An item's private clone, and the changes that the agent made in it. Other modules decide if the
changes may ship. `clone_context` makes the clones."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from driver.domain.ownership import OwnedPath, leaves_tree
from driver.domain.results import MODE_FILE, MODE_LINK, MODE_NESTED, MODE_PROGRAM, Change
from driver.policy.by_products import ByProducts
from driver.policy.line_ends import kept
from driver.preparation.kept_copies import LaidCopy
from driver.workspace.agent_clone import git_traces, is_broken, put_back_head
from driver.workspace.repository_context import (
    CLONE,
    GitContext,
    Observed,
    TestCheckout,
    Workspace,
)
from driver.workspace.root import WorkspaceError
from driver.workspace.submodules import moved_submodules
from state_store.values.lazy_dataclass import dataclass, replace

_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Collected:
    """An agent's work: the base tree with exactly its changes, the list of changes, and a patch."""

    tree: str
    changes: tuple[Change, ...]
    patch: bytes


def _was_file(change: Change) -> bool:
    return change.base_mode in (None, MODE_FILE, MODE_PROGRAM)


def _exists(top: Path, path: str) -> bool:
    return os.path.lexists(top / path)


class CloneWorkspace(Workspace):
    """A clone of a repository for one item. `start` is its tree after the set-up, whose changes are
    not the agent's. Ignored files of the agent are newer than `started_ns`."""

    isolation = CLONE

    def __init__(
        self,
        context: GitContext,
        top: Path,
        index: Path,
        work_dir: str = "",
        owned: Sequence[OwnedPath] = (),
    ) -> None:
        self.top, self.index, self.workdir = top, index, top / work_dir
        self.start, self.started_ns = context.base_tree, 0
        self.context, self._git = context, context.git
        self._owned = [path.path + ("/" if path.is_dir else "") for path in owned]
        self._named_before = set[str]()
        self._left_out = set[str]()
        self._line_ends: tuple[str, ...] = ()
        exists = functools.partial(_exists, top)
        self._by_products = ByProducts(
            context.paths, context.folders, exists, owned, context.leftovers
        )
        self._patches: dict[str, bytes] = {}
        self.beside: Path | None = None  # removed with the clone
        self.kept: LaidCopy | None = None  # may move on to the next clone
        self._lock, self._hiding, self._away = threading.Lock(), 0, contextlib.ExitStack()

    def observe(self) -> Observed:
        self.context.require_objects()
        self._left_out.clear()
        collected = self.collect(self._owned)
        self._patches = {collected.tree: collected.patch}
        traces = (name for name in self._git_traces() if name not in self._named_before)
        seen = replace(
            self.seen(collected),
            is_replaced=self.top.is_symlink(),
            git_traces=tuple(traces),
            left_out=tuple(sorted(self._left_out - self._named_before)),
            line_ends=self._line_ends,
        )
        self._named_before |= self._left_out
        return seen

    def collect(self, owned: Sequence[str]) -> Collected:
        """Everything changed since the set-up, read from the disk; see `PrivateGit.collect`. Raises
        WorkspaceError for an object whose content does not match its id."""
        start, base_tree = self.start, self.context.base_tree
        tree = now = self._git.collect(
            self.top,
            self.index,
            owned,
            made_after_ns=self.started_ns,
            leaves_out=self._leaves_out,
        )
        named = [path for path in owned if path in self.context.paths]
        moved = moved_submodules(
            self._git, base_tree, self.top, named, self.index.with_suffix(".theirs")
        )
        if moved:
            tree = now = self._git.tree_with(now, moved)
        if start != base_tree:
            tree = self._git.tree_with(base_tree, self._git.changes(start, now))
        return self._with_line_ends(self.collected_as(tree))

    def _with_line_ends(self, work: Collected) -> Collected:
        """The work with the line ends of the base. Work that changes nothing but line ends stays as
        it is: then they are what was asked for."""
        self._line_ends = ()
        if b"\r\n" not in work.patch:
            return work
        files = [c for c in work.changes if c.mode in (MODE_FILE, MODE_PROGRAM) and c.blob]
        texts = self._git.contents(
            [blob for c in files for blob in (c.blob, c.base_blob) if blob and _was_file(c)]
        )
        changed = []
        for one in files:
            base = texts.get(one.base_blob or "") if one.base_mode else None
            if not _was_file(one) or (one.base_mode and base is None):
                continue
            content = kept(base, texts[one.blob or ""], converts=self.context.converts_line_ends)
            if content is not None:
                changed.append(replace(one, blob=self._git.store(content)))
        if not changed:
            return work
        tree = self._git.tree_with(work.tree, changed)
        if tree == self.context.base_tree:
            return work
        self._line_ends = tuple(one.path for one in changed)
        return self.collected_as(tree)

    def collect_start(self, started_ns: int) -> None:
        """Note the files of a prepared clone: its set-up made them, and no agent."""
        self.started_ns = started_ns
        self.start = self._git.collect(self.top, self.index, (), leaves_out=self._leaves_out)
        self._named_before |= self._left_out

    def _leaves_out(self, path: str) -> bool:
        if found := self._by_products.found(path):
            self._left_out.add(found)
        return bool(found)

    def collected_as(self, tree: str) -> Collected:
        """Collects work that is already in git, as a tree."""
        found = self._git.examined(self.context.base_tree, tree)
        if found.forged:
            named = ", ".join(found.forged)
            raise WorkspaceError(f"objects in git whose content does not match their id: {named}")
        return Collected(tree, found.changes, found.patch)

    def seen(self, work: Collected) -> Observed:
        """The facts about `work`, whose files are at `top`."""
        changes = work.changes
        links = (c.path for c in changes if c.mode == MODE_LINK)
        may_filter = self.context.has_attributes and changes
        return Observed(
            changes,
            work.tree,
            links_outside=tuple(path for path in links if leaves_tree(self.top, path)),
            ignored=self._rules_ignoring([c.path for c in changes if c.base_mode is None]),
            unfiltered=self._unfiltered(changes) if may_filter else (),
        )

    def _rules_ignoring(self, paths: Sequence[str]) -> tuple[str, ...]:
        found = self._git.ignored(self.top, self.index, paths)
        return tuple(f"{path} ({rule})" for path, rule in found.items())

    def _unfiltered(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Files that a filter program of the user would have changed. A pointer file of git-lfs is
        the output of such a program, so it counts as filtered."""
        blobs = {change.path: change.blob for change in changes if change.blob}
        filtered = self._git.filtered(self.top, self.index, [*blobs])
        return tuple(p for p in filtered if not self._git.blob(blobs[p]).startswith(_POINTER))

    def ignored(self) -> tuple[str, ...]:
        if any(path.rpartition("/")[2] == ".gitignore" for path in self._owned):
            return ()  # the item may change these rules
        known = self.context.paths | {f"{folder}/" for folder in self.context.folders}
        return self._rules_ignoring([path for path in self._owned if path not in known])

    @contextlib.contextmanager
    def test_checkout(self, tree: str | None, *, fresh: bool = False) -> Iterator[TestCheckout]:
        with self.context.test_checkout(tree, fresh=fresh) as checkout, self._out_of_reach():
            yield checkout

    @contextlib.contextmanager
    def reading_copy(self, tree: str) -> Iterator[TestCheckout]:
        with self.context.reading_copy(tree) as copy, self._out_of_reach():
            yield copy

    @contextlib.contextmanager
    def _out_of_reach(self) -> Iterator[None]:
        """Moves the clone away while a test or reviewer runs, because files read from it would be
        in no commit."""
        with self._lock:
            if not self._hiding:
                away = self.top.with_name(uuid.uuid4().hex)
                self.top.rename(away)
                self._away.callback(away.rename, self.top)
            self._hiding += 1
        try:
            yield
        finally:
            with self._lock:
                self._hiding -= 1
                if not self._hiding:
                    self._away.close()

    def base_with(self, changes: Sequence[Change]) -> str | None:
        return self.context.base_with(changes)

    def contents(self, change: Change) -> bytes:
        if change.blob is None or change.mode == MODE_NESTED:
            return b""
        return self._git.contents([change.blob])[change.blob]

    def patch(self, tree: str | None) -> bytes:
        if tree is None:
            return b""
        made = self._patches.get(tree)
        return self._git.patch(self.context.base_tree, tree) if made is None else made

    def whole_diff(self, tree: str, since: str | None = None) -> bytes:
        return self._git.whole_diff(since or self.context.base_tree, tree)

    def put(self, tree: str) -> None:
        changes = self._git.changes(self.context.base_tree, tree)
        wanted = self._git.tree_with(self.start, changes)
        index = self.index.with_suffix(".put")
        shutil.copyfile(self.index, index)
        try:
            self._git.switch(wanted, self.top, index)
        finally:
            index.unlink(missing_ok=True)

    def forget_commits(self) -> None:
        if self.top.is_symlink():
            return  # it may lead into the user's checkout
        base, branch = self.context.base, self.context.repository.branch
        self._named_before |= set(self._git_traces())
        if is_broken(self.top, branch):
            self.context.lay_git(self.top, self.index)
        else:
            put_back_head(self.top, base, branch)

    def _git_traces(self) -> tuple[str, ...]:
        return git_traces(self.top, self.context.base, self.context.repository.branch)

    def close(self) -> None:
        self._patches = {}  # an item in its wave outlives its workspace, and a patch may be large
        if self.kept is not None:
            with contextlib.suppress(OSError):
                self.kept.put_aside()
        try:
            if not self.context.keep(self.top):
                self.context.remove(self.top)
            if self.beside:
                self.context.remove(self.beside)
        except OSError as trouble:
            raise WorkspaceError(f"the workspace {self.top} was not removed: {trouble}") from None
        self.index.unlink(missing_ok=True)
