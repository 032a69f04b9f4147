"""Restores leftover work as a patch file or as a branch. The user's checkout, index and config are
not changed: the branch is made in a private git dir, on the commit that the work began from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from driver.filesystem.temporary import scratch_folder
from driver.git.branch_view import HEADS
from driver.git.commit_spec import CommitSpec
from driver.git.private_git import GitError, PrivateGit, Repository, open_repository
from driver.maintenance.leftovers import Leftover
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import read_bytes, write_bytes_atomic


def restore_patch(one: Leftover, target: Path) -> None:
    """Write the patch to `target`. Raises InputError if there is no patch, or if `target`
    exists."""
    if one.patch is None:
        raise InputError(f"{one.name} is on branch {one.branch} already: push or merge that")
    if target.exists():
        raise InputError(f"{target} exists: name another file")
    write_bytes_atomic(target, read_bytes(one.patch))


def restore_branch(
    one: Leftover, branch: str, repo: Path | None, environ: Mapping[str, str]
) -> tuple[Repository, str]:
    """Make `branch` from the work, on its base commit; returns (repository, commit). `repo`
    overrides the repository that the patch names. A second call gives the same branch. Raises
    InputError for a used or invalid name, CannotRunError if the patch does not fit the commit."""
    if one.patch is None:
        raise InputError(f"{one.name} is on branch {one.branch} already: push or merge that")
    where = repo or one.origin.top
    if where is None:
        raise InputError(f"{one.name} names no repository: name it with --repo")
    repository = open_repository(where, environ)
    with scratch_folder() as folder:
        git = PrivateGit.create(folder / "private.git", repository, environ)
        commit = _committed(git, one, one.patch, repository)
        try:
            git.create_ref(repository, commit, f"{HEADS}{branch}")
        except GitError as error:
            raise InputError(f"branch {branch} was not made: {error}; name another") from error
    return repository, commit


def _committed(git: PrivateGit, one: Leftover, patch: Path, repository: Repository) -> str:
    base = one.origin.base
    if not base:
        raise CannotRunError(
            f"{one.name} names no base commit: write the work out with --patch FILE"
        )
    try:
        base_tree = git.tree_of(base)
        tree = git.apply(base_tree, read_bytes(patch))
        # The patch's own date, so that the same work gives the same commit.
        date = f"{int(one.written)} +0000"
        message = f"Recovered: {one.item}\n\nNot proven. From wave {one.wave}.\n"
        changes = tuple(git.changes(base_tree, tree))
        spec = CommitSpec(message, changes, "tidegate", "tidegate@localhost", date)
        (made,) = git.import_commits(base, [spec])
    except GitError as error:
        raise CannotRunError(
            f"{one.name} cannot be put on commit {base[:12]} of {repository.top}: {error}; write "
            f"it out with --patch FILE"
        ) from error
    if made.tree != tree:
        raise AssertionError("a commit's tree is not the tree that was restored")
    return made.commit
