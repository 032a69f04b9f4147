"""The review of a pipeline's item, and how far an approval reaches."""

from __future__ import annotations

from driver.git import GitError
from driver.ground import RepositoryGround
from driver.outcome import Verdict
from driver.phases.line import Line
from driver.phases.phase_prompt import phase_prompt, prompt_file
from driver.phases.phase_records import Started, reviewed
from driver.phases.review import review
from driver.pipeline import course
from driver.pipeline.definition import Phase
from driver.pipeline.phase_receipt import COMPLETED, MENDER, READER, REPAIR, SKIPPED, STALLED
from driver.review_verdict import judge
from driver.reviews import Review, settled_by
from driver.trail import outcome_of
from driver.verdicts import Judgement


def review_step(line: Line, phase: Phase) -> Judgement | None:
    """Ask, have mended what is found, ask again; None once the work is approved."""
    if not line.wave.wants_review(line.at.planned):
        off = Started(line.tree()).receipt(phase, READER, SKIPPED, reason="reviews are off")
        line.record(phase, off, line.last)
        return None
    while True:
        if (ended := line.green()) is not None:
            return ended
        found = settled_by(line.trail.reviews, line.last.tree)
        judgement = _judged(line, found, phase) if found else _asked(line, phase)
        if judgement is not None:
            return None if judgement.verdict is Verdict.VERIFIED else judgement
        found = line.trail.reviews[-1] if found is None else found
        if (ended := _address(line, phase, found) or line.mended()) is not None:
            return ended


def _judged(line: Line, found: Review, phase: Phase) -> Judgement | None:
    """What a review comes to; None where its findings are to be repaired."""
    cap = line.cap if phase.repair else 0
    number = max(line.last.number, 1)
    judgement = judge(found, gate_green=True, number=number, repair_cap=cap)
    if judgement is None:
        line.books.to_address(found)
    if found.recalled and judgement is not None and judgement.verdict is Verdict.VERIFIED:
        known = Started(line.tree()).receipt(phase, READER, COMPLETED, reason=found.said)
        line.record(phase, known, line.last)
    return judgement


def _asked(line: Line, phase: Phase) -> Judgement | None:
    """A new review, written down with where the item stands after it."""
    planned, wave, trail = line.at.planned, line.wave, line.trail
    reviewer = wave.reviewer_of(planned)
    started = Started(line.tree(), driver=reviewer.driver if reviewer else None)
    more = prompt_file(planned, wave, phase)
    found = review(planned, line.at.place, wave, line.last, tuple(trail.reviews), more)
    trail.reviews.append(found)
    wave.gates.stop.check()  # a reviewer that was ended by us has said nothing
    judgement = _judged(line, found, phase)
    approved = judgement is not None and judgement.verdict is Verdict.VERIFIED
    status = COMPLETED if approved else (STALLED if judgement else REPAIR)
    receipt = started.receipt(phase, READER, status, work=line.last, reason=found.said)
    stands = judgement or Judgement(Verdict.FAILED, f"a reviewer asks for changes: {found.said}")
    reason = stands.reason or line.last.reason
    outcome = outcome_of(planned, stands.verdict, reason, trail)
    line.books.read(reviewed(receipt, found), found, outcome, judgement)
    return judgement


def _address(line: Line, phase: Phase, found: Review) -> Judgement | None:
    """The first of the review's repairs; the gates behind it are what follows any change."""
    agent = line.pipeline.called(phase.repair[0])
    if (ended := line.unclean(agent)) is not None:
        return ended
    place = line.at.place
    prompt = phase_prompt(line.at.planned, place, line.wave, agent, line.last, found)
    line.work(agent, agent.name, prompt, MENDER)
    return None


def approved(line: Line) -> Judgement:
    """The verdict of proven work: whether an approval, where it needs one, reaches it."""
    proven = Judgement(Verdict.VERIFIED, line.last.reason)
    if not line.wave.wants_review(line.at.planned):
        return proven
    found = line.once_approved()
    if found is None or line.last.tree is None:
        return Judgement(Verdict.UNDECIDED, "nobody has approved it, and it has to be reviewed")
    try:
        paths = _since(line, found.tree, line.last.tree)
    except GitError as gone:
        why = f"what was approved cannot be compared with what it is now: {gone}"
        return Judgement(Verdict.UNDECIDED, why)
    if problem := course.approval_gone(line.pipeline, paths):
        return Judgement(Verdict.UNDECIDED, problem)
    line.approved_tree, line.after_approval = found.tree, paths
    return proven


def _since(line: Line, earlier: str, tree: str) -> tuple[str, ...]:
    ground = line.wave.ground_of(line.at.planned)
    if earlier == tree or not isinstance(ground, RepositoryGround):
        return ()
    return tuple(change.path for change in ground.git.changes(earlier, tree))
