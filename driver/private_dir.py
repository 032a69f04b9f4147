"""The bare git dir of our own: made, opened again, and git started in it.

It borrows the user's objects; no configuration, hook or index of anybody else counts in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from driver.execution.processes import Captured
from driver.git_command import (
    BULK_TIMEOUT_S,
    LOCAL_TIMEOUT_S,
    private_environment,
    raw,
    run_git,
    text,
)
from driver.objects import Recent
from driver.repository import Repository, borrow_objects


@dataclass(frozen=True, slots=True)
class PrivateDir:
    """A bare git dir no agent can write; safe to use from many threads, each with its own index."""

    path: Path
    object_format: str
    environ: Mapping[str, str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    _recent: Recent = field(default_factory=Recent, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path, repo: Repository, environ: Mapping[str, str]) -> Self:
        """Make it at `path`, which may not exist yet. Nothing is copied but a shallow file."""
        path.mkdir(parents=True, exist_ok=True)
        env = private_environment(environ, path)
        made = ("init", "--quiet", "--bare", "--template=", f"--object-format={repo.object_format}")
        run_git((*made, str(path)), cwd=path, env=env)
        borrow_objects(path, repo)
        return cls(path, repo.object_format, environ, env)

    @classmethod
    def reopen(cls, path: Path, environ: Mapping[str, str]) -> Self:
        """One that an earlier run made."""
        env = private_environment(environ, path)
        asked = (f"--git-dir={path}", "rev-parse", "--show-object-format")
        return cls(path, text(run_git(asked, cwd=path, env=env).stdout).strip(), environ, env)

    @property
    def _no_object(self) -> str:
        return "0" * (64 if self.object_format == "sha256" else 40)

    @property
    def _any_object(self) -> str:
        return "f" * len(self._no_object)

    def _git(self, *args: str, stdin: bytes = b"", timeout_s: float = LOCAL_TIMEOUT_S) -> Captured:
        argv = (f"--git-dir={self.path}", *args)
        return run_git(argv, cwd=self.path, env=self.env, stdin=stdin, timeout_s=timeout_s)

    def _in(
        self,
        work_tree: Path,
        index: Path,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = LOCAL_TIMEOUT_S,
        accept: Sequence[int] = (0,),
    ) -> Captured:
        argv = (f"--git-dir={self.path}", f"--work-tree={work_tree}", *args)
        env = {**self.env, "GIT_INDEX_FILE": str(index)}
        return run_git(
            argv, cwd=work_tree, env=env, stdin=stdin, timeout_s=timeout_s, accept=accept
        )

    def _update_index(self, work_tree: Path, index: Path, how: str, lines: list[str]) -> None:
        if lines:
            fed = b"".join(raw(line) + b"\0" for line in lines)
            self._in(work_tree, index, "update-index", "-z", "--add", "--remove", "--replace", how,
                     stdin=fed, timeout_s=BULK_TIMEOUT_S)  # fmt: skip

    def _temporary_index(self) -> _TemporaryIndex:
        return _TemporaryIndex(self.path / f"index-{uuid.uuid4().hex}")

    @staticmethod
    def _id(done: Captured) -> str:
        return text(done.stdout).strip()


@dataclass(frozen=True, slots=True)
class _TemporaryIndex:
    path: Path

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
