"""Lists the wave branches and pending refs in the user's repository, and where they were merged.

A branch counts as ours only if the trailers of its last commit say so. The caller decides whether a
branch is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from driver.domain.commit_message import PENDING_REFS, PROVED_TREE, WAVE_ID, is_branch_of, unfolded
from driver.git.branch_view import HEADS, REMOTE_HEADS, BranchView
from driver.git.command import private_environment, run_git, text, user_environment
from driver.git.private_git import Repository
from state_store.values.lazy_dataclass import dataclass
from state_store.views.anchors import TRAILER, Anchor, parsed

_PREFIXES = (f"{HEADS}wave/", f"{HEADS}wave-*")
_USUAL = ("main", "master")


@dataclass(frozen=True, slots=True)
class WaveBranch:
    """A branch of the wave that its last commit names. `anchors` are of that commit."""

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
    found = []
    for ref, commit, tree, lines in _refs(repo, environ, fields, *_PREFIXES):
        pairs = (line.partition(": ")[::2] for line in lines.split("\x1f"))
        values = {name: unfolded(value) for name, value in pairs}
        name, wave = ref.removeprefix(HEADS), values.get(WAVE_ID, "")
        if PROVED_TREE in values and is_branch_of(name, wave):
            anchors = tuple(parsed([values.get(TRAILER)]))
            found.append(WaveBranch(name, commit, wave, bool(tree), anchors))
    return tuple(found)


def pending_refs(repo: Repository, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(ref, commit) of the refs that keep commits until a branch has them."""
    fields = ("%(refname)", "%(objectname)")
    return tuple((ref, commit) for ref, commit in _refs(repo, environ, fields, PENDING_REFS))


def merged_into(branches: BranchView, commit: str, started_from: str | None) -> str:
    """The branch that contains `commit`: the one that the wave started from (if unknown, the one
    checked out), or a remote's default branch; else ""."""
    start = started_from or branches.repository.branch
    known = [start] if start and start != "HEAD" else []
    tips = {name: branches.tip(name) for name in known}
    # Default branches of the remotes as last fetched.
    fields = ("%(refname)", "%(symref)", "%(objectname)")
    seen = [*_refs(branches.repository, branches.environ, fields, REMOTE_HEADS)]
    commits = {ref: at for ref, _, at in seen}
    named = {ref: symref for ref, symref, _ in seen if symref}
    for remote in {ref.split("/")[2] for ref in commits}:
        usual = (f"{REMOTE_HEADS}{remote}/{name}" for name in _USUAL)
        default = named.get(f"{REMOTE_HEADS}{remote}/HEAD") or next(filter(commits.get, usual), "")
        if default in commits:
            tips[default.removeprefix(REMOTE_HEADS)] = commits[default]
    return next((n for n, tip in tips.items() if tip and branches.contains(tip, commit)), "")


def forget(repo: Repository, ref: str, commit: str, environ: Mapping[str, str]) -> None:
    """Delete a ref, if it still is at `commit`. No hook runs. Raises GitError."""
    drop = (f"--git-dir={repo.git_dir}", "update-ref", "--no-deref", "-d", ref, commit)
    run_git(drop, cwd=repo.top, env=private_environment(environ, repo.git_dir))


def _refs(
    repo: Repository, environ: Mapping[str, str], fields: Iterable[str], *patterns: str
) -> Iterator[list[str]]:
    asked = (f"--git-dir={repo.git_dir}", "for-each-ref", "--format=" + "%00".join(fields))
    listing = run_git((*asked, *patterns), cwd=repo.top, env=user_environment(environ)).stdout
    for line in text(listing).splitlines():
        yield line.split("\0")
