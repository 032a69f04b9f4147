"""Looks in git for shipped work: in the history of a branch, and among the branches that are left.

One walk through a history for all items, one question to a remote for all branches. What follows
from the answers is `shipped_items`'; nothing is written into the user's repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from driver.ancestry import written
from driver.elsewhere import WAVES, bring, sighted
from driver.git import GitError, PrivateGit, Remote, Repository, commit_at, find_remote
from driver.git_command import run_git, text
from driver.push_answer import PushResult
from driver.remote import fetch_head, heads_on
from driver.shipped_items import Landed, Shipped, Sighting
from driver.trailers import SHIPMENT
from driver.wave_branches import HEADS, branches_with, wave_branches
from tools.settings import Settings

# A remote that is slow to say what it has is asked again by the next cycle.
_ASKING_S = 60.0


class UnaskedError(Exception):
    """A remote that could not be asked; the argument says why, without credentials."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A repository as shipped work is looked for in it: `heads` are the branches of the remote,
    None without one. `private` can hold what is fetched."""

    repository: Repository
    environ: Mapping[str, str]
    remote: Remote | None
    heads: Mapping[str, str] | None
    private: PrivateGit

    @classmethod
    @contextmanager
    def opened(cls, repository: Repository, settings: Settings) -> Iterator[Outlook]:
        """Ask the remote, where there is one. Raises UnaskedError, InputError and GitError."""
        environ = settings.environ
        with TemporaryDirectory(prefix="tidegate-") as folder:
            private = PrivateGit.create(Path(folder) / "private.git", repository, environ)
            remote = find_remote(repository, environ, settings.ship.remote)
            heads = heads_on(private.path, environ, remote, _ASKING_S) if remote else None
            if isinstance(heads, PushResult):
                raise UnaskedError(heads.reason)
            yield cls(repository, environ, remote, heads, private)

    def tip(self, target: str) -> str:
        """Where the branch `target` is by now: as the remote has it, else as it is here; for ""
        the one that is checked out. Raises UnaskedError when it cannot be fetched."""
        return self.target(target)[1]

    def target(self, target: str) -> tuple[str, str]:
        """The same, with the branch's name before it."""
        name = target_ref(self.repository, target, self.environ, self.heads)
        return name.removeprefix(HEADS), self._tip(name)

    def sightings(self, tip: str) -> list[Sighting]:
        """All shipments in the history of `tip`, with no branch, then those on wave branches that
        are not in it. Raises UnaskedError and GitError."""
        git, heads = self.private, self._wave_heads()
        got = bring(git, self.remote, heads) if self.remote else PushResult(True)
        if not got.ok:
            raise UnaskedError(got.reason)
        return [*sighted(git, {"": tip}), *sighted(git, heads, without=[tip])]

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

    def landed(self, tip: str, onto: Iterable[str]) -> Landed:
        """What has landed in the history of `tip`; `onto` are the commits that it was put on."""
        return landed_in(self.private.path, self.private.env, tip, onto)

    def is_kept(self, shipped: Shipped) -> bool:
        """Whether the work's branch is there, or any other that has its commit."""
        there = self.heads or {}
        if shipped.branch in there or shipped.commit in there.values():
            return True
        if shipped.branch and self._at(HEADS + shipped.branch):
            return True
        return bool(branches_with(self.repository, shipped.commit, self.environ))

    def has_all_of(self, commit: str, tip: str) -> bool:
        """Whether all that `commit` changed is to the letter in `tip`, whoever brought it there;
        False for a commit that is gone."""
        git = self.private
        try:
            changes, base = git.changes(f"{commit}^", commit), git.tree_of(tip)
        except GitError:
            return False
        return bool(changes) and git.tree_with(base, changes) == base

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


def landed_in(git_dir: Path, env: Mapping[str, str], tip: str, onto: Iterable[str]) -> Landed:
    """What has landed in the history of `tip`, as far back as the first of `onto`: all of it,
    where one of them is unknown or "". Raises GitError."""
    at = f"--git-dir={git_dir}"
    begun = set(onto)
    asked = (at, "merge-base", "--octopus", *begun)
    known = bool(begun) and "" not in begun
    base = run_git(asked, cwd=git_dir, env=env, accept=(0, 1, 128)) if known else None
    since = [text(base.stdout).strip()] if base is not None and base.ok else []
    told = written(git_dir, env, SHIPMENT, [tip], since)
    return Landed.told((one.commit, one.message) for one in told)
