"""Finds shipped work in git: in the history of a branch, and among the branches that are left.

A history is walked once for all items, and a remote is asked once for all branches. Nothing is
written into the user's repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.backlog.publication_status import Merged, PublishedItem, Shipped, published_items_in
from driver.domain.ownership import OwnedPath, covers
from driver.filesystem.temporary import scratch_folder
from driver.git.branch_view import HEADS, BranchView
from driver.git.command import run_git, text
from driver.git.private_git import GitError, PrivateGit, Repository, find_remote
from driver.git.push_result import PushResult
from driver.git.remote import default_branch, heads_on
from driver.git.repository import configured
from driver.publishing.fenced_push import WAVES, bring
from driver.publishing.published_history import GitDir, History, shipments_in
from driver.publishing.wave_branches import wave_branches
from state_store.values.lazy_dataclass import dataclass
from tools.settings.load import Settings

# A remote that is slow to list its branches is asked again by the next cycle.
_ASKING_S = 60.0


class UnaskedError(Exception):
    """A remote could not be asked; the argument says why, without credentials."""


@dataclass(frozen=True, slots=True)
class RemoteView:
    """The branches of a repository and of its remote, as shipped work is searched in them.

    `heads` are the remote's branches, None without a remote. Fetched commits go to `private`, and
    histories are cached in `state_dir`, if there is one.
    """

    branches: BranchView
    heads: Mapping[str, str] | None
    private: PrivateGit
    state_dir: Path | None = None

    @classmethod
    @contextmanager
    def opened(
        cls, repository: Repository, settings: Settings, state_dir: Path | None = None
    ) -> Iterator[RemoteView]:
        """Ask the remote, if there is one. Raises UnaskedError, InputError and GitError."""
        environ = settings.environ
        with scratch_folder() as folder:
            private = PrivateGit.create(folder / "private.git", repository, environ)
            remote = find_remote(repository, environ, settings.ship.remote)
            heads = heads_on(private.path, environ, remote, _ASKING_S) if remote else None
            if isinstance(heads, PushResult):
                raise UnaskedError(heads.reason)
            yield cls(BranchView(repository, environ, remote, private), heads, private, state_dir)

    @property
    def repository(self) -> Repository:
        """The user's repository."""
        return self.branches.repository

    def tip(self, target: str) -> str:
        """The commit of the branch `target`: the remote's, else the one here; for "" the branch
        that is checked out. Raises UnaskedError if it cannot be fetched."""
        return self.target(target)[1]

    def target(self, target: str) -> tuple[str, str]:
        """The name of that branch and its commit; "HEAD" if `target` is "" and none is checked
        out, or if there is no such branch and none is checked out."""
        name = target
        if not target or (target not in (self.heads or {}) and not self.branches.tip(target)):
            name = self.repository.branch or "HEAD"
        here = self.repository.head if name == "HEAD" else self.branches.tip(name)
        if (self.heads or {}).get(name) in (None, here):
            return name, here
        there = self.branches.fetched_tip(name, here)
        if isinstance(there, PushResult):
            raise UnaskedError(there.reason)
        return name, there or here

    def successors(self, target: str, wanted: str) -> list[str] | None:
        """The branches that may have replaced a target that the remote no longer has: the `wanted`
        one, and the remote's default branch. None if the target exists there, or was never
        anywhere but here."""
        heads, remote = self.heads, self.branches.remote
        if heads is None or remote is None or not target or target in heads:
            return None
        key, tracked = f"branch.{target}.merge", f"refs/remotes/{remote.name}/{target}"
        environ = self.branches.environ
        was_there = bool(self.branches.commit_at(tracked)) or any(
            name == key for name, _ in configured(self.repository, environ)
        )
        if self.branches.tip(target) and not was_there:
            return None
        named = (wanted, default_branch(self.private.path, environ, remote))
        return [name for name in dict.fromkeys(named) if name in heads]

    def published_items(self, target: str, tip: str) -> list[PublishedItem]:
        """All shipments in the history of `target`, which is at `tip`, with no branch, then those
        on wave branches that are not in it. Raises UnaskedError and GitError."""
        git, remote = self.private, self.branches.remote
        if self.heads is None:
            own = wave_branches(self.repository, self.branches.environ)
            heads = {HEADS + branch.name: branch.commit for branch in own}
        else:
            heads = {HEADS + n: c for n, c in self.heads.items() if n.startswith(WAVES)}
        if remote and not (got := bring(git, remote, heads)).ok:
            raise UnaskedError(got.reason)
        merged = self._history(target).shipments(git, tip)
        return [*merged, *shipments_in(git, heads, without=[tip])]

    def _history(self, target: str) -> History:
        return History.kept(self.state_dir, self.repository, target)

    def merged(self, target: str, tip: str, onto: Iterable[str]) -> Merged:
        """The shipments in the history of `target`, which is at `tip`; `onto` are the commits that
        they were put on."""
        return merged_in(self.private, tip, onto, self._history(target))

    def is_kept(self, shipped: Shipped) -> bool:
        """True if the work's branch exists, or any other that has its commit."""
        there = self.heads or {}
        if shipped.branch in there or shipped.commit in there.values():
            return True
        if shipped.branch and self.branches.tip(shipped.branch):
            return True
        return bool(self.branches.branches_with(shipped.commit))

    def has_all_of(self, commit: str, tip: str, owned: Sequence[OwnedPath] = ()) -> bool:
        """True if `tip` has exactly the changes of `commit`, whatever commit brought them.

        Of a commit of several items only the changes of the `owned` files count. False for a commit
        that is gone.
        """
        git = self.private
        try:
            changes, base = git.changes(f"{commit}^", commit), git.tree_of(tip)
            if changes and git.tree_with(base, changes) == base:
                return True
            mine = [one for one in changes if covers(owned, one.path)]
            if not mine or git.tree_with(base, mine) != base:
                return False
            asked = (f"--git-dir={git.path}", "log", "-1", "--encoding=UTF-8", "--format=%B",
                     commit)  # fmt: skip
            message = text(run_git(asked, cwd=git.path, env=git.env).stdout)
            return len(published_items_in(message)) > 1
        except GitError:
            return False


def merged_in(git: GitDir, tip: str, onto: Iterable[str], history: History) -> Merged:
    """The shipments in the history of `tip`.

    Without a cached history it is walked back to the first of `onto`: completely, if one of them is
    unknown or "". Raises GitError.
    """
    if history.file is not None:
        return Merged.of(history.shipments(git, tip))
    begun = set(onto)
    asked = (f"--git-dir={git.path}", "merge-base", "--octopus", *begun)
    known = bool(begun) and "" not in begun
    base = run_git(asked, cwd=git.path, env=git.env, accept=(0, 1, 128)) if known else None
    since = [text(base.stdout).strip()] if base is not None and base.ok else []
    return Merged.of(shipments_in(git, {"": tip}, without=since))
