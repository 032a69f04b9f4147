"""Finds the tips of branches, here and on the remote, and the commits they contain.

Only `move_ahead` writes. Commits that only the remote has are fetched into our git dir, never into
the user's repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from driver.git.ancestry import is_in_history
from driver.git.command import GitError, text, user_environment
from driver.git.push_result import PushResult
from driver.git.remote import Remote, fetch_head, head_of
from driver.git.repository import Repository, commit_at, fast_forward, git_in
from state_store.values.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from driver.git.private_reader import PrivateDir

HEADS = "refs/heads/"
REMOTE_HEADS = "refs/remotes/"


@dataclass(frozen=True, slots=True)
class BranchView:
    """The branches of the user's repository and of its remote, if any.

    `git` is our git dir for fetched commits; without it nothing can be fetched. If the remote does
    not answer, the result is a PushResult with the reason, without credentials.
    """

    repository: Repository
    environ: Mapping[str, str]
    remote: Remote | None = None
    git: PrivateDir | None = None

    def commit_at(self, ref: str) -> str:
        """The commit of a local ref; "" if there is no such ref."""
        return commit_at(self.repository, ref, self.environ)

    def tip(self, branch: str) -> str:
        """The commit of a local branch; "" if there is no such branch."""
        return self.commit_at(HEADS + branch)

    def has(self, branch: str, commit: str) -> bool:
        """True if the local branch exists and contains the commit."""
        tip = self.tip(branch)
        return bool(tip) and self._is_here_in(commit, tip)

    def is_in_head(self, commit: str) -> bool:
        """True if the HEAD of the opened repository contains `commit`."""
        return self._is_here_in(commit, self.repository.head)

    def contains(self, tip: str, commit: str) -> bool:
        """True if the history of `tip` contains `commit`, local or fetched."""
        if self.git is None:
            return self._is_here_in(commit, tip)
        return is_in_history(self.git.path, self.git.env, commit, tip)

    def _is_here_in(self, commit: str, tip: str) -> bool:
        env = user_environment(self.environ)
        return is_in_history(self.repository.git_dir, env, commit, tip)

    def branches_with(self, commit: str, *namespaces: str) -> tuple[str, ...]:
        """The refs in `namespaces` (default: HEADS) that contain a commit; empty for an unknown
        commit."""
        asked = ("for-each-ref", "--format=%(refname)", f"--contains={commit}")
        where, accepted = namespaces or (HEADS,), (0, 1, 128, 129)
        done = git_in(self.repository, self.environ, *asked, *where, accept=accepted)
        return tuple(text(done.stdout).splitlines()) if commit and done.ok else ()

    def remote_tip(self, branch: str) -> str | PushResult:
        """The commit of a remote branch; "" if the branch or the remote does not exist."""
        if self.remote is None:
            return ""
        git_dir = self.git.path if self.git else self.repository.git_dir
        return head_of(git_dir, self.environ, self.remote, branch)

    def fetched_tip(self, branch: str, known: str) -> str | PushResult:
        """Like `remote_tip`, and fetches the commit into `git` unless it is `known`."""
        if self.remote is None:
            return ""
        if self.git is None:
            raise ValueError("fetching from a remote needs a git dir of ours")
        return fetch_head(self.git.path, self.environ, self.remote, branch, known)

    def remote_has(self, branch: str, commit: str) -> bool | PushResult:
        """True if the remote branch contains the commit."""
        there = self.fetched_tip(branch, commit)
        if isinstance(there, PushResult):
            return there
        return bool(there) and self.contains(there, commit)

    def checked_out_in(self, branch: str) -> Path | None:
        """The top of the checkout or worktree that has a branch checked out, or None."""
        asked = ("for-each-ref", "--format=%(worktreepath)", HEADS + branch)
        found = git_in(self.repository, self.environ, *asked, accept=(0, 1))
        top = text(found.stdout).strip()
        return Path(top) if top else None

    def move_ahead(self, branch: str, commit: str) -> str:
        """Fast-forward a local branch and its checkout to `commit`. Returns "", also if there is no
        such branch, or the reason for a failure."""
        here = self.tip(branch)
        if not here or here == commit:
            return ""
        if not self._is_here_in(here, commit):
            return f"{branch} has other commits here, so it cannot fast-forward to {commit[:12]}"
        where = self.checked_out_in(branch)
        if where is not None and where.exists() and where.samefile(self.repository.top):
            return fast_forward(self.repository, commit, self.environ)
        if where is not None:
            return (
                f"{branch} is checked out in {where}: run git merge --ff-only {commit[:12]} there"
            )
        move = ("update-ref", HEADS + branch, commit, here)
        done = git_in(self.repository, self.environ, *move, accept=(0, 1, 128))
        return "" if done.ok else GitError(done.argv, done.exit_code, done.stderr).args[0]
