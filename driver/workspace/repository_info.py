"""Facts about folders and repositories on disk, read once for a cycle and its wave. Commits of
branches are not among them; a wave reads those when it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

from driver.execution.processes import Captured
from driver.git.branch_view import BranchView
from driver.git.command import run_git, text, user_environment
from driver.git.remote import find_remote
from driver.git.repository import (
    Repository,
    check_usable,
    configured,
    is_git_dir,
    may_be_in_repository,
    open_repository,
    opened_again,
    toplevel_of,
)
from driver.git.signing import NEVER, signer_of, signing_problem
from state_store.documents.errors import CannotRunError, InputError, TidegateError
from state_store.documents.files import is_folder
from state_store.values.lazy_dataclass import dataclass, field, replace

Found = TypeVar("Found")


@dataclass(frozen=True)
class RepositoryInfo:
    """Facts about repositories, read with git in the environment `environ`. Errors are not
    cached."""

    environ: Mapping[str, str]
    _known: dict[tuple[object, ...], object] = field(default_factory=dict)

    def top_of(self, folder: Path) -> Path | None:
        """The top of the checkout around `folder`; None outside any checkout."""
        return self._once(("top", folder), lambda: self._top_of(folder))

    def _top_of(self, folder: Path) -> Path | None:
        # One process tells all that will be asked of a repository that can be used.
        with suppress(TidegateError):
            if is_folder(folder) and may_be_in_repository(folder):
                opened = open_repository(folder, self.environ)
                self._known.setdefault(("opened", opened.top.resolve()), opened)
                return opened.top
        return toplevel_of(folder, self.environ)

    def is_git_dir(self, folder: Path) -> bool:
        """True if a folder outside any checkout is, or is in, a git dir."""
        return self._once(("git dir", folder), lambda: is_git_dir(folder, self.environ))

    def check_repository(self, top: Path, remote: str | None = None) -> None:
        """Raise InputError or CannotRunError if no wave can use the checkout at `top`, or ship to
        `remote`."""

        def check() -> None:
            repository = self._opened(top)
            check_usable(repository, self.environ)
            if remote is not None:
                find_remote(repository, self.environ, remote, settings=self.settings_of(top))

        self._once(("usable", top), check)

    def check_target(self, top: Path, remote: str | None, target: str) -> None:
        """Raise InputError if branch `target` exists neither here nor on the remote, which the
        settings name `remote`."""
        self._once(("target", top, target), lambda: self._check_target(top, remote, target))

    def _check_target(self, top: Path, name: str | None, target: str) -> None:
        repository, environ = self._opened(top), self.environ
        asked = ("check-ref-format", f"refs/heads/{target}")
        if not self._git(top, *asked, accept=(0, 1, 129)).ok:
            raise InputError(f"--target {target}: a branch cannot have this name")
        if BranchView(repository, environ).tip(target):
            return
        remote = find_remote(replace(repository, branch=target), environ, name)
        there = BranchView(repository, environ, remote).remote_tip(target)
        if not isinstance(there, str):
            why = f"its remote {remote.name if remote else ''} did not answer: {there.reason}"
            raise CannotRunError(f"{top} has no branch {target}, and {why}")
        if not there:
            too = f", and neither has its remote {remote.name}" if remote else ""
            raise InputError(f"--target {target}: {top} has no such branch{too}; name another")

    def check_keeping(self, top: Path, remote: str | None, *, onto_target: bool) -> None:
        """Raise CannotRunError if the repository cannot store commits and a branch of Tidegate. A
        repository with read-only objects need not, if its branches go to a remote."""
        repository = self._opened(top)
        is_sealed = not os.access(repository.objects, os.W_OK)
        if is_sealed and not onto_target:
            settings = self.settings_of(top)
            if find_remote(repository, self.environ, remote, settings=settings):
                return
        for folder in (repository.objects, repository.common_dir / "refs"):
            if not os.access(folder, os.W_OK):
                raise CannotRunError(
                    f"{folder} cannot be written, but {top} must store shipped work: make"
                    ' it writable, run on a clone of it, or set [ship] mode = "none"'
                )

    def check_signing(self, top: Path, sign: str) -> None:
        """Raise CannotRunError if commits in `top` must be signed and signing needs a prompt."""

        def check() -> None:
            repository = self._opened(top)
            settings = self.settings_of(top) if sign != NEVER else ()
            signer = signer_of(repository, self.environ, sign, settings)
            if signer is not None and (why := signing_problem(signer, repository)):
                raise CannotRunError(
                    f"commits in {top} must be signed, but signing needs a prompt:"
                    f' {why}; unlock the key for its agent, or set [ship] sign = "never"'
                )

        self._once(("signing", top), check)

    def committed_text(self, top: Path, path: str, branch: str | None = None) -> str | None:
        """The content of a committed file, on `branch` or at HEAD of the checkout; None
        without it."""
        found = self._git(top, "cat-file", "blob", f"{_commit(branch)}:{path}")
        return text(found.stdout) if found.ok else None

    def committed_as(self, top: Path, path: str, branch: str | None = None) -> tuple[str, int]:
        """Mode and size of the same file, ("", 0) without it. A folder has size 0."""
        asked = ("ls-tree", "-l", "-z", "--full-tree", _commit(branch), "--", path)
        found = self._git(top, "--literal-pathspecs", *asked)
        words = text(found.stdout).partition("\t")[0].split()
        if len(words) != 4:
            return "", 0
        return words[0], int(words[3]) if words[3].isdigit() else 0

    def has_branch(self, top: Path, branch: str) -> bool:
        """True if the repository itself has the branch, and not only its remote."""
        return self._git(top, "rev-parse", "--verify", "--quiet", _commit(branch)).ok

    def opened_at(self, top: Path) -> Repository:
        """The checkout at `top` with its present commit. Raises as `open_repository` does."""
        return opened_again(self._opened(top), self.environ)

    def settings_of(self, top: Path) -> list[tuple[str, str]]:
        """The user's git configuration in the checkout, as `configured` lists it."""
        return self._once(("settings", top), lambda: configured(self._opened(top), self.environ))

    def _opened(self, top: Path) -> Repository:
        """The checkout at `top`, read once: its head may have moved since."""
        return self._once(("opened", top), lambda: open_repository(top, self.environ))

    def _git(self, top: Path, *args: str, accept: tuple[int, ...] = (0, 1, 128)) -> Captured:
        return run_git(args, cwd=top, env=user_environment(self.environ), accept=accept)

    def _once(self, key: tuple[object, ...], find: Callable[[], Found]) -> Found:
        if key not in self._known:
            self._known[key] = find()
        return cast("Found", self._known[key])


def _commit(branch: str | None) -> str:
    return f"refs/heads/{branch}" if branch else "HEAD"
