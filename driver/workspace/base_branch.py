"""The branch that a wave starts from: which one, where it is by now, and which items fit on it.

Looks, fetches into the git dir of ours, and compares paths; what follows from it is the ship's.
A remote that cannot be asked is no reason to stop, only to say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from driver.domain.commit_message import pending_ref
from driver.domain.results import Change
from driver.git.branch_view import BranchView
from driver.git.command import run_git, user_environment
from driver.git.private_git import PrivateGit, Repository, find_remote
from driver.git.push_result import PushResult
from driver.git.remote import Remote
from driver.workspace.repository_context import GitContext
from state_store.documents.errors import CannotRunError, InputError


@dataclass(frozen=True, slots=True)
class Head:
    """The commit to put items on; `note` is what people should know of how it was found."""

    commit: str
    note: str = ""


def check_target(repo: Repository, environ: Mapping[str, str], name: str | None, to: str) -> None:
    """Raise InputError when a repository has no branch `to`, neither here nor on its remote, whose
    name in the settings is `name`."""
    asked = ("check-ref-format", f"refs/heads/{to}")
    if not run_git(asked, cwd=repo.top, env=user_environment(environ), accept=(0, 1, 129)).ok:
        raise InputError(f"--target {to}: that is no name of a branch")
    if BranchView(repo, environ).tip(to):
        return
    remote = find_remote(replace(repo, branch=to), environ, name)
    there = BranchView(repo, environ, remote).remote_tip(to)
    if not isinstance(there, str):
        why = f"its remote {remote.name if remote else ''} cannot be asked: {there.reason}"
        raise CannotRunError(f"{repo.top} has no branch {to}, and {why}")
    if not there:
        beside = f", and neither has its remote {remote.name}" if remote else ""
        raise InputError(f"--target {to}: {repo.top} has no such branch{beside}; name another")


def at_target(repo: Repository, git: PrivateGit, remote: Remote | None, to: str) -> Repository:
    """The repository as seen from the head of branch `to`, here or on the remote if it is further
    there; what only the remote has is kept here below a ref until the wave has ended.

    Raises CannotRunError where the branch is not here and the remote cannot be asked.
    """
    branches = BranchView(repo, git.environ, remote, git)
    here = branches.tip(to)
    there = branches.fetched_tip(to, here)
    if isinstance(there, PushResult) and not here:
        raise CannotRunError(f"{repo.top} has no branch {to}: {there.reason}")
    if isinstance(there, PushResult) or there in ("", here):
        return replace(repo, head=here, branch=to)
    if not here or branches.contains(there, here):
        git.create_ref(repo, there, pending_ref(there))
        here = there
    return replace(repo, head=here, branch=to)


def current_head(context: GitContext, known: str) -> Head:
    """Where the branch is by now, on the remote if it is further there; `known` where that cannot
    be told. Here only we move it, or who compares the checkout sees it."""
    branch, branches, moved_to = context.repository.branch, context.branches, context.moved_to
    if branch is None:
        return Head(known)
    if moved_to and moved_to != known and branches.contains(moved_to, known):
        known = moved_to
    there = branches.fetched_tip(branch, known)
    if isinstance(there, PushResult):
        return Head(known, f"whether {branch} moved on meanwhile is not known: {there.reason}")
    if there in ("", known) or branches.contains(known, there):
        return Head(known)
    if branches.contains(there, known):
        return Head(there)
    return Head(known, f"{branch} and its like on the remote went different ways")


def already_made(mine: Sequence[Change], theirs: Sequence[Change]) -> bool:
    """Whether others made all these changes too, to the letter."""
    changed = {(change.path, change.mode, change.blob) for change in theirs}
    return all((change.path, change.mode, change.blob) in changed for change in mine)


def conflicts(mine: Sequence[Change], theirs: Sequence[Change]) -> tuple[str, ...]:
    """The paths of an item that others changed too since, or that are in the way of theirs."""
    changed = {change.path: change for change in theirs}
    files = {path for path, change in changed.items() if not change.deleted}
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    return tuple(change.path for change in mine if _collides(change, changed, files, folders))


def _collides(mine: Change, changed: dict[str, Change], files: set[str], folders: set[str]) -> bool:
    theirs = changed.get(mine.path)
    if theirs is not None:
        return (theirs.mode, theirs.blob) != (mine.mode, mine.blob)
    return not mine.deleted and (mine.path in folders or any(a in files for a in _above(mine.path)))


def _above(path: str) -> Iterator[str]:
    return map(str, PurePosixPath(path).parents)
