"""Shipments that were announced and not completed: finish them, with the same commits.

One line of commits is put where it was meant to go, or is kept on its branch and said why not. What
a remote may have got is never shipped under another name; what is known not to be there, and cannot
be put there without force, is owed no longer, and its work is proven and shipped anew.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.domain.commit_message import is_branch_of, pending_ref
from driver.domain.results import Shipment
from driver.git.ancestry import is_in_history
from driver.git.private_git import GitError, PushResult, commit_at, is_ancestor, tip_of
from driver.git.push_result import ADVANCED
from driver.git.remote import fetch_head, head_on
from driver.git.repository import move_ahead
from driver.publishing.fenced_push import Knows, Push, ShippedElsewhereError
from driver.publishing.publish import PUSH_FAILED, is_sealed
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import CannotRunError
from state_store.documents.journal import SHIPPING, entries_about, load_entries


@dataclass(frozen=True, slots=True)
class PublicationIntent:
    """A line with `tip` as its last commit, to be kept on `branch`; `target` is the branch that it
    goes on to, None where `branch` itself is what ships."""

    branch: str
    tip: str
    target: str | None = None

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> PublicationIntent | None:
        """What a journal entry announces; None where it does not."""
        branch, tip, target = (text_or_none(entry.get(key)) for key in ("branch", "tip", "target"))
        if not branch or not tip:
            return None
        if target is None and not is_branch_of(branch, str(entry.get("waveId"))):
            target = branch  # what is said of a line that came to its target
        return cls(branch, tip, target)


class PendingItems:
    """The items whose shipment was announced, and not said to be done; `slugs` are theirs, and
    perhaps those of others that are called alike."""

    def __init__(self, state_dir: Path) -> None:
        self._entries, _ = load_entries(state_dir)
        found = self._entries.values()
        self.slugs = {entry["slug"] for entry in found if entry.get("phase") == SHIPPING}

    def has(self, slug: str, repo: str | None, place: str | None) -> bool:
        """Whether an item is one; `repo` is what it names, `place` its repository."""
        latest = entries_about(self._entries, slug, repo, place)[:1]
        return any(entry.get("phase") == SHIPPING for entry in latest)


class PendingPublication:
    """An announced line, asked about once for all of its items; `onto_target` says whether waves
    may still go on to the branch that they start from. `shipment` is what this run did for it,
    `found` where the line is when there was nothing to do."""

    def __init__(self, line: PublicationIntent, knows: Knows, *, onto_target: bool) -> None:
        self._line, self._knows, self._onto_target = line, knows, onto_target
        self._lock = threading.Lock()
        self._answer: bool | None = None
        self._refusal: CannotRunError | None = None
        self.shipment: Shipment | None = None
        self.found: Shipment | None = None

    @property
    def moves_checkout(self) -> bool:
        """Whether finishing it may move a branch that the user has checked out."""
        return self._line.target is not None and self._onto_target

    def is_published(self, ground: CloneContext) -> bool:
        """Whether the line is where it was meant to go by now, here and on the remote; what was cut
        off is made up for. Raises CannotRunError when somebody does not let us."""
        with self._lock:
            if self._answer is None and self._refusal is None:
                self._ask(ground)
            if self._refusal is not None:
                raise self._refusal
            return bool(self._answer)

    def _ask(self, ground: CloneContext) -> None:
        try:
            if self._line.target is not None and self._onto_target:
                self._answer = self._is_on_target(ground, self._line.target)
            else:
                self._answer = self._is_on_branch(ground)
        except CannotRunError as refusal:
            self._refusal = refusal
        if self._answer and self.shipment is None:
            self.found = self._as_found(ground)

    def _as_found(self, ground: CloneContext) -> Shipment:
        line, remote = self._line, ground.remote
        at = line.branch
        if line.target and (self._onto_target or not self._is_here(ground, line.branch)):
            at = line.target
        there = remote is not None and head_on(ground.git.path, ground.environ, remote, at)
        top = str(ground.repository.top)
        return Shipment(top, at, committed=True, pushed=bool(there), kept=line.tip)

    def _is_here(self, ground: CloneContext, branch: str) -> bool:
        return bool(tip_of(ground.repository, branch, ground.environ))

    def _is_on_branch(self, ground: CloneContext) -> bool:
        line, repository = self._line, ground.repository
        if line.target and self._is_there(ground, line.target):
            return True
        self._keep(ground)
        here = tip_of(repository, line.branch, ground.environ)
        if ground.remote is not None and is_sealed(ground):
            there = head_on(ground.git.path, ground.environ, ground.remote, line.branch)
            return there == line.tip
        if not here or not is_ancestor(repository, line.tip, here, ground.environ):
            return False
        if ground.remote is None or here != line.tip:  # people have gone on from it
            return True
        try:
            answer = Push(ground, ground.remote, line.tip, line.branch, self._knows).once()
        except ShippedElsewhereError:
            return False
        # A refusal may come after it has arrived, and people may have gone on from it there:
        # nothing else may be shipped in its place before a person has looked.
        return self._tell(ground, line.branch, answer)

    def _is_on_target(self, ground: CloneContext, target: str) -> bool:
        if not self._is_known(ground):
            return False
        try:
            answer = self._pushed(ground, target)
        except ShippedElsewhereError as others:
            answer = PushResult(False, str(others), ADVANCED)
        if answer.kind == ADVANCED:
            self._keep(ground)
            return False
        if not answer.ok:
            return self._tell(ground, target, answer)
        return self._is_checked_out(ground, target)

    def _pushed(self, ground: CloneContext, target: str) -> PushResult:
        remote, tip = ground.remote, self._line.tip
        if remote is None or self._is_there(ground, target):
            return PushResult(True)
        return Push(ground, remote, tip, target, self._knows, onto=True).once()

    def _is_checked_out(self, ground: CloneContext, target: str) -> bool:
        """Move the branch here ahead as well. A remote that has it is enough."""
        repository, tip, environ = ground.repository, self._line.tip, ground.environ
        refusal = move_ahead(repository, target, tip, environ)
        if refusal and ground.remote is None:
            here = tip_of(repository, target, environ)
            self._keep(ground)
            if not is_ancestor(repository, here, tip, environ):
                return False
            return self._tell(ground, target, PushResult(False, refusal))
        if not refusal:
            ground.git.delete_ref(repository, tip, pending_ref(tip))
        return self._tell(ground, target, PushResult(True))

    def _is_known(self, ground: CloneContext) -> bool:
        """Whether the commits are kept in the user's repository."""
        line, repository = self._line, ground.repository
        refs = (pending_ref(line.tip), f"refs/heads/{line.branch}")
        if any(commit_at(repository, ref, ground.environ) == line.tip for ref in refs):
            return True
        here = tip_of(repository, line.target or line.branch, ground.environ)
        return bool(here) and is_ancestor(repository, line.tip, here, ground.environ)

    def _is_there(self, ground: CloneContext, target: str) -> bool:
        """Whether the target has the line, on the remote where there is one."""
        repository, tip, git = ground.repository, self._line.tip, ground.git
        if ground.remote is None or not self._is_known(ground):
            here = tip_of(repository, target, ground.environ)
            return bool(here) and is_ancestor(repository, tip, here, ground.environ)
        there = fetch_head(git.path, ground.environ, ground.remote, target, tip)
        if isinstance(there, PushResult):
            return self._tell(ground, target, there)
        return bool(there) and is_in_history(git.path, git.env, tip, there)

    def _keep(self, ground: CloneContext) -> None:
        """Put the commits on their branch, where people see them."""
        repository, line, ref = ground.repository, self._line, pending_ref(self._line.tip)
        if line.branch == line.target or not commit_at(repository, ref, ground.environ):
            return
        with suppress(GitError):  # the name was taken meanwhile
            ground.git.create_ref(repository, line.tip, f"refs/heads/{line.branch}")
            ground.git.delete_ref(repository, line.tip, ref)

    def _tell(self, ground: CloneContext, onto: str, answer: PushResult) -> bool:
        """True, or why not as a CannotRunError; either way the report has it."""
        line, top = self._line, str(ground.repository.top)
        done = Shipment(top, onto, committed=True, pushed=ground.remote is not None, kept=line.tip)
        if answer.ok:
            self.shipment = done
            return True
        self._keep(ground)
        why = f"built and kept on branch {line.branch}, but not yet on {onto}: {answer.reason}"
        self.shipment = replace(
            done,
            branch=line.branch,
            pushed=False,
            error=PUSH_FAILED if answer.kind else "git_commit_failed",
            push_error=answer.kind or None,
            detail=why,
        )
        raise CannotRunError(
            f"{why}; the next run tries again, and with that branch deleted here it ships the work"
            " anew"
        )


def text_or_none(value: object) -> str | None:
    """A journal's field, where a text is in it."""
    return value if isinstance(value, str) else None
