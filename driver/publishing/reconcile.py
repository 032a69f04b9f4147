"""Reconciles a publication with the repository: finishes it if an earlier run was cut off in it.

A batch of commits is put where it was meant to go, or is kept on its branch and the reason is
reported. Commits that the remote may have are never published under another name. A publication
that is not on the remote and would need a forced push is dropped; its work is proven and published
again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from driver.domain.commit_message import is_branch_of, pending_ref
from driver.domain.shipment import Shipment
from driver.git.branch_view import HEADS
from driver.git.private_git import GitError, PushResult
from driver.git.push_result import ADVANCED
from driver.publishing.fenced_push import Knows, Push, ShippedElsewhereError
from driver.publishing.publish import PUSH_FAILED, is_sealed, put_on_branch
from driver.publishing.refused_content import may_be_about_content
from driver.workspace.clone_context import CloneContext
from state_store.database.publications import DROPPED, ON_BRANCH, PUSHED, Publication
from state_store.documents.errors import CannotRunError

Advance = Callable[[str, str], None]  # a publication's last commit, and the state that it is in


class Reconciliation:
    """The reconciliation of one publication, done once for all of its items.

    `onto_target` says whether this wave may go onto its target. `shipment` is what this run did for
    it, `found` where the commits are if there was nothing to do.
    """

    def __init__(
        self, publication: Publication, knows: Knows, advance: Advance, *, onto_target: bool
    ) -> None:
        self._publication, self._knows, self._advance = publication, knows, advance
        self._onto_target, self._target = onto_target, publication.target
        if self._target is None and not is_branch_of(publication.branch, publication.wave):
            self._target = publication.branch  # an earlier version's, which came to its target
        self._lock = threading.Lock()
        self._answer: bool | None = None
        self._refusal: CannotRunError | None = None
        self.shipment: Shipment | None = None
        self.found: Shipment | None = None

    @property
    def moves_checkout(self) -> bool:
        """True if finishing it may move a branch that the user has checked out."""
        return self._target is not None and self._onto_target

    def reconcile(self, context: CloneContext) -> bool:
        """Finish the publication if it was cut off; True if the commits are where they were meant
        to go, here and on the remote. Raises CannotRunError for a refusal."""
        with self._lock:
            if self._answer is None and self._refusal is None:
                self._finish(context)
            if self._refusal is not None:
                raise self._refusal
            return bool(self._answer)

    def _finish(self, context: CloneContext) -> None:
        publication, branches = self._publication, context.branches
        try:
            if self._target is not None and self._onto_target:
                self._answer = self._finish_target(context, self._target)
            else:
                self._answer = self._finish_branch(context)
        except CannotRunError as refusal:
            self._refusal = refusal
        if self._answer and self.shipment is None:
            at = publication.branch
            if self._target and (self._onto_target or not branches.tip(publication.branch)):
                at = self._target
            there = branches.remote_tip(at)
            pushed = bool(there) and not isinstance(there, PushResult)
            self.found = self._shipment(context, at, pushed=pushed)
        if self._answer and (there_now := self.shipment or self.found):
            self._advance(publication.tip, PUSHED if there_now.pushed else ON_BRANCH)

    def _finish_branch(self, context: CloneContext) -> bool:
        publication, branches, remote = self._publication, context.branches, context.remote
        if self._target and self._target_has(context, self._target):
            return True
        self._put_on_branch(context)
        if remote is not None and is_sealed(context):
            return branches.remote_tip(publication.branch) == publication.tip
        if not branches.has(publication.branch, publication.tip):
            return False
        if remote is None or branches.tip(publication.branch) != publication.tip:
            return True  # in the second case the user has added commits to it
        try:
            answer = Push(context, remote, publication.tip, publication.branch, self._knows).once()
        except ShippedElsewhereError:
            return False
        # A refusal may come after the commits have arrived, and people may have gone on from them
        # there: nothing else may be published in their place before the user has looked.
        return self._report(context, publication.branch, answer)

    def _finish_target(self, context: CloneContext, target: str) -> bool:
        tip, remote = self._publication.tip, context.remote
        if not self._is_stored(context):
            return False
        try:
            if remote is None or self._target_has(context, target):
                answer = PushResult(True)
            else:
                answer = Push(context, remote, tip, target, self._knows, onto=True).once()
        except ShippedElsewhereError as others:
            answer = PushResult(False, str(others), ADVANCED)
        if answer.kind == ADVANCED:
            self._put_on_branch(context)
            return False
        if not answer.ok:
            return self._report(context, target, answer)
        # Move the branch here ahead as well; a remote that has the commits is enough.
        refusal = context.branches.move_ahead(target, tip)
        if refusal and remote is None:
            here = context.branches.tip(target)
            self._put_on_branch(context)
            if not context.branches.contains(tip, here):
                return False
            return self._report(context, target, PushResult(False, refusal))
        if not refusal:
            context.git.delete_ref(context.repository, tip, pending_ref(tip))
        return self._report(context, target, PushResult(True))

    def _shipment(self, context: CloneContext, branch: str, *, pushed: bool) -> Shipment:
        tip, first = self._publication.tip, self._publication.items[0].commit
        top, parent = str(context.repository.top), context.branches.commit_at(f"{first}^")
        onto = parent or None  # only a repository that has the commits knows it
        return Shipment(top, branch, committed=True, pushed=pushed, kept=tip, onto=onto)

    def _is_withdrawn(self, context: CloneContext, onto: str, answer: PushResult) -> bool:
        """True after taking back commits of several items, of which the remote refuses some: the
        items ship anew, without those."""
        tip, branch = self._publication.tip, self._publication.branch
        about_content = may_be_about_content(answer.kind, answer.words)
        if not about_content or len(self._publication.items) < 2 or is_sealed(context):
            return False
        if context.branches.remote_has(onto, tip) is not False:
            return False
        for ref in (f"{HEADS}{branch}", pending_ref(tip)):
            if context.branches.commit_at(ref) == tip:
                context.git.delete_ref(context.repository, tip, ref)
        self._advance(tip, DROPPED)
        return True

    def _is_stored(self, context: CloneContext) -> bool:
        """True if the user's repository has the commits."""
        publication, branches = self._publication, context.branches
        refs = (pending_ref(publication.tip), f"{HEADS}{publication.branch}")
        if any(branches.commit_at(ref) == publication.tip for ref in refs):
            return True
        return branches.has(self._target or publication.branch, publication.tip)

    def _target_has(self, context: CloneContext, target: str) -> bool:
        """True if the target has the commits, on the remote if there is one."""
        if context.remote is None or not self._is_stored(context):
            return context.branches.has(target, self._publication.tip)
        there = context.branches.remote_has(target, self._publication.tip)
        return self._report(context, target, there) if isinstance(there, PushResult) else there

    def _put_on_branch(self, context: CloneContext) -> None:
        """Put the commits on their branch, where the user sees them."""
        publication = self._publication
        is_pending = context.branches.commit_at(pending_ref(publication.tip))
        if is_pending and publication.branch != self._target:
            with suppress(GitError):  # the name was taken meanwhile
                put_on_branch(context, publication.tip, publication.branch)

    def _report(self, context: CloneContext, onto: str, answer: PushResult) -> bool:
        """Keep the result as `shipment`; True, or raises CannotRunError with the refusal. False if
        the publication is withdrawn."""
        branch = self._publication.branch
        done = self._shipment(context, onto, pushed=context.remote is not None)
        if answer.ok:
            self.shipment = done
            return True
        if self._is_withdrawn(context, onto, answer):
            return False
        self._put_on_branch(context)
        why = f"built and kept on branch {branch}, but not yet on {onto}: {answer.reason}"
        self.shipment = replace(
            done,
            branch=branch,
            pushed=False,
            error=PUSH_FAILED if answer.kind else "git_commit_failed",
            push_error=answer.kind or None,
            detail=why,
        )
        raise CannotRunError(
            f"{why}; the next run tries again, and with that branch deleted here it ships the work"
            " anew"
        )
