"""Resumes an item: finds what an earlier run published of it, and the step to go on from.

The journal is not believed. A commit counts as shipped when it is where it was to go, and one that
was only announced is put there. Work counts only if its tree can be rebuilt from its patch; it is
put into a workspace and proven again before anything rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from driver.agents.attempt import UNPROVEN, against
from driver.backend_api.driver import Usage
from driver.domain import phase_receipt
from driver.domain.phase_receipt import BUILDER, COMPLETED, REPAIRER, PhaseReceipt
from driver.domain.results import RESUME, Attempt, ItemOutcome, Verdict
from driver.domain.reviews import ReviewWord, settled_by
from driver.domain.shipment import Shipment
from driver.filesystem.safe_file_access import regular_bytes
from driver.git.private_git import GitError
from driver.pipeline import position
from driver.pipeline.definition import REVIEW, SETUP
from driver.pipeline_run.resume_state import ResumeState
from driver.run_state.context import ItemRun, Wave
from driver.workspace.base_branch import already_made, conflicts
from driver.workspace.clone_context import CloneContext
from driver.workspace.saved_patch import origin_of, step_patch
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.files import write_bytes_atomic
from state_store.values.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The number, from 0, of the step at which an item goes on, the work as it is then, not proven,
    and the phases that are done. `attempts` counts dispatches at the work. `again` is 1 if one of
    them was broken off and is given once more."""

    step: int = 0
    work: Attempt | None = None
    attempts: int = 0
    phases: tuple[PhaseReceipt, ...] = ()
    again: int = 0


def finish_pending(wave: Wave, states: Mapping[str, ResumeState]) -> None:
    """Finish what moves the user's checkout before any agent is at work that could have moved it.
    Trouble is reported when the items are asked about."""
    for item in wave.items:
        context, pending = item.repository, states[item.slug].pending
        if context is None or pending is None or not pending.moves_checkout:
            continue
        if not wave.recorder.still_ours(item.key):
            continue
        guard = context.checkout_guard
        with suppress(TidegateError), guard.own_changes() if guard else nullcontext():
            wave.gates.check()
            branch = context.repository.branch
            if pending.reconcile(context) and branch:
                context.moved_to = context.branches.tip(branch)


def earlier_shipments(
    states: Iterable[ResumeState],
) -> tuple[dict[str, Shipment], dict[str, Shipment]]:
    """The shipments of earlier runs that this run completed, and those that were complete already,
    each under a key of its own."""
    pending = [one for one in dict.fromkeys(state.pending for state in states) if one is not None]
    made = [one.shipment for one in pending if one.shipment is not None]
    found = [one.found for one in pending if one.found is not None]
    made_by_key, found_by_key = ({f"{o.repo} {o.kept}": o for o in some} for some in (made, found))
    return made_by_key, found_by_key


def published(item: ItemRun, state: ResumeState) -> ItemOutcome | None:
    """The outcome of an item that an earlier run has shipped, or cannot tell whether it has."""
    context = item.repository
    if context is None or not state.commit:
        return None
    known = ItemOutcome(
        slug=item.slug,
        verdict=Verdict.VERIFIED,
        tree=state.tree,
        reviews=tuple(item.reviews),
        phases=state.phases,
        resumed=True,
    )
    try:
        if context.branches.is_in_head(state.commit) or (
            state.pending is not None and state.pending.reconcile(context)
        ):
            return replace(
                known,
                shipped_as=state.commit,
                approved_tree=state.approved,
                after_approval=state.after_approval,
            )
    except CannotRunError as error:
        # Not journaled: the entry there is must stay, or the work would be shipped twice.
        return replace(known, verdict=Verdict.UNDECIDED, reason=str(error))
    return None


def begin_at(item: ItemRun, state: ResumeState) -> ResumePoint:
    """The first step that is not done, or that is asked for.

    Steps count as done only if the tree they left can be rebuilt and nothing is to be said against
    it. On a base that has moved on, only the agents' work is kept.
    """
    pipeline, name = item.pipeline, item.wave.options.from_phase
    step = position.before(pipeline, name) if name is not None else None
    phases = tuple(one for one in state.phases if _is_kept(item, state, one))
    if step is not None:
        again = {phase.name for phase in pipeline.steps[step:]}
        phases = tuple(one for one in phases if one.phase not in again)
    tree = position.last_tree(phases) or state.tree
    work = _rebuilt_work(item, state, tree) if tree else None
    if work is None:
        return ResumePoint(step or 0, attempts=state.attempts)
    if state.base_moved:
        phases = tuple(replace(one, output=work.tree) for one in phases)
    if step is None:
        step = position.next_step(pipeline, phases)
        if step <= pipeline.steps.index(pipeline.first_agent):  # it did not come to its end
            return ResumePoint(attempts=state.attempts)
    known = phase_receipt.remembered(phases)
    return ResumePoint(step, work, work.number, known, _broken_off(state))


def _broken_off(state: ResumeState) -> int:
    """1 if the earlier run was killed while an agent repaired, and 0 if not. It is 1 as well after
    many such kills, so that work which ends every run gets one dispatch more at most."""
    ended = sum(one.role in (BUILDER, REPAIRER) for one in state.phases)
    return int(0 < ended < state.number)


def carry_over(item: ItemRun, state: ResumeState) -> None:
    """Have this run's folder hold what an earlier run's holds of the steps that are done: the trees
    that reviewers read, and the answers of agents that only read."""
    if state.folder is None:
        return
    here = item.scratch
    trees = {one.tree for one in state.reviews} | ({state.tree} if state.tree else set())
    answers = {phase.artifact for phase in item.pipeline.steps if phase.reads_only}
    for name in sorted(answers | {step_patch(tree) for tree in trees}):
        source = state.folder / name
        if source.is_file() and not (here / name).exists():
            write_bytes_atomic(here / name, regular_bytes(source))


def _is_kept(item: ItemRun, state: ResumeState, done: PhaseReceipt) -> bool:
    """True if a phase counts as done: an answer of one that only reads has to be there still, and a
    review needs an approval of the very tree that it left."""
    phase = item.pipeline.named(done.phase)
    if state.base_moved:
        return phase is not None and (phase.edits or phase.kind == SETUP)
    if phase is None or state.folder is None:
        return True
    if phase.kind == REVIEW and done.status == COMPLETED:
        known = settled_by(state.reviews, done.output)
        return known is not None and known.word is ReviewWord.APPROVED
    return not phase.reads_only or (state.folder / phase.artifact).is_file()


def _rebuilt_work(item: ItemRun, state: ResumeState, tree: str) -> Attempt | None:
    """The earlier run's work as the first attempt of this one; None if it cannot be rebuilt, or may
    not be shipped."""
    context = item.repository
    if context is None or state.folder is None:
        return None
    rebuilt = _rebuilt(context, state, state.folder, tree)
    if rebuilt is None:
        return None
    seen = context.observed(rebuilt)
    if against(item, seen) is not None:
        return None
    return Attempt(
        number=max(1, state.number),
        phase=RESUME,
        verdict=Verdict.UNDECIDED,
        reason=UNPROVEN,
        usage=Usage(0, 0, 0.0),
        tree=rebuilt,
        changes=seen.changes,
    )


def _rebuilt(context: CloneContext, state: ResumeState, folder: Path, tree: str) -> str | None:
    """The tree, if its patch still makes it; on a base that has moved on, its changes on that,
    unless they conflict with what came meanwhile."""
    git = context.git
    try:
        patch = regular_bytes(folder / step_patch(tree))
        origin = origin_of(patch)
        if origin.top not in (None, context.repository.top):
            return None
        base_tree = git.tree_of(origin.base or context.base)
        if git.apply(base_tree, patch) != tree:
            return None
        for read in {one.tree for one in state.reviews}:
            with suppress(OSError, GitError):  # only so that its difference can be shown
                git.apply(base_tree, regular_bytes(folder / step_patch(read)))
    except (OSError, GitError):
        return None
    if base_tree == context.base_tree:
        return tree
    mine, theirs = (git.changes(base_tree, one) for one in (tree, context.base_tree))
    if already_made(mine, theirs) or conflicts(mine, theirs):
        return None
    return git.tree_with(context.base_tree, mine)
