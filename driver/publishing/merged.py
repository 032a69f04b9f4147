"""Looks in git for shipped work: in the history of a branch, and among the branches that are left.

One walk through a history for all items, one question to a remote for all branches. What follows
from the answers is `shipped_items`', what is known of a history from one cycle to the next
`history`'s; nothing is written into the user's repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver.backlog.publication_status import Merged, PublishedItem, Shipped, published_items_in
from driver.domain.ownership import OwnedPath, covers
from driver.filesystem.temporary import scratch_folder
from driver.git.command import run_git, text
from driver.git.private_git import GitError, PrivateGit, Remote, Repository, commit_at, find_remote
from driver.git.push_result import PushResult
from driver.git.remote import default_branch, fetch_head, heads_on
from driver.git.repository import configured
from driver.publishing.fenced_push import WAVES, bring
from driver.publishing.published_history import GitDir, History, sighted
from driver.publishing.wave_branches import HEADS, branches_with, wave_branches
from tools.settings.load import Settings

# A remote that is slow to say what it has is asked again by the next cycle.
_ASKING_S = 60.0


class UnaskedError(Exception):
    """A remote that could not be asked; the argument says why, without credentials."""


@dataclass(frozen=True, slots=True)
class RemoteView:
    """A repository as shipped work is looked for in it: `heads` are the branches of the remote,
    None without one. `private` can hold what is fetched, and `state_dir` what is known of
    histories; None keeps nothing."""

    repository: Repository
    environ: Mapping[str, str]
    remote: Remote | None
    heads: Mapping[str, str] | None
    private: PrivateGit
    state_dir: Path | None = None

    @classmethod
    @contextmanager
    def opened(
        cls, repository: Repository, settings: Settings, state_dir: Path | None = None
    ) -> Iterator[RemoteView]:
        """Ask the remote, where there is one. Raises UnaskedError, InputError and GitError."""
        environ = settings.environ
        with scratch_folder() as folder:
            private = PrivateGit.create(folder / "private.git", repository, environ)
            remote = find_remote(repository, environ, settings.ship.remote)
            heads = heads_on(private.path, environ, remote, _ASKING_S) if remote else None
            if isinstance(heads, PushResult):
                raise UnaskedError(heads.reason)
            yield cls(repository, environ, remote, heads, private, state_dir)

    def tip(self, target: str) -> str:
        """Where the branch `target` is by now: as the remote has it, else as it is here; for ""
        the one that is checked out. Raises UnaskedError when it cannot be fetched."""
        return self.target(target)[1]

    def target(self, target: str) -> tuple[str, str]:
        """The same, with the branch's name before it."""
        name = target_ref(self.repository, target, self.environ, self.heads)
        return name.removeprefix(HEADS), self._tip(name)

    def successors(self, target: str, wanted: str) -> list[str] | None:
        """The branches that may have taken the place of a target that the remote has no more: the
        one that is `wanted` now, and the remote's own first branch. None where nothing is amiss:
        it is there, or was never anywhere but here."""
        heads, remote = self.heads, self.remote
        if heads is None or remote is None or not target or target in heads:
            return None
        if self._at(HEADS + target) and not self._is_tracked(remote, target):
            return None
        named = (wanted, default_branch(self.private.path, self.environ, remote))
        return [name for name in dict.fromkeys(named) if name in heads]

    def _is_tracked(self, remote: Remote, branch: str) -> bool:
        key = f"branch.{branch}.merge"
        seen = self._at(f"refs/remotes/{remote.name}/{branch}")
        return bool(seen) or any(k == key for k, _ in configured(self.repository, self.environ))

    def sightings(self, target: str, tip: str) -> list[PublishedItem]:
        """All shipments in the history of `target`, which is at `tip`, with no branch, then those
        on wave branches that are not in it. Raises UnaskedError and GitError."""
        git, heads = self.private, self._wave_heads()
        got = bring(git, self.remote, heads) if self.remote else PushResult(True)
        if not got.ok:
            raise UnaskedError(got.reason)
        merged = self._history(target).shipments(git, tip)
        return [*merged, *sighted(git, heads, without=[tip])]

    def _history(self, target: str) -> History:
        return History.kept(self.state_dir, self.repository, target)

    def _wave_heads(self) -> dict[str, str]:
        if self.heads is None:
            own = wave_branches(self.repository, self.environ)
            return {HEADS + branch.name: branch.commit for branch in own}
        return {HEADS + n: commit for n, commit in self.heads.items() if n.startswith(WAVES)}

    def _tip(self, name: str) -> str:
        branch = name.removeprefix(HEADS)
        here = self.repository.head if name == "HEAD" else self._at(name)
        if self.remote is None or (self.heads or {}).get(branch) in (None, here):
            return here
        there = fetch_head(self.private.path, self.environ, self.remote, branch, here)
        if isinstance(there, PushResult):
            raise UnaskedError(there.reason)
        return there or here

    def landed(self, target: str, tip: str, onto: Iterable[str]) -> Merged:
        """What has landed in the history of `target`, which is at `tip`; `onto` are the commits
        that it was put on."""
        return merged_in(self.private, tip, onto, self._history(target))

    def is_kept(self, shipped: Shipped) -> bool:
        """Whether the work's branch is there, or any other that has its commit."""
        there = self.heads or {}
        if shipped.branch in there or shipped.commit in there.values():
            return True
        if shipped.branch and self.is_here(shipped.branch):
            return True
        return bool(branches_with(self.repository, shipped.commit, self.environ))

    def is_here(self, branch: str) -> bool:
        """Whether the repository has a branch of this name itself."""
        return bool(self._at(HEADS + branch))

    def has_all_of(self, commit: str, tip: str, owned: Sequence[OwnedPath] = ()) -> bool:
        """Whether all that `commit` changed is to the letter in `tip`, whoever brought it there;
        of a commit of several items, all that it changed of the `owned` files. False for a commit
        that is gone."""
        git = self.private
        try:
            changes, base = git.changes(f"{commit}^", commit), git.tree_of(tip)
            if changes and git.tree_with(base, changes) == base:
                return True
            mine = [one for one in changes if covers(owned, one.path)]
            return bool(mine) and git.tree_with(base, mine) == base and self._is_batch(commit)
        except GitError:
            return False

    def _is_batch(self, commit: str) -> bool:
        git = self.private
        asked = (f"--git-dir={git.path}", "log", "-1", "--encoding=UTF-8", "--format=%B", commit)
        return len(published_items_in(text(run_git(asked, cwd=git.path, env=git.env).stdout))) > 1

    def _at(self, ref: str) -> str:
        return commit_at(self.repository, ref, self.environ)


def target_ref(
    repository: Repository,
    wanted: str,
    environ: Mapping[str, str],
    heads: Mapping[str, str] | None = None,
) -> str:
    """The ref of the branch that work is meant for: `wanted` if there is such a branch here or
    among `heads` of the remote, else the one that is checked out; "HEAD" where none is."""
    if wanted and (wanted in (heads or {}) or commit_at(repository, HEADS + wanted, environ)):
        return HEADS + wanted
    return HEADS + repository.branch if repository.branch else "HEAD"


def merged_in(git: GitDir, tip: str, onto: Iterable[str], history: History) -> Merged:
    """What has landed in the history of `tip`. Where nothing of it is kept, as far back as the
    first of `onto`: all of it, where one of them is unknown or "". Raises GitError."""
    if history.file is not None:
        return Merged.of(history.shipments(git, tip))
    begun = set(onto)
    asked = (f"--git-dir={git.path}", "merge-base", "--octopus", *begun)
    known = bool(begun) and "" not in begun
    base = run_git(asked, cwd=git.path, env=git.env, accept=(0, 1, 128)) if known else None
    since = [text(base.stdout).strip()] if base is not None and base.ok else []
    return Merged.of(sighted(git, {"": tip}, without=since))
