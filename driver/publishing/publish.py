"""Publishes a batch of commits: on a wave branch, or onto the branch that is checked out.

The publication is announced first, so that a later run that finds it unfinished goes on with the
same commits (`reconcile`). Nothing is forced, nothing is merged, and commits that a remote refuses
stay on a branch of the user's repository.
"""

from __future__ import annotations

import os
import time

from driver.domain.commit_message import branch_names, pending_ref
from driver.domain.shipment import Shipment
from driver.git.branch_view import HEADS
from driver.git.private_git import Commit, GitError, PushResult, Remote
from driver.git.push_result import ADVANCED
from driver.limits.admission import gate_word
from driver.merge_queue.batch import Batch
from driver.publishing.fenced_push import Push, ShippedElsewhereError
from driver.run_state.context import Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.clone_context import CloneContext
from state_store.database.publications import (
    DROPPED,
    ON_BRANCH,
    PUSHED,
    Publication,
    PublishedCommit,
)
from state_store.documents.errors import StoppedByPolicyError
from state_store.values.lazy_dataclass import dataclass, replace

TARGET_ADVANCED = "target_advanced"
_SEALED = "nothing can be written into the repository here: the branch is on the remote only"
PUSH_FAILED = "git_push_failed"
NOTHING_LEFT = "nothing_green_together"


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch with the commit of each item, ready to be published with these `notes`. `onto` is
    the wave branch that an earlier part of the same wave is on."""

    context: CloneContext
    notes: tuple[str, ...]
    batch: Batch
    commits: tuple[Commit, ...]
    wave: Wave
    onto: str | None = None

    @property
    def tip(self) -> str:
        return self.commits[-1].commit

    @property
    def target(self) -> str | None:
        """The existing branch that the commits go on to; None if they get a new wave branch."""
        onto_target = self.wave.shipping.onto_target
        return self.context.repository.branch if onto_target else self.onto


def publish(shipment: Shipment, work: CommittedBatch) -> Shipment:
    """Publish the batch; returns the shipment with the result.

    Raises LeasedElsewhereError, ShippedElsewhereError, StoppedByPolicyError and
    InterruptedWaveError while nothing has been published yet.
    """
    entries = work.batch.entries
    shipment = replace(
        shipment,
        files_count=sum(len(outcome.changes) for _, outcome in entries),
        batch_runs=tuple((item.slug, outcome.batch_runs) for item, outcome in entries),
    )
    onto_target = work.wave.shipping.onto_target or work.onto
    try:
        return (_to_target if onto_target else _to_wave_branch)(shipment, work)
    except GitError as error:
        return failed(shipment, "git_commit_failed", str(error))


def keep(shipment: Shipment, work: CommittedBatch) -> Shipment:
    """Only put the commits on a wave branch here; returns the shipment that says so."""
    try:
        branch = _free_branch(work.context, work.wave, work.tip)
        return _kept_after_failure(shipment, work, branch)
    except GitError as error:
        return _warned(shipment, str(error))


def withdraw(work: CommittedBatch, branch: str) -> None:
    """Take back a batch that the remote refused and that is kept on a wave branch here."""
    context, tip = work.context, work.tip
    context.git.delete_ref(context.repository, tip, f"{HEADS}{branch}")
    work.wave.recorder.advance(tip, DROPPED)


def hold(work: CommittedBatch, branch: str) -> None:
    """Announce a withdrawn batch again and keep it on its wave branch here, for the next run."""
    _announce(work, branch, work.target)
    put_on_branch(work.context, work.tip, branch)
    work.wave.recorder.advance(work.tip, ON_BRANCH)


def branch_to_be(context: CloneContext, wave: Wave) -> str:
    """The branch that hooks see checked out."""
    current = context.repository.branch if wave.shipping.onto_target else None
    return current or _free_branch(context, wave)


def failed(shipment: Shipment, error: str, detail: str) -> Shipment:
    return replace(shipment, error=error, detail=detail)


def is_sealed(context: CloneContext) -> bool:
    """True if only the remote can keep the work: the repository here is not writable."""
    return context.remote is not None and not os.access(context.repository.objects, os.W_OK)


def _to_wave_branch(shipment: Shipment, work: CommittedBatch) -> Shipment:
    context, branch = work.context, _free_branch(work.context, work.wave, work.tip)
    _announce(work, branch)
    sealed, repository = is_sealed(context), context.repository
    if not sealed:
        put_on_branch(context, work.tip, branch)
        work.wave.recorder.advance(work.tip, ON_BRANCH)
    shipment = replace(
        shipment, branch=branch, committed=True, kept=shipment.kept if sealed else work.tip
    )
    detached = f"started from a detached HEAD at {repository.head[:12]}"
    notes = ["" if repository.branch else detached, _SEALED if sealed else "", *work.notes]
    if context.remote is None:
        notes.append("no remote: the branch is in this repository only")
    else:
        try:
            work.wave.gates.check()
        except StoppedByPolicyError as stopped:
            # It is announced, so the next run pushes it.
            why = f"{stopped}; not pushed yet, the next run does that"
            shipment = failed(shipment, gate_word(stopped), why)
        else:
            answer = _push(work, context.remote, branch, f"{HEADS}{branch}", onto=False)
            shipment = _pushed(shipment, answer)
    if shipment.error:
        return shipment if sealed else _saying_where(shipment)
    return _done(shipment, work, *notes)


def _to_target(shipment: Shipment, work: CommittedBatch) -> Shipment:
    """Push, then move the branch here ahead; after a refusal of either the commits stay on a wave
    branch."""
    context, target, tip = work.context, work.target, work.tip
    if target is None:
        why = "HEAD is detached, so there is no checked-out branch to commit to"
        return keep(failed(shipment, "git_commit_failed", why), work)
    branch = _free_branch(context, work.wave, tip)
    _announce(work, branch, target)
    work.wave.gates.check()
    if context.remote is not None:
        answer = _push(work, context.remote, target, pending_ref(tip), onto=True)
        shipment = _pushed(shipment, answer)
        if answer.kind == ADVANCED:
            shipment = replace(shipment, error=TARGET_ADVANCED)
    if shipment.error:
        return _kept_after_failure(shipment, work, branch)
    refusal, note = context.branches.move_ahead(target, tip), ""
    if refusal and not shipment.pushed:
        refused = failed(shipment, "git_commit_failed", refusal)
        return _kept_after_failure(refused, work, branch)
    if refusal:
        note = f"pushed, but not checked out here: {refusal}"
    else:
        context.git.delete_ref(context.repository, tip, pending_ref(tip))
        work.wave.recorder.advance(tip, ON_BRANCH)
        note = "" if shipment.pushed else "no remote: committed in this repository only"
    return _done(_warned(replace(shipment, branch=target), note), work, *work.notes)


def _announce(work: CommittedBatch, branch: str, target: str | None = None) -> None:
    """Record what is about to be published, unless another run has taken over an item of it.

    A later run that finds this publication unfinished puts the same commits on this branch or onto
    `target`, so they are stored in the user's repository first. If it is not writable, commits that
    did not reach the remote are proven and made anew.
    """
    repository = work.context.repository
    if not is_sealed(work.context):
        work.context.git.create_ref(repository, work.tip, pending_ref(work.tip))
    pairs = zip(work.batch.entries, work.commits, strict=True)
    commits = tuple(PublishedCommit(item.slug, made.commit) for (item, _), made in pairs)
    top, wave_id = str(repository.top), work.wave.wave_id
    new = Publication(work.tip, top, wave_id, branch, target, commits)
    try:
        work.wave.recorder.shipping({item.key: it for item, it in work.batch.entries}, new)
    except LeasedElsewhereError:
        work.context.git.delete_ref(repository, work.tip, pending_ref(work.tip))
        raise


def _push(
    work: CommittedBatch, remote: Remote, branch: str, kept: str, *, onto: bool
) -> PushResult:
    """Push once. If another instance has published an item, drop the announcement and the ref
    `kept`, and raise ShippedElsewhereError."""
    context = work.context
    try:
        answer = Push(context, remote, work.tip, branch, work.wave.knows, onto).once()
    except ShippedElsewhereError:
        context.git.delete_ref(context.repository, work.tip, kept)
        work.wave.recorder.advance(work.tip, DROPPED)
        raise
    if answer.ok:
        work.wave.recorder.advance(work.tip, PUSHED)
    return answer


def _free_branch(context: CloneContext, wave: Wave, tip: str = "") -> str:
    """The first name for a wave branch that is free, or already at `tip`."""
    names = branch_names(wave.wave_id, time.strftime("%Y-%m-%d"))
    if context.branches.tip("wave"):
        # No name below `wave/` is free if a branch is called `wave`.
        names = (name.replace("/", "-") for name in names)
    return next(name for name in names if context.branches.tip(name) in ("", tip))


def put_on_branch(context: CloneContext, tip: str, branch: str) -> None:
    """Put the commits on a branch of the user's repository, which replaces their pending ref.

    Raises GitError if the name was taken meanwhile.
    """
    context.git.replace_ref(context.repository, tip, f"{HEADS}{branch}", pending_ref(tip))


def _kept_after_failure(shipment: Shipment, work: CommittedBatch, branch: str) -> Shipment:
    put_on_branch(work.context, work.tip, branch)
    work.wave.recorder.advance(work.tip, ON_BRANCH)
    return _saying_where(replace(shipment, branch=branch, committed=True, kept=work.tip))


def _saying_where(shipment: Shipment) -> Shipment:
    return replace(shipment, detail=f"{shipment.detail} (kept on branch {shipment.branch} here)")


def _pushed(shipment: Shipment, answer: PushResult) -> Shipment:
    if answer.ok:
        return _warned(replace(shipment, pushed=True), answer.reason)
    refused = failed(shipment, PUSH_FAILED, answer.reason)
    return replace(refused, push_error=answer.kind, refusal=answer.words)


def _done(shipment: Shipment, work: CommittedBatch, *notes: str) -> Shipment:
    slugs = [item.slug for item, _ in work.batch.entries]
    shipped = replace(
        shipment,
        commits=tuple((s, one.commit) for s, one in zip(slugs, work.commits, strict=True)),
        trees=tuple((s, one.tree) for s, one in zip(slugs, work.commits, strict=True)),
        committed=True,
    )
    return _warned(shipped, *notes)


def _warned(shipment: Shipment, *more: str) -> Shipment:
    return replace(shipment, warning="; ".join(filter(None, (*more, shipment.warning))) or None)
