"""Pending publications: finishes, with the same commits, what an earlier run announced.

A batch of commits is put where it was meant to go, or is kept on its branch and the reason is
reported. Commits that the remote may have are never published under another name. A publication
that is not on the remote and would need a forced push is dropped; its work is proven and published
again.
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
from driver.git.branch_view import HEADS
from driver.git.private_git import GitError, PushResult
from driver.git.push_result import ADVANCED
from driver.publishing.fenced_push import Knows, Push, ShippedElsewhereError
from driver.publishing.publish import PUSH_FAILED, is_sealed, put_on_branch
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import CannotRunError
from state_store.documents.journal import SHIPPING, entries_about, load_entries


@dataclass(frozen=True, slots=True)
class PublicationIntent:
    """Commits up to `tip`, to be kept on `branch`; they go onto the branch `target`, None if
    `branch` itself is what ships."""

    branch: str
    tip: str
    target: str | None = None

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> PublicationIntent | None:
        """The intent in a journal entry; None if it has none."""
        branch, tip, target = (text_or_none(entry.get(key)) for key in ("branch", "tip", "target"))
        if not branch or not tip:
            return None
        if target is None and not is_branch_of(branch, str(entry.get("waveId"))):
            target = branch  # an entry of commits that came to their target
        return cls(branch, tip, target)


class PendingItems:
    """The items whose publication was announced and not recorded as done.

    `slugs` are theirs, and perhaps those of other items with the same slug.
    """

    def __init__(self, state_dir: Path) -> None:
        self._entries, _ = load_entries(state_dir)
        found = self._entries.values()
        self.slugs = {entry["slug"] for entry in found if entry.get("phase") == SHIPPING}

    def has(self, slug: str, repo: str | None, location: str | None) -> bool:
        """True if the item is one; `repo` is what it names, `location` its repository."""
        latest = entries_about(self._entries, slug, repo, location)[:1]
        return any(entry.get("phase") == SHIPPING for entry in latest)


class PendingPublication:
    """An announced publication, examined once for all of its items.

    `onto_target` says whether this wave may go onto its target. `shipment` is what this run did for
    it, `found` where the commits are if there was nothing to do.
    """

    def __init__(self, intent: PublicationIntent, knows: Knows, *, onto_target: bool) -> None:
        self._intent, self._knows, self._onto_target = intent, knows, onto_target
        self._lock = threading.Lock()
        self._answer: bool | None = None
        self._refusal: CannotRunError | None = None
        self.shipment: Shipment | None = None
        self.found: Shipment | None = None

    @property
    def moves_checkout(self) -> bool:
        """True if finishing it may move a branch that the user has checked out."""
        return self._intent.target is not None and self._onto_target

    def is_published(self, context: CloneContext) -> bool:
        """Finish the publication if it was cut off; True if the commits are where they were meant
        to go, here and on the remote. Raises CannotRunError for a refusal."""
        with self._lock:
            if self._answer is None and self._refusal is None:
                self._finish(context)
            if self._refusal is not None:
                raise self._refusal
            return bool(self._answer)

    def _finish(self, context: CloneContext) -> None:
        intent, branches = self._intent, context.branches
        try:
            if intent.target is not None and self._onto_target:
                self._answer = self._finish_target(context, intent.target)
            else:
                self._answer = self._finish_branch(context)
        except CannotRunError as refusal:
            self._refusal = refusal
        if self._answer and self.shipment is None:
            at = intent.branch
            if intent.target and (self._onto_target or not branches.tip(intent.branch)):
                at = intent.target
            there = branches.remote_tip(at)
            pushed = bool(there) and not isinstance(there, PushResult)
            top = str(context.repository.top)
            self.found = Shipment(top, at, committed=True, pushed=pushed, kept=intent.tip)

    def _finish_branch(self, context: CloneContext) -> bool:
        intent, branches, remote = self._intent, context.branches, context.remote
        if intent.target and self._target_has(context, intent.target):
            return True
        self._put_on_branch(context)
        if remote is not None and is_sealed(context):
            return branches.remote_tip(intent.branch) == intent.tip
        if not branches.has(intent.branch, intent.tip):
            return False
        if remote is None or branches.tip(intent.branch) != intent.tip:
            return True  # in the second case the user has added commits to it
        try:
            answer = Push(context, remote, intent.tip, intent.branch, self._knows).once()
        except ShippedElsewhereError:
            return False
        # A refusal may come after the commits have arrived, and people may have gone on from them
        # there: nothing else may be published in their place before the user has looked.
        return self._report(context, intent.branch, answer)

    def _finish_target(self, context: CloneContext, target: str) -> bool:
        intent, remote = self._intent, context.remote
        if not self._is_stored(context):
            return False
        try:
            if remote is None or self._target_has(context, target):
                answer = PushResult(True)
            else:
                answer = Push(context, remote, intent.tip, target, self._knows, onto=True).once()
        except ShippedElsewhereError as others:
            answer = PushResult(False, str(others), ADVANCED)
        if answer.kind == ADVANCED:
            self._put_on_branch(context)
            return False
        if not answer.ok:
            return self._report(context, target, answer)
        # Move the branch here ahead as well; a remote that has the commits is enough.
        refusal = context.branches.move_ahead(target, intent.tip)
        if refusal and remote is None:
            here = context.branches.tip(target)
            self._put_on_branch(context)
            if not context.branches.contains(intent.tip, here):
                return False
            return self._report(context, target, PushResult(False, refusal))
        if not refusal:
            context.git.delete_ref(context.repository, intent.tip, pending_ref(intent.tip))
        return self._report(context, target, PushResult(True))

    def _is_stored(self, context: CloneContext) -> bool:
        """True if the user's repository has the commits."""
        intent, branches = self._intent, context.branches
        refs = (pending_ref(intent.tip), f"{HEADS}{intent.branch}")
        if any(branches.commit_at(ref) == intent.tip for ref in refs):
            return True
        return branches.has(intent.target or intent.branch, intent.tip)

    def _target_has(self, context: CloneContext, target: str) -> bool:
        """True if the target has the commits, on the remote if there is one."""
        if context.remote is None or not self._is_stored(context):
            return context.branches.has(target, self._intent.tip)
        there = context.branches.remote_has(target, self._intent.tip)
        return self._report(context, target, there) if isinstance(there, PushResult) else there

    def _put_on_branch(self, context: CloneContext) -> None:
        """Put the commits on their branch, where the user sees them."""
        intent, is_pending = self._intent, context.branches.commit_at(pending_ref(self._intent.tip))
        if is_pending and intent.branch != intent.target:
            with suppress(GitError):  # the name was taken meanwhile
                put_on_branch(context, intent.tip, intent.branch)

    def _report(self, context: CloneContext, onto: str, answer: PushResult) -> bool:
        """Keep the result as `shipment`; True, or raises CannotRunError with the refusal."""
        intent, top, pushed = self._intent, str(context.repository.top), context.remote is not None
        done = Shipment(top, onto, committed=True, pushed=pushed, kept=intent.tip)
        if answer.ok:
            self.shipment = done
            return True
        self._put_on_branch(context)
        why = f"built and kept on branch {intent.branch}, but not yet on {onto}: {answer.reason}"
        self.shipment = replace(
            done,
            branch=intent.branch,
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
    """A field of the journal if it is a text, else None."""
    return value if isinstance(value, str) else None
