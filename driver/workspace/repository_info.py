"""What a cycle and its wave have found out of places on disk: git is asked about each but once.

Good for as long as nobody is expected to move a repository: one cycle and the wave in it. What a
branch is at is no part of it; a wave asks for that when it begins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driver.git.command import run_git, text, user_environment
from driver.git.private_git import Repository, find_remote, open_repository, toplevel_of
from driver.git.repository import check_usable, is_git_dir
from driver.git.signing import signer_of, signing_problem
from driver.workspace.base_branch import check_target
from state_store.documents.errors import CannotRunError


@dataclass(frozen=True)
class RepositoryInfo:
    """`environ` is what git is run with."""

    environ: Mapping[str, str]
    _tops: dict[Path, Path | None] = field(default_factory=dict)
    _git_dirs: dict[Path, bool] = field(default_factory=dict)
    _repositories: dict[Path, Repository] = field(default_factory=dict)
    _sound: set[Path] = field(default_factory=set)
    _signing: set[Path] = field(default_factory=set)
    _targets: set[tuple[Path, str]] = field(default_factory=set)

    def top_of(self, folder: Path) -> Path | None:
        """The top of the checkout that `folder` is in; None outside any."""
        if folder not in self._tops:
            self._tops[folder] = toplevel_of(folder, self.environ)
        return self._tops[folder]

    def is_git_dir(self, folder: Path) -> bool:
        """Whether a folder outside any checkout is, or is in, a git dir."""
        if folder not in self._git_dirs:
            self._git_dirs[folder] = is_git_dir(folder, self.environ)
        return self._git_dirs[folder]

    def _opened(self, top: Path) -> Repository:
        """The checkout at `top` as it was first seen: its head may be another by now."""
        if top not in self._repositories:
            self._repositories[top] = open_repository(top, self.environ)
        return self._repositories[top]

    def check_repository(self, top: Path, remote: str | None = None) -> None:
        """Raise InputError or CannotRunError when no wave can work on the checkout at `top`, or
        ship from there to the `remote` that is asked for."""
        if top not in self._sound:
            repository = self._opened(top)
            check_usable(repository, self.environ)
            if remote is not None:
                find_remote(repository, self.environ, remote)
            self._sound.add(top)

    def check_target(self, top: Path, remote: str | None, target: str) -> None:
        """Raise InputError when there is no such branch, here or on the remote of that name."""
        if (top, target) not in self._targets:
            check_target(self._opened(top), self.environ, remote, target)
            self._targets.add((top, target))

    def check_keeping(self, top: Path, remote: str | None, *, onto_target: bool) -> None:
        """Raise CannotRunError where the repository cannot keep commits and a branch of ours. One
        that keeps nothing at all needs not, if its branches go to a remote."""
        repository = self._opened(top)
        is_sealed = not os.access(repository.objects, os.W_OK)
        if is_sealed and not onto_target and find_remote(repository, self.environ, remote):
            return
        for folder in (repository.objects, repository.common_dir / "refs"):
            if not os.access(folder, os.W_OK):
                raise CannotRunError(
                    f"{folder} cannot be written, and {top} is to keep what ships: make"
                    ' it writable, run on a clone of it, or set [ship] mode = "none"'
                )

    def check_signing(self, top: Path, sign: str) -> None:
        """Raise CannotRunError when commits there are to be signed and nobody can without a
        prompt."""
        if top in self._signing:
            return
        repository = self._opened(top)
        signer = signer_of(repository, self.environ, sign)
        if signer is not None and (why := signing_problem(signer, repository)):
            raise CannotRunError(
                f"commits in {top} are to be signed, which does not work without a prompt: {why};"
                ' unlock the key for its agent, or set [ship] sign = "never"'
            )
        self._signing.add(top)

    def committed_text(self, top: Path, path: str, branch: str | None = None) -> str | None:
        """A file of the commit that `branch`, or else the checkout at `top`, is on; None where it
        has no such file."""
        env = user_environment(self.environ)
        at = f"refs/heads/{branch}" if branch else "HEAD"
        found = run_git(("cat-file", "blob", f"{at}:{path}"), cwd=top, env=env, accept=(0, 1, 128))
        return text(found.stdout) if found.ok else None

    def has_branch(self, top: Path, branch: str) -> bool:
        """Whether the repository has the branch itself, and not only its remote."""
        asked = ("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        env = user_environment(self.environ)
        return run_git(asked, cwd=top, env=env, accept=(0, 1, 128)).ok

    def committed_as(self, top: Path, path: str, branch: str | None = None) -> tuple[str, int]:
        """Mode and size of the same file; ("", 0) where there is none, and no size of a folder."""
        env = user_environment(self.environ)
        at = f"refs/heads/{branch}" if branch else "HEAD"
        asked = ("--literal-pathspecs", "ls-tree", "-l", "-z", "--full-tree", at, "--", path)
        found = run_git(asked, cwd=top, env=env, accept=(0, 1, 128))
        told = text(found.stdout).partition("\t")[0].split()
        return (told[0], int(told[3]) if told[3].isdigit() else 0) if len(told) == 4 else ("", 0)
