"""The review of a pipeline's item, and how far an approval reaches."""

from __future__ import annotations

from driver.agents.review import review
from driver.agents.review_verdict import judge
from driver.domain.phase_receipt import COMPLETED, READER, REPAIR, REPAIRER, SKIPPED, STALLED
from driver.domain.results import Verdict
from driver.domain.reviews import Review, settled_by
from driver.git.private_git import GitError
from driver.pipeline import position as course
from driver.pipeline.definition import Phase
from driver.pipeline_run.item_work import PipelineRun
from driver.pipeline_run.phase_prompt import phase_prompt, prompt_file
from driver.pipeline_run.step_log import Started, reviewed
from driver.policy.judgement import Judgement
from driver.run_state.attempt_history import outcome_of


def review_step(way: PipelineRun, phase: Phase) -> Judgement | None:
    """Ask, have mended what is found, ask again; None once the work is approved."""
    if not way.wave.wants_review(way.at.planned):
        off = Started(way.tree()).receipt(phase, READER, SKIPPED, reason="reviews are off")
        way.record(off, way.last)
        return None
    while True:
        if (ended := way.green()) is not None:
            return ended
        found = settled_by(way.trail.reviews, way.last.tree)
        judgement = _judged(way, found, phase) if found else _asked(way, phase)
        if judgement is not None:
            return None if judgement.verdict is Verdict.VERIFIED else judgement
        found = way.trail.reviews[-1] if found is None else found
        if (ended := _address(way, phase, found) or way.mended()) is not None:
            return ended


def _judged(way: PipelineRun, found: Review, phase: Phase) -> Judgement | None:
    """What a review comes to; None where its findings are to be repaired."""
    cap = way.cap if phase.repair else 0
    number = max(way.last.number, 1)
    judgement = judge(found, gate_green=True, number=number, repair_cap=cap)
    if judgement is None:
        way.books.to_address(found)
    if found.recalled and judgement is not None and judgement.verdict is Verdict.VERIFIED:
        known = Started(way.tree()).receipt(phase, READER, COMPLETED, reason=found.message)
        way.record(known, way.last)
    return judgement


def _asked(way: PipelineRun, phase: Phase) -> Judgement | None:
    """A new review, written down with where the item stands after it."""
    planned, wave, trail = way.at.planned, way.wave, way.trail
    reviewer = wave.reviewer_of(planned)
    started = Started(way.tree(), driver=reviewer.driver if reviewer else None)
    more = prompt_file(planned, wave, phase)
    found = review(planned, way.at.place, wave, way.last, tuple(trail.reviews), more)
    trail.reviews.append(found)
    wave.gates.stop.check()  # a reviewer that was ended by us has said nothing
    judgement = _judged(way, found, phase)
    approved = judgement is not None and judgement.verdict is Verdict.VERIFIED
    status = COMPLETED if approved else (STALLED if judgement else REPAIR)
    receipt = started.receipt(phase, READER, status, work=way.last, reason=found.message)
    stands = judgement or Judgement(Verdict.FAILED, f"a reviewer asks for changes: {found.message}")
    reason = stands.reason or way.last.reason
    outcome = outcome_of(planned, stands.verdict, reason, trail)
    way.books.read(reviewed(receipt, found), found, outcome, judgement)
    return judgement


def _address(way: PipelineRun, phase: Phase, found: Review) -> Judgement | None:
    """The first of the review's repairs; the gates behind it are what follows any change."""
    agent = way.pipeline.called(phase.repair[0])
    if (ended := way.unclean(agent)) is not None:
        return ended
    place = way.at.place
    prompt = phase_prompt(way.at.planned, place, way.wave, agent, way.last, found)
    way.work(agent, agent.name, prompt, REPAIRER)
    return None


def approved(way: PipelineRun) -> Judgement:
    """The verdict of proven work: whether an approval, where it needs one, reaches it."""
    proven = Judgement(Verdict.VERIFIED, way.last.reason)
    if not way.wave.wants_review(way.at.planned):
        return proven
    found = way.once_approved()
    if found is None or way.last.tree is None:
        return Judgement(Verdict.UNDECIDED, "nobody has approved it, and it has to be reviewed")
    try:
        paths = _since(way, found.tree, way.last.tree)
    except GitError as gone:
        why = f"what was approved cannot be compared with what it is now: {gone}"
        return Judgement(Verdict.UNDECIDED, why)
    if problem := course.approval_gone(way.pipeline, paths):
        return Judgement(Verdict.UNDECIDED, problem)
    way.approved_tree, way.after_approval = found.tree, paths
    return proven


def _since(way: PipelineRun, earlier: str, tree: str) -> tuple[str, ...]:
    changes = way.wave.ground_of(way.at.planned).changes(earlier, tree)
    return tuple(change.path for change in changes)
