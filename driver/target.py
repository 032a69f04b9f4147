"""The branch that a wave started from: where it is by now, and which items fit on it.

Looks, fetches into the git dir of ours, and compares paths; what follows from it is the ship's.
A remote that cannot be asked is no reason to stop, only to say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from driver.git import tip_of
from driver.ground import RepositoryGround
from driver.outcome import Change
from driver.remote import PushResult, contains, fetch_head


@dataclass(frozen=True, slots=True)
class Head:
    """The commit to put items on; `note` is what people should know of how it was found."""

    commit: str
    note: str = ""


def look(ground: RepositoryGround, known: str) -> Head:
    """Where the branch is by now, here or on the remote if it is further there; `known` where that
    cannot be told. That nobody but us moved it here is seen by who compares the checkout."""
    repository, remote, git = ground.repository, ground.remote, ground.git
    if repository.branch is None:
        return Head(known)
    here = tip_of(repository, repository.branch, ground.environ)
    if here and here != known and contains(git.path, git.env, here, known):
        known = here
    if remote is None:
        return Head(known)
    there = fetch_head(git.path, ground.environ, remote, repository.branch, known)
    if isinstance(there, PushResult):
        told = f"whether {repository.branch} moved on meanwhile is not known: {there.reason}"
        return Head(known, told)
    if there in ("", known) or contains(git.path, git.env, known, there):
        return Head(known)
    if contains(git.path, git.env, there, known):
        return Head(there)
    return Head(known, f"{repository.branch} and its like on the remote went different ways")


def are_there(mine: Sequence[Change], theirs: Sequence[Change]) -> bool:
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
