"""Copies the user's git hooks at the start of the wave, to be run at the ship.

A hook that is a file of the repository comes from the base commit, never from a checkout.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from driver.filesystem.tree import Signature, snapshot
from driver.git.command import raw, records
from driver.git.private_git import PrivateGit, Repository
from driver.git.remote import Remote
from driver.git.repository import git_in
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field

PRE_COMMIT, COMMIT_MSG, PRE_PUSH = "pre-commit", "commit-msg", "pre-push"
HOOKS = (PRE_COMMIT, COMMIT_MSG, PRE_PUSH)
HOOKS_REMEDY = (
    "run what installs your hooks (such as npm install for husky), correct core.hooksPath, or set"
    ' [ship] hooks = "off"'
)
_MAX_FILES = 2000
_MAX_BYTES = 1 << 26
_NOT_COPIED = (".git", "node_modules")


@dataclass(frozen=True, slots=True)
class UserHooks:
    """The copied hooks. `folder` is None if the user has none of HOOKS.

    `taken` is the snapshot of `root`, the folder of all copies, right after copying.
    """

    folder: Path | None = None
    root: Path | None = None
    taken: Mapping[str, Signature] = field(default_factory=dict)

    def path(self, name: str) -> Path | None:
        """The program of a hook; None if git would run none."""
        path = self.folder / name if self.folder else None
        return path if path and path.is_file() and os.access(path, os.X_OK) else None

    def seen(self) -> Mapping[str, Signature]:
        """A snapshot of `root` now, to compare with `taken`."""
        return snapshot(self.root) if self.root else {}


def copy_hooks(
    repository: Repository,
    git: PrivateGit,
    environ: Mapping[str, str],
    into: Path,
    settings: Sequence[tuple[str, str]] = (),
) -> UserHooks:
    """Copy the hooks of a repository, with their whole folder, to `into`. `settings` are those that
    are `configured`, if they were just read.

    Raises GitError, and CannotRunError if the folder is too large.
    """
    source = hooks_folder(repository, environ, settings)
    inside = _inside(repository, source)
    if inside is None:
        if not any((source / name).is_file() for name in HOOKS):
            return UserHooks()
        _copy(source, into / "hooks", repository, git)
        return UserHooks(into / "hooks", into, snapshot(into))
    # With the whole top folder: `.husky/_/pre-commit` calls `.husky/pre-commit`.
    first = inside.parts[0] if inside.parts else ""
    if tree := git.subtree(repository.head, first):
        git.checkout(tree, into / first, into.with_suffix(".index"))
    if source.is_dir() and inside.parts:
        _copy(source, into / inside, repository, git)
    return UserHooks(into / inside, into, snapshot(into)) if into.is_dir() else UserHooks()


def missing_hooks(
    repository: Repository,
    environ: Mapping[str, str],
    settings: Sequence[tuple[str, str]] = (),
) -> str:
    """A sentence about a folder of hooks that the user's git is told of and that exists neither on
    disk nor in the base; "" for none. `settings` are those that are `configured`, if they were just
    read."""
    folder = hooks_folder(repository, environ, settings)
    if folder == repository.common_dir / "hooks" or os.path.lexists(folder):
        return ""
    if inside := _inside(repository, folder):
        asked = ("cat-file", "-e", f"{repository.head}:{inside.as_posix()}")
        if git_in(repository, environ, *asked, accept=(0, 1, 128)).ok:
            return ""
    return f"core.hooksPath names {folder}, which does not exist: no hook of yours runs"


def hooks_folder(
    repository: Repository,
    environ: Mapping[str, str],
    settings: Sequence[tuple[str, str]] = (),
) -> Path:
    """The folder in which git looks for the user's hooks. `settings` are those that are
    `configured`, if they were just read."""
    if sum(key == "core.hookspath" for key, _ in settings) == 1:  # ours, as below
        return repository.common_dir / "hooks"
    asked = ("config", "-z", "--type=path", "--get-all", "core.hooksPath")
    done = git_in(repository, environ, *asked, accept=(0, 1))
    theirs = records(done.stdout)[:-1]  # the last value is ours, which switches hooks off
    return repository.top / theirs[-1] if theirs else repository.common_dir / "hooks"


def remote_refs(repository: Repository, remote: str, environ: Mapping[str, str]) -> bytes:
    """The remote-tracking branches of the user's repository, as lines of `packed-refs`."""
    asked = ("for-each-ref", "--format=%(objectname) %(refname)", f"refs/remotes/{remote}/")
    return git_in(repository, environ, *asked).stdout


def show_remote(git_dir: Path, remote: Remote, refs: bytes) -> None:
    """Add the remote to a git dir of ours, so that hooks can find the new commits."""
    parts = (remote.name, remote.url)
    name, url = (part.replace("\\", "\\\\").replace('"', '\\"') for part in parts)
    lines = f'[remote "{name}"]\n\turl = "{url}"\n\tfetch = "+refs/heads/*:refs/remotes/{name}/*"\n'
    with (git_dir / "config").open("ab") as config:
        config.write(raw(lines))
    with (git_dir / "packed-refs").open("ab") as known:
        known.write(refs)


def _inside(repository: Repository, folder: Path) -> Path | None:
    """The path of `folder` relative to the checkout; None if it is outside."""
    whole = Path(os.path.realpath(folder))
    for git_dir in (repository.git_dir, repository.common_dir):
        if whole.is_relative_to(os.path.realpath(git_dir)):
            return None
    top = Path(os.path.realpath(repository.top))
    return whole.relative_to(top) if whole.is_relative_to(top) else None


def _copy(source: Path, target: Path, repository: Repository, git: PrivateGit) -> None:
    """Copy the files that are not in the base. For a link, copy its target, from the base if it is
    there. Raises CannotRunError if the folder is too large."""
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
    """The files below a folder that may belong to a hook."""
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_COPIED]
        yield from (Path(where, name) for name in names)
