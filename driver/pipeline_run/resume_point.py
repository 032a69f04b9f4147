"""Where the steps of an item's pipeline are taken up, and what this run needs of an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from driver.agents.attempt import UNPROVEN
from driver.domain import phase_receipt
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome, Verdict
from driver.pipeline import position as course
from driver.pipeline.definition import REVIEW
from driver.pipeline_run.resume import acceptable, resumed
from driver.pipeline_run.resume_state import ResumeState
from driver.run_state.context import ItemRun
from driver.workspace.saved_patch import step_patch
from state_store.documents.files import write_bytes_atomic


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where an item's steps are taken up: the number of the first one, from 0, the work as it is
    then, not proven, and what was done for it. `attempts` counts dispatches."""

    step: int = 0
    work: Attempt | None = None
    attempts: int = 0
    phases: tuple[PhaseReceipt, ...] = ()


def begin_at(item: ItemRun, memory: ResumeState) -> ResumePoint:
    """Where the item's steps are taken up: at the first that is not done, or that is asked for.

    Steps count as done only when the tree they left can be rebuilt and nothing is to be said
    against it; it is proven again before anything rests on it.
    """
    name = item.wave.options.from_phase
    step = course.before(item.pipeline, name) if name is not None else None
    phases = tuple(one for one in memory.phases if _is_kept(item, memory, one))
    if step is not None:
        again = {phase.name for phase in item.pipeline.steps[step:]}
        phases = tuple(one for one in phases if one.phase not in again)
    tree = course.last_tree(phases) or memory.tree
    found = acceptable(item, replace(memory, tree=tree)) if tree else None
    if found is None:
        return ResumePoint(step or 0, attempts=memory.attempts)
    if step is None:
        step = course.next_step(item.pipeline, phases)
    number = max(1, memory.attempts)
    work = replace(resumed(number, found), verdict=Verdict.UNDECIDED, reason=UNPROVEN)
    return ResumePoint(step, work, number, phase_receipt.remembered(phases))


def begin_proven(item: ItemRun, earned: ItemOutcome | None, memory: ResumeState) -> ResumePoint:
    """Where the item's steps are taken up with work that was proven again just now, if any: behind
    all gates."""
    if earned is None:
        return ResumePoint(attempts=memory.attempts)
    [again] = earned.attempts
    kinds = [phase.kind for phase in item.pipeline.steps]
    return ResumePoint(kinds.index(REVIEW), again, again.number)


def carry_over(item: ItemRun, memory: ResumeState) -> None:
    """Have this run's folder hold what an earlier run's holds of the steps that are done: the trees
    that the item was at when somebody read it, and the answers of agents that only read."""
    if memory.folder is None:
        return
    here = item.scratch
    trees = {one.tree for one in memory.reviews} | ({memory.tree} if memory.tree else set())
    answers = {phase.artifact for phase in item.pipeline.steps if phase.reads_only}
    for name in sorted(answers | {step_patch(tree) for tree in trees}):
        source = memory.folder / name
        if source.is_file() and not (here / name).exists():
            write_bytes_atomic(here / name, source.read_bytes())


def _is_kept(item: ItemRun, memory: ResumeState, done: PhaseReceipt) -> bool:
    """Whether the answer of a phase that only reads is there still; others leave a tree."""
    phase = item.pipeline.named(done.phase)
    if phase is None or not phase.reads_only or memory.folder is None:
        return True
    return (memory.folder / phase.artifact).is_file()
