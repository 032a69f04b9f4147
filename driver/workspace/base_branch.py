"""The branch that a wave starts from: its head at the start and at the ship, and its changes. A
remote that does not answer does not stop a wave, but is reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from driver.domain.commit_message import pending_ref
from driver.domain.results import Change
from driver.git.branch_view import BranchView
from driver.git.private_git import PrivateGit, Repository
from driver.git.push_result import PushResult
from driver.git.remote import Remote
from driver.workspace.repository_context import GitContext
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Head:
    """The commit to put items on. `note` is the reason why it may not be the newest commit."""

    commit: str
    note: str = ""


def at_target(repo: Repository, git: PrivateGit, remote: Remote | None, to: str) -> Repository:
    """The repository at the head of branch `to`: the local head or, if it is ahead, the remote
    head. A ref keeps a commit that only the remote has until the wave ends. Raises CannotRunError
    if the branch is not local and the remote does not answer."""
    branches = BranchView(repo, git.environ, remote, git)
    here = branches.tip(to)
    there = branches.fetched_tip(to, here)
    if isinstance(there, PushResult):
        if not here:
            raise CannotRunError(f"{repo.top} has no branch {to}: {there.reason}")
    elif there not in ("", here) and (not here or branches.contains(there, here)):
        git.create_ref(repo, there, pending_ref(there))
        here = there
    return replace(repo, head=here, branch=to)


def current_head(context: GitContext, known: str) -> Head:
    """The head of the branch now, on the remote if it is ahead; `known` if the head is unknown. The
    local branch is not read again: only Tidegate moves it, and the checkout guard reports other
    moves."""
    branch, branches, moved_to = context.repository.branch, context.branches, context.moved_to
    if branch is None:
        return Head(known)
    if moved_to and moved_to != known and branches.contains(moved_to, known):
        known = moved_to
    there = branches.fetched_tip(branch, known)
    if isinstance(there, PushResult):
        return Head(known, f"Tidegate could not check if {branch} moved on: {there.reason}")
    if there in ("", known) or branches.contains(known, there):
        return Head(known)
    if branches.contains(there, known):
        return Head(there)
    return Head(known, f"{branch} and the remote's {branch} have diverged")


def already_made(mine: Sequence[Change], theirs: Sequence[Change]) -> bool:
    """True if `theirs` contains all these changes, with the same content."""
    changed = {(change.path, change.mode, change.blob) for change in theirs}
    return all((change.path, change.mode, change.blob) in changed for change in mine)


def conflicts(mine: Sequence[Change], theirs: Sequence[Change]) -> tuple[str, ...]:
    """The paths of an item that conflict with changes of others."""
    changed = {change.path: change for change in theirs}
    files = {path for path, change in changed.items() if not change.deleted}
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    return tuple(change.path for change in mine if _collides(change, changed, files, folders))


def _collides(mine: Change, changed: dict[str, Change], files: set[str], folders: set[str]) -> bool:
    """A change collides with a different change of its path, and a file with a folder of
    its name."""
    theirs = changed.get(mine.path)
    if theirs is not None:
        return (theirs.mode, theirs.blob) != (mine.mode, mine.blob)
    above = map(str, PurePosixPath(mine.path).parents)
    return not mine.deleted and (mine.path in folders or any(folder in files for folder in above))
