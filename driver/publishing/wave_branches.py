"""The branches and refs of ours in the user's repository: which there are, and whether all they
hold is elsewhere too.

Never touches a branch that is checked out anywhere, or one whose commits do not say that they
are ours. Whether a branch may go is decided by whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from driver.domain.commit_message import PENDING_REFS, PROVED_TREE, WAVE_ID, is_branch_of
from driver.git.command import private_environment, run_git, text, user_environment
from driver.git.private_git import Repository, is_ancestor, tip_of
from state_store.views.anchors import TRAILER, Anchor, parsed

HEADS = "refs/heads/"
_PREFIXES = (f"{HEADS}wave/", f"{HEADS}wave-*")
_USUAL = ("main", "master")


@dataclass(frozen=True, slots=True)
class WaveBranch:
    """A branch that a wave has named, as its last commit says. `anchors` are of that commit."""

    name: str
    commit: str
    wave_id: str
    checked_out: bool
    anchors: tuple[Anchor, ...]


def wave_branches(repo: Repository, environ: Mapping[str, str]) -> tuple[WaveBranch, ...]:
    """All wave branches that are ours."""
    # One field for all trailers: asked for twice, git 2.39 answers both times with both.
    trailers = "%(contents:trailers:only=true,unfold=true,separator=%x1F)"
    fields = ("%(refname)", "%(objectname)", "%(worktreepath)", trailers)
    found = (_wave_branch(*told) for told in _refs(repo, environ, fields, *_PREFIXES))
    return tuple(branch for branch in found if branch is not None)


def _wave_branch(ref: str, commit: str, tree: str, trailers: str) -> WaveBranch | None:
    said = dict(line.partition(": ")[::2] for line in trailers.split("\x1f"))
    name, wave = ref.removeprefix(HEADS), said.get(WAVE_ID, "")
    if PROVED_TREE not in said or not is_branch_of(name, wave):
        return None
    anchors = tuple(parsed([said.get(TRAILER)]))
    return WaveBranch(name, commit, wave, bool(tree), anchors)


def pending_refs(repo: Repository, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(ref, commit) of the refs that keep commits while a checkout is moved to them."""
    fields = ("%(refname)", "%(objectname)")
    return tuple((ref, commit) for ref, commit in _refs(repo, environ, fields, PENDING_REFS))


def refs_with(repo: Repository, commit: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The branches, here and of remotes, that contain a commit."""
    asked = (f"--git-dir={repo.git_dir}", "for-each-ref", "--format=%(refname)",
             f"--contains={commit}", HEADS, "refs/remotes/")  # fmt: skip
    done = run_git(asked, cwd=repo.top, env=user_environment(environ))
    return tuple(text(done.stdout).splitlines())


def branches_with(repo: Repository, commit: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The branches here that contain a commit; none for one that is not known here."""
    asked = (f"--git-dir={repo.git_dir}", "for-each-ref", "--format=%(refname)",
             f"--contains={commit}", HEADS)  # fmt: skip
    env = user_environment(environ)
    done = run_git(asked, cwd=repo.top, env=env, accept=(0, 1, 128, 129))
    return tuple(text(done.stdout).splitlines()) if commit and done.ok else ()


def home_of(
    repo: Repository, commit: str, started_from: str | None, environ: Mapping[str, str]
) -> str:
    """The branch that a wave started from (unknown: the one checked out), or a remote's default
    branch, if it contains `commit`; else ""."""
    start = started_from or repo.branch
    known = [start] if start and start != "HEAD" else []
    tips = {name: tip_of(repo, name, environ) for name in known}
    tips |= dict(_remote_defaults(repo, environ))
    return next(
        (name for name, tip in tips.items() if tip and is_ancestor(repo, commit, tip, environ)), ""
    )


def forget(repo: Repository, ref: str, commit: str, environ: Mapping[str, str]) -> None:
    """Delete a ref, if it still is at `commit`. No hook runs. Raises GitError."""
    drop = (f"--git-dir={repo.git_dir}", "update-ref", "--no-deref", "-d", ref, commit)
    run_git(drop, cwd=repo.top, env=private_environment(environ, repo.git_dir))


def _remote_defaults(repo: Repository, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Default branches of the remotes as they were when last fetched, and where they are."""
    fields = ("%(refname)", "%(symref)", "%(objectname)")
    seen = [*_refs(repo, environ, fields, "refs/remotes/")]
    commits = {ref: commit for ref, _, commit in seen}
    named = {ref: symref for ref, symref, _ in seen if symref}
    for remote in {ref.split("/")[2] for ref in commits}:
        usual = (f"refs/remotes/{remote}/{name}" for name in _USUAL)
        default = named.get(f"refs/remotes/{remote}/HEAD") or next(filter(commits.get, usual), "")
        if default in commits:
            yield default.removeprefix("refs/remotes/"), commits[default]


def _refs(
    repo: Repository, environ: Mapping[str, str], fields: Iterable[str], *patterns: str
) -> Iterator[list[str]]:
    asked = (f"--git-dir={repo.git_dir}", "for-each-ref", "--format=" + "%00".join(fields))
    told = run_git((*asked, *patterns), cwd=repo.top, env=user_environment(environ)).stdout
    for line in text(told).splitlines():
        yield line.split("\0")
