"""The review of a pipeline's item, and how far an approval reaches."""

from __future__ import annotations

from driver.agents.review import review
from driver.agents.review_verdict import judge
from driver.domain.phase_receipt import COMPLETED, READER, REPAIR, REPAIRER, SKIPPED, STALLED
from driver.domain.results import Verdict
from driver.domain.reviews import Review, settled_by
from driver.git.private_git import GitError
from driver.pipeline import position
from driver.pipeline.definition import Phase
from driver.pipeline_run.item_work import PipelineRun
from driver.pipeline_run.phase_prompt import phase_prompt, prompt_file
from driver.pipeline_run.step_log import Started, reviewed
from driver.policy.judgement import Judgement


def review_step(run: PipelineRun, phase: Phase) -> Judgement | None:
    """Ask, have mended what is found, ask again; None once the work is approved."""
    if not run.item.wants_review:
        if run.item.shows_phases:
            off = Started(run.tree()).receipt(phase, READER, SKIPPED, reason="reviews are off")
            run.record(off, run.last)
        return None
    while True:
        if (ended := run.green()) is not None:
            return ended
        found = settled_by(run.item.reviews, run.last.tree)
        judgement = _judged(run, found, phase) if found else _asked(run, phase)
        if judgement is not None:
            return None if judgement.verdict is Verdict.VERIFIED else judgement
        found = run.item.reviews[-1] if found is None else found
        if (ended := _address(run, phase, found) or run.mended()) is not None:
            return ended


def _judged(run: PipelineRun, found: Review, phase: Phase) -> Judgement | None:
    """The judgement of a review; None if its findings are to be repaired."""
    cap = run.cap if phase.repair else 0
    number = max(run.last.number, 1)
    judgement = judge(found, gate_green=True, number=number, repair_cap=cap)
    if found.recalled and judgement is not None and judgement.verdict is Verdict.VERIFIED:
        known = Started(run.tree()).receipt(phase, READER, COMPLETED, reason=found.message)
        run.record(known, run.last)
    return judgement


def _asked(run: PipelineRun, phase: Phase) -> Judgement | None:
    """A new review, written down with where the item stands after it."""
    item = run.item
    reviewer = item.reviewer
    started = Started(run.tree(), driver=reviewer.driver if reviewer else None)
    more = prompt_file(item, phase)
    found = review(item, run.last, more)
    item.reviews.append(found)
    item.wave.gates.stop.check()  # a reviewer that was ended by us has said nothing
    judgement = _judged(run, found, phase)
    approved = judgement is not None and judgement.verdict is Verdict.VERIFIED
    status = COMPLETED if approved else (STALLED if judgement else REPAIR)
    receipt = started.receipt(phase, READER, status, work=run.last, reason=found.message)
    stands = judgement or Judgement(Verdict.FAILED, f"a reviewer asks for changes: {found.message}")
    reason = stands.reason or run.last.reason
    outcome = item.outcome(stands.verdict, reason)
    run.log.read(reviewed(receipt, found), found, outcome, judgement)
    return judgement


def _address(run: PipelineRun, phase: Phase, found: Review) -> Judgement | None:
    """The first of the review's repairs; the gates behind it are what follows any change."""
    agent = run.pipeline.called(phase.repair[0])
    if (ended := run.unclean(agent)) is not None:
        return ended
    prompt = phase_prompt(run.item, agent, run.last, found)
    run.work(agent, agent.name, prompt, REPAIRER)
    return None


def approved(run: PipelineRun) -> Judgement:
    """The verdict of proven work: whether an approval, where it needs one, reaches it."""
    proven = Judgement(Verdict.VERIFIED, run.last.reason)
    if not run.item.wants_review:
        return proven
    found = run.once_approved()
    if found is None or run.last.tree is None:
        return Judgement(Verdict.UNDECIDED, "nobody has approved it, and it has to be reviewed")
    try:
        changes = run.item.context.changes(found.tree, run.last.tree)
    except GitError as gone:
        why = f"what was approved cannot be compared with what it is now: {gone}"
        return Judgement(Verdict.UNDECIDED, why)
    paths = tuple(change.path for change in changes)
    if problem := position.approval_gone(run.pipeline, paths):
        return Judgement(Verdict.UNDECIDED, problem)
    run.approved_tree, run.after_approval = found.tree, paths
    return proven
