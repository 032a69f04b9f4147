"""Copies of the user's own git hooks as they were when the wave began, to be run at the ship.

A hook that is a file of the repository comes from the base commit, never from a checkout.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driver.filesystem.tree import Signature, snapshot
from driver.git.command import raw, records
from driver.git.private_git import PrivateGit, Repository
from driver.git.remote import Remote
from driver.git.repository import git_in
from state_store.documents.errors import CannotRunError

PRE_COMMIT, COMMIT_MSG, PRE_PUSH = "pre-commit", "commit-msg", "pre-push"
HOOKS = (PRE_COMMIT, COMMIT_MSG, PRE_PUSH)
_MAX_FILES = 2000
_MAX_BYTES = 1 << 26
_NOT_COPIED = (".git", "node_modules")


@dataclass(frozen=True, slots=True)
class UserHooks:
    """The copies; `folder` is None where the user has none of HOOKS.

    `taken` is the snapshot of `root`, where all copies are, from right after the copying.
    """

    folder: Path | None = None
    root: Path | None = None
    taken: Mapping[str, Signature] = field(default_factory=dict)

    def path(self, name: str) -> Path | None:
        """The program of one hook; None where git would run none."""
        path = self.folder / name if self.folder else None
        return path if path and path.is_file() and os.access(path, os.X_OK) else None

    def seen(self) -> Mapping[str, Signature]:
        """A snapshot of `root` now; `taken` is the one from right after the copying."""
        return snapshot(self.root) if self.root else {}


def copy_hooks(
    repository: Repository, git: PrivateGit, environ: Mapping[str, str], into: Path
) -> UserHooks:
    """Copy the hooks of a repository to `into`, with what else their folder holds.

    Raises GitError, and CannotRunError for a folder that is too large to be copied.
    """
    source = hooks_folder(repository, environ)
    inside = _inside(repository, source)
    if inside is None:
        if not any((source / name).is_file() for name in HOOKS):
            return UserHooks()
        _copy(source, into / "hooks", repository, git)
        return UserHooks(into / "hooks", into, snapshot(into))
    # With all of the folder at the top: `.husky/_/pre-commit` goes on to `.husky/pre-commit`.
    first = inside.parts[0] if inside.parts else ""
    if tree := git.subtree(repository.head, first):
        git.checkout(tree, into / first, into.with_suffix(".index"))
    if source.is_dir() and inside.parts:
        _copy(source, into / inside, repository, git)
    return UserHooks(into / inside, into, snapshot(into)) if into.is_dir() else UserHooks()


def hooks_folder(repository: Repository, environ: Mapping[str, str]) -> Path:
    """The folder in which git looks for the user's hooks."""
    asked = ("config", "-z", "--type=path", "--get-all", "core.hooksPath")
    done = git_in(repository, environ, *asked, accept=(0, 1))
    theirs = records(done.stdout)[:-1]  # the last one is ours, which switches hooks off
    return repository.top / theirs[-1] if theirs else repository.common_dir / "hooks"


def remote_refs(repository: Repository, remote: str, environ: Mapping[str, str]) -> bytes:
    """A remote's branches as the user's repository last saw them: lines of a `packed-refs`."""
    asked = ("for-each-ref", "--format=%(objectname) %(refname)", f"refs/remotes/{remote}/")
    return git_in(repository, environ, *asked).stdout


def show_remote(git_dir: Path, remote: Remote, refs: bytes) -> None:
    """Let hooks in a git dir of ours see the remote, so that they can tell what is new."""
    parts = (remote.name, remote.url)
    name, url = (part.replace("\\", "\\\\").replace('"', '\\"') for part in parts)
    lines = f'[remote "{name}"]\n\turl = "{url}"\n\tfetch = "+refs/heads/*:refs/remotes/{name}/*"\n'
    with (git_dir / "config").open("ab") as config:
        config.write(raw(lines))
    with (git_dir / "packed-refs").open("ab") as known:
        known.write(refs)


def _inside(repository: Repository, folder: Path) -> Path | None:
    """The folder as seen from the top of the checkout; None when it is no part of it."""
    whole = Path(os.path.realpath(folder))
    for git_dir in (repository.git_dir, repository.common_dir):
        if whole.is_relative_to(os.path.realpath(git_dir)):
            return None
    top = Path(os.path.realpath(repository.top))
    return whole.relative_to(top) if whole.is_relative_to(top) else None


def _copy(source: Path, target: Path, repository: Repository, git: PrivateGit) -> None:
    """Copy the files that are not in the base; for a link the file that it leads to, as the base
    has that one. Raises CannotRunError for a folder that is too large."""
    base = frozenset(git.paths_in(git.tree_of(repository.head)))
    top = Path(os.path.realpath(repository.top))
    count = size = 0
    for path in _files(source):
        real = Path(os.path.realpath(path))
        tracked = real.relative_to(top).as_posix() if real.is_relative_to(top) else ""
        copy = target / path.relative_to(source)
        if not real.is_file() or copy.exists():
            continue
        count, size = count + 1, size + real.stat().st_size
        if count > _MAX_FILES or size > _MAX_BYTES:
            raise CannotRunError(
                f"{source} is too large for a folder of hooks: have core.hooksPath name one with"
                ' hooks only, or set [ship] hooks = "off"'
            )
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real, copy)
        if tracked in base:
            copy.write_bytes(git.blob(f"{repository.head}:{tracked}"))


def _files(folder: Path) -> Iterator[Path]:
    """The paths below a folder that may belong to a hook."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_COPIED]
        yield from (Path(where, name) for name in names)
