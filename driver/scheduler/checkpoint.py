"""The checkpoint: STATE.md and BUILDLOG.md on a branch of their own, for the whole team to see.

The commit is built in a git dir of ours and put into the user's repository as one ref that only
moves forward; checkout, index and HEAD are not touched, nothing is forced. A failure is reported
and does not end the cycle.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.domain.results import MODE_FILE, Change
from driver.filesystem.temporary import scratch_folder
from driver.git.branch_view import HEADS, BranchView
from driver.git.private_git import CommitSpec, PrivateGit, find_remote, open_repository
from driver.git.push_result import PushResult
from driver.scheduler.status import BUILDLOG_MD, STATE_MD
from state_store.api import StateAPI
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.values.lazy_dataclass import dataclass, field
from state_store.views.export import buildlog, state_md
from tools.secret_rules.known_values import secrets_of
from tools.secret_rules.publishing import objections
from tools.settings.load import Settings

FILES = (STATE_MD, BUILDLOG_MD)
_LEFT_OUT = "(a line that holds a secret is left out)"


def checkpointed(
    api: StateAPI, repo: Path | None, settings: Settings, wave_id: str
) -> dict[str, Any]:
    """Commit both files if wanted; returns the cycle report's `checkpoint`.

    `{branch, commit, pushed, warning}`, the last one null if all went well.
    """
    if not settings.checkpoint.commit:
        return {}
    branch, commit, pushed, warning = settings.checkpoint.branch, None, False, None
    try:
        if repo is None:
            raise CannotRunError("no repository was given for the checkpoint; name one with --repo")
        with scratch_folder() as scratch:
            checkpoint = _Checkpoint.opened(scratch, repo, settings)
            commit, pushed, warning = checkpoint.made(api, wave_id)
    except (TidegateError, OSError) as trouble:
        warning = f"no checkpoint on {branch}: {trouble}"
    facts = {"branch": branch, "commit": commit, "pushed": pushed}
    return {"checkpoint": {"warning": warning, **facts}}


def published(name: str, text: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """`text` without the lines that hold secrets, and a sentence for each line left out.

    Raises CannotRunError for a secret that is in no single line. `known` are this machine's
    secrets.
    """
    lines, found_in_lines = text.split("\n"), list[str]()
    if not objections(name, text.encode("utf-8", "replace"), known):
        return text, []
    for at, line in enumerate(lines):
        if found := objections(name, line.encode("utf-8", "replace"), known):
            lines[at] = f"- {_LEFT_OUT}" if line.lstrip().startswith("-") else _LEFT_OUT
            found_in_lines.append(found[0].replace(f"{name}:1 ", f"{name}:{at + 1} ", 1))
    clean = "\n".join(lines)
    if left := objections(name, clean.encode("utf-8", "replace"), known):
        raise CannotRunError(f"it would publish a secret: {left[0]}")
    return clean, found_in_lines


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    git: PrivateGit
    branches: BranchView
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
        branches = BranchView(repository, environ, remote, git)
        return cls(git, branches, settings, secrets_of(environ, names))

    def made(self, api: StateAPI, wave_id: str) -> tuple[str, bool, str | None]:
        """The commit, whether it was pushed, and a warning.

        It is pushed first: the branch here is never ahead of the remote's.
        """
        branch: str = self.settings.checkpoint.branch
        if where := self.branches.checked_out_in(branch):
            raise CannotRunError(f"it is checked out at {where}; check out another branch there")
        before = self.branches.tip(branch)
        there = self.branches.fetched_tip(branch, before)
        if isinstance(there, PushResult):
            raise CannotRunError(f"the remote could not be asked: {there.reason}")
        if there and before and not self.branches.contains(there, before):
            raise CannotRunError(
                "it has commits here that the remote has not: push them, or drop them with"
                f" git branch -D {branch}"
            )
        rendered = {STATE_MD: state_md(api), BUILDLOG_MD: buildlog(api)}
        clean = {name: published(name, text, self.known) for name, text in rendered.items()}
        secrets = [sentence for _, found in clean.values() for sentence in found]
        texts = {name: text for name, (text, _) in clean.items()}
        commit, remote = self._committed(there or before, texts, wave_id), self.branches.remote
        if remote is not None:
            answer = self.git.push(remote, commit, branch, there or None)
            if not answer.ok:
                raise CannotRunError(answer.reason)
        if commit != before:
            self.git.create_ref(self.branches.repository, commit, f"{HEADS}{branch}", before)
        warning = f"left out: {'; '.join(secrets)}" if secrets else None
        return commit, remote is not None, warning

    def _committed(self, parent: str, texts: Mapping[str, str], wave_id: str) -> str:
        """A commit with these files on `parent`, or `parent` itself if it has them already."""
        before = set(self.git.paths_in(self.git.tree_of(parent))) if parent else set()
        if foreign := sorted(before - set(FILES)):
            why = "name a branch in [checkpoint] branch that is for nothing else"
            raise CannotRunError(f"{foreign[0]} is on it: {why}")
        blobs = {n: self.git.store(text.encode("utf-8", "replace")) for n, text in texts.items()}
        changes = tuple(Change(n, MODE_FILE, blob, None) for n, blob in blobs.items())
        tree = self.git.tree_of(parent) if parent else ""
        if tree and self.git.tree_with(tree, changes) == tree:
            return parent
        ship, message = self.settings.ship, f"State after wave {wave_id}\n"
        date = f"{int(time.time())} +0000"
        spec = CommitSpec(message, changes, ship.bot_name, ship.bot_email, date)
        return self.git.import_commits(parent, [spec])[0].commit
