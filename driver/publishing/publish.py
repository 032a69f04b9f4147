"""Put a line of commits where it was meant to go: a wave branch, or the branch checked out.

What is about to be published is announced first, so that whoever finds it unfinished goes on with
the same commits. Nothing is forced, nothing is merged, and whatever a remote refuses stays on a
branch of the user's repository. Which commits these are is `ship`'s decision.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from driver.domain.commit_message import branch_names, pending_ref
from driver.domain.results import Shipment
from driver.git.branch_view import HEADS
from driver.git.private_git import Commit, GitError, PushResult, Remote, Repository, tip_of
from driver.git.push_result import ADVANCED
from driver.git.repository import move_ahead
from driver.limits.admission import gate_word
from driver.merge_queue.batch import Batch
from driver.publishing.fenced_push import Push, ShippedElsewhereError
from driver.run_state.context import Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import StoppedByPolicyError

TARGET_ADVANCED = "target_advanced"
_SEALED = "nothing can be written into the repository here: the branch is on the remote only"
PUSH_FAILED = "git_push_failed"


@dataclass(frozen=True, slots=True)
class Publication:
    """A line of items as commits, in the same order, ready to be published with these `notes`."""

    ground: CloneContext
    notes: tuple[str, ...]
    line: Batch
    commits: tuple[Commit, ...]
    wave: Wave

    @property
    def tip(self) -> str:
        return self.commits[-1].commit


def publish(shipment: Shipment, cargo: Publication) -> Shipment:
    """The shipment with what became of it. Raises LeasedElsewhereError, ShippedElsewhereError,
    StoppedByPolicyError and InterruptedWaveError while nothing has been published yet."""
    onto_target = cargo.wave.shipping.onto_target
    try:
        return (_to_target if onto_target else _to_wave_branch)(shipment, cargo)
    except GitError as error:
        return failed(shipment, "git_commit_failed", str(error))


def keep(shipment: Shipment, cargo: Publication) -> Shipment:
    """The shipment with its commits on a wave branch here, which is all that becomes of them."""
    try:
        branch = _keep(cargo, _free_branch(cargo.ground, cargo.wave, cargo.tip))
    except GitError as error:
        return _warned(shipment, str(error))
    return _saying_where(_kept(shipment, branch, cargo.tip))


def branch_to_be(ground: CloneContext, wave: Wave) -> str:
    """The branch that hooks see themselves on."""
    current = ground.repository.branch if wave.shipping.onto_target else None
    return current or _free_branch(ground, wave)


def failed(shipment: Shipment, error: str, detail: str) -> Shipment:
    return replace(shipment, error=error, detail=detail)


def _to_wave_branch(shipment: Shipment, cargo: Publication) -> Shipment:
    ground, branch = cargo.ground, _free_branch(cargo.ground, cargo.wave, cargo.tip)
    _announce(cargo, branch)
    sealed = is_sealed(ground)
    if sealed:
        shipment = replace(shipment, branch=branch, committed=True)
    else:
        shipment = _kept(shipment, _keep(cargo, branch), cargo.tip)
    notes = [_detached(ground.repository), _SEALED if sealed else "", *cargo.notes]
    if ground.remote is None:
        notes.append("no remote: the branch is in this repository only")
    else:
        shipment = _stopped(shipment, cargo) or _pushed(
            shipment, _once(cargo, ground.remote, branch, f"{HEADS}{branch}", onto=False)
        )
    if shipment.error:
        return shipment if sealed else _saying_where(shipment)
    return _done(shipment, cargo, *notes)


def _to_target(shipment: Shipment, cargo: Publication) -> Shipment:
    """Push, then move the branch here ahead; a refusal of either leaves the commits on a wave
    branch."""
    ground, target = cargo.ground, cargo.ground.repository.branch
    if target is None:
        why = "HEAD is detached, so there is no checked-out branch to commit to"
        return keep(failed(shipment, "git_commit_failed", why), cargo)
    branch = _free_branch(ground, cargo.wave, cargo.tip)
    _announce(cargo, branch, target)
    cargo.wave.gates.check()
    if ground.remote is not None:
        answer = _once(cargo, ground.remote, target, pending_ref(cargo.tip), onto=True)
        shipment = _pushed(shipment, answer)
        if answer.kind == ADVANCED:
            shipment = replace(shipment, error=TARGET_ADVANCED)
    if not shipment.error:
        shipment = _move_ahead(shipment, ground, target, cargo.tip)
    if not shipment.error:
        return _done(replace(shipment, branch=target), cargo, *cargo.notes)
    return _saying_where(_kept(shipment, _keep(cargo, branch), cargo.tip))


def _announce(cargo: Publication, branch: str, target: str | None = None) -> None:
    """Write down what is about to be published, unless another run has an item of it by now.

    From here on this shipment is what becomes of the items: whoever finds it unfinished puts these
    commits on this branch or on to `target`, so they have to be in the user's repository before.
    Where nothing can be written there, what did not get to the remote is proven and made anew.
    """
    repository = cargo.ground.repository
    if not is_sealed(cargo.ground):
        cargo.ground.git.create_ref(repository, cargo.tip, pending_ref(cargo.tip))
    entries = zip(cargo.line.entries, cargo.commits, strict=True)
    told = {item.key: (outcome, c.commit) for (item, outcome), c in entries}
    try:
        cargo.wave.recorder.shipping(told, branch, cargo.tip, target)
    except LeasedElsewhereError:
        cargo.ground.git.delete_ref(repository, cargo.tip, pending_ref(cargo.tip))
        raise


def _once(cargo: Publication, remote: Remote, branch: str, kept: str, *, onto: bool) -> PushResult:
    """Push, or take back what was announced, and the ref `kept` with it, where others have shipped
    some of the items. Raises ShippedElsewhereError."""
    ground = cargo.ground
    try:
        return Push(ground, remote, cargo.tip, branch, cargo.wave.knows, onto).once()
    except ShippedElsewhereError:
        ground.git.delete_ref(ground.repository, cargo.tip, kept)
        cargo.wave.recorder.unannounced(cargo.tip)
        raise


def _free_branch(ground: CloneContext, wave: Wave, tip: str = "") -> str:
    names = branch_names(wave.wave_id, time.strftime("%Y-%m-%d"))
    if tip_of(ground.repository, "wave", ground.environ):
        # No name below `wave/` is free where a branch is called `wave`.
        names = (name.replace("/", "-") for name in names)
    return next(n for n in names if tip_of(ground.repository, n, ground.environ) in ("", tip))


def is_sealed(ground: CloneContext) -> bool:
    """Whether the remote is the only place where the work can be kept."""
    return ground.remote is not None and not os.access(ground.repository.objects, os.W_OK)


def _keep(cargo: Publication, branch: str) -> str:
    """Put the commits on a branch of the user's repository, where nothing can lose them."""
    ground = cargo.ground
    ground.git.create_ref(ground.repository, cargo.tip, f"refs/heads/{branch}")
    ground.git.delete_ref(ground.repository, cargo.tip, pending_ref(cargo.tip))
    return branch


def _kept(shipment: Shipment, branch: str, tip: str) -> Shipment:
    return replace(shipment, branch=branch, committed=True, kept=tip)


def _saying_where(shipment: Shipment) -> Shipment:
    return replace(shipment, detail=f"{shipment.detail} (kept on branch {shipment.branch} here)")


def _stopped(shipment: Shipment, cargo: Publication) -> Shipment | None:
    """The shipment when no push may start any more; it is announced, so the next run makes it."""
    try:
        cargo.wave.gates.check()
    except StoppedByPolicyError as stopped:
        why = f"{stopped}; not pushed yet, the next run does that"
        return failed(shipment, gate_word(stopped), why)
    return None


def _pushed(shipment: Shipment, answer: PushResult) -> Shipment:
    if answer.ok:
        return _warned(replace(shipment, pushed=True), answer.reason)
    return replace(failed(shipment, PUSH_FAILED, answer.reason), push_error=answer.kind)


def _move_ahead(shipment: Shipment, ground: CloneContext, target: str, tip: str) -> Shipment:
    refusal = move_ahead(ground.repository, target, tip, ground.environ)
    if refusal and not shipment.pushed:
        return failed(shipment, "git_commit_failed", refusal)
    if refusal:
        return _warned(shipment, f"pushed, but not checked out here: {refusal}")
    ground.git.delete_ref(ground.repository, tip, pending_ref(tip))
    return _warned(
        shipment, "" if shipment.pushed else "no remote: committed in this repository only"
    )


def _done(shipment: Shipment, cargo: Publication, *notes: str) -> Shipment:
    made = [
        (item.slug, commit)
        for (item, _), commit in zip(cargo.line.entries, cargo.commits, strict=True)
    ]
    shipped = replace(
        shipment,
        commits=tuple((slug, one.commit) for slug, one in made),
        trees=tuple((slug, one.tree) for slug, one in made),
        committed=True,
    )
    return _warned(shipped, *notes)


def _warned(shipment: Shipment, *more: str) -> Shipment:
    return replace(shipment, warning="; ".join(filter(None, (*more, shipment.warning))) or None)


def _detached(repository: Repository) -> str:
    return "" if repository.branch else f"started from a detached HEAD at {repository.head[:12]}"
