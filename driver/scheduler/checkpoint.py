"""STATE.md and BUILDLOG.md on a branch of their own, so that a team sees them without our machine.

The commit is built in a git dir of ours and put into the user's repository as one ref that only
ever moves forward; checkout, index and HEAD are not touched, nothing is forced. Trouble is told in
the report and ends no cycle.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.domain.results import MODE_FILE, Change
from driver.filesystem.temporary import scratch_folder
from driver.git.ancestry import is_in_history
from driver.git.private_git import (
    CommitSpec,
    PrivateGit,
    Repository,
    commit_at,
    find_remote,
    open_repository,
)
from driver.git.push_result import PushResult
from driver.git.remote import Remote, fetch_head
from driver.git.repository import checked_out_in
from driver.scheduler.status import BUILDLOG_MD, STATE_MD
from state_store.api import StateAPI
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.views.export import buildlog, state_md
from tools.secrets.known_values import secrets_of
from tools.secrets.publishing import objections
from tools.settings.load import Settings

FILES = (STATE_MD, BUILDLOG_MD)
_LEFT_OUT = "(a line that holds a secret is left out)"


def checkpointed(
    api: StateAPI, repo: Path | None, settings: Settings, wave_id: str
) -> dict[str, Any]:
    """Commit both files where that is wanted; the answer is the cycle report's `checkpoint`.

    `{branch, commit, pushed, warning}`, the last one null when all went well.
    """
    if not settings.checkpoint.commit:
        return {}
    told: dict[str, Any] = {"branch": settings.checkpoint.branch, "commit": None, "pushed": False}
    try:
        if repo is None:
            raise CannotRunError("no repository was given to put it in; name it with --repo")
        with scratch_folder() as scratch:
            told |= _Checkpoint.opened(scratch, repo, settings).made(api, wave_id)
    except (TidegateError, OSError) as trouble:
        told["warning"] = f"no checkpoint on {settings.checkpoint.branch}: {trouble}"
    return {"checkpoint": {"warning": None, **told}}


def published(name: str, text: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """What may be published of `text`, and a sentence for each secret whose line is left out.

    Raises CannotRunError where a secret is in no single line. `known` are this machine's secrets.
    """
    lines, told = text.split("\n"), list[str]()
    if not objections(name, text.encode("utf-8", "replace"), known):
        return text, []
    for at, line in enumerate(lines):
        if found := objections(name, line.encode("utf-8", "replace"), known):
            lines[at] = f"- {_LEFT_OUT}" if line.lstrip().startswith("-") else _LEFT_OUT
            told.append(found[0].replace(f"{name}:1 ", f"{name}:{at + 1} ", 1))
    clean = "\n".join(lines)
    if left := objections(name, clean.encode("utf-8", "replace"), known):
        raise CannotRunError(f"it would publish a secret: {left[0]}")
    return clean, told


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    git: PrivateGit
    repository: Repository
    remote: Remote | None
    settings: Settings
    known: Mapping[str, str] = field(repr=False)

    @classmethod
    def opened(cls, scratch: Path, repo: Path, settings: Settings) -> _Checkpoint:
        environ = settings.environ
        repository = open_repository(repo, environ)
        git = PrivateGit.create(scratch / "git", repository, environ)
        wanted = settings.checkpoint.push
        remote = find_remote(repository, environ, settings.ship.remote) if wanted else None
        keys = (settings.backend, settings.review_backend)
        names = [one.api_key_env for one in keys if one and one.api_key_env]
        return cls(git, repository, remote, settings, secrets_of(environ, names))

    @property
    def branch(self) -> str:
        name: str = self.settings.checkpoint.branch
        return name

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def made(self, api: StateAPI, wave_id: str) -> dict[str, Any]:
        """The commit, pushed first where that is wanted: what is here is never ahead of it."""
        environ = self.settings.environ
        if where := checked_out_in(self.repository, self.branch, environ):
            raise CannotRunError(f"it is checked out at {where}; check out another branch there")
        before = commit_at(self.repository, self.ref, environ)
        there = self._there(before)
        texts, secrets = self._texts(api)
        commit = self._committed(there or before, texts, wave_id)
        pushed = self._pushed(commit, there)
        if commit != before:
            self.git.create_ref(self.repository, commit, self.ref, before)
        told = {"warning": "left out: " + "; ".join(secrets)} if secrets else {}
        return {"commit": commit, "pushed": pushed, **told}

    def _texts(self, api: StateAPI) -> tuple[dict[str, str], list[str]]:
        rendered = {STATE_MD: state_md(api), BUILDLOG_MD: buildlog(api)}
        clean = {name: published(name, text, self.known) for name, text in rendered.items()}
        secrets = [told for _, found in clean.values() for told in found]
        return {name: text for name, (text, _) in clean.items()}, secrets

    def _there(self, before: str) -> str:
        """The commit on the remote, "" where there is none. Raises CannotRunError."""
        if self.remote is None:
            return ""
        there = fetch_head(self.git.path, self.git.environ, self.remote, self.branch, before)
        if isinstance(there, PushResult):
            raise CannotRunError(f"the remote could not be asked: {there.reason}")
        if there and before and not is_in_history(self.git.path, self.git.env, before, there):
            raise CannotRunError(
                "it has commits here that the remote has not: push them, or drop them with"
                f" git branch -D {self.branch}"
            )
        return there

    def _committed(self, parent: str, texts: Mapping[str, str], wave_id: str) -> str:
        """A commit with these files on `parent`; that itself when it has them already."""
        before = set(self.git.paths_in(self.git.tree_of(parent))) if parent else set()
        if foreign := sorted(before - set(FILES)):
            why = "name a branch in [checkpoint] branch that is for nothing else"
            raise CannotRunError(f"{foreign[0]} is on it: {why}")
        blobs = {n: self.git.store(text.encode("utf-8", "replace")) for n, text in texts.items()}
        changes = tuple(Change(n, MODE_FILE, blob, None) for n, blob in blobs.items())
        if parent and self._has(parent, changes):
            return parent
        ship, message = self.settings.ship, f"State after wave {wave_id}\n"
        date = f"{int(time.time())} +0000"
        spec = CommitSpec(message, changes, ship.bot_name, ship.bot_email, date)
        return self.git.import_commits(parent, [spec])[0].commit

    def _has(self, commit: str, changes: tuple[Change, ...]) -> bool:
        tree = self.git.tree_of(commit)
        return self.git.tree_with(tree, changes) == tree

    def _pushed(self, commit: str, there: str) -> bool:
        """Whether there is a remote that has it now. Raises CannotRunError where it says no."""
        if self.remote is None:
            return False
        answer = self.git.push(self.remote, commit, self.branch, there or None)
        if not answer.ok:
            raise CannotRunError(answer.reason)
        return True
