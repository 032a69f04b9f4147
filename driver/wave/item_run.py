"""One item from what an earlier run has left of it to its verdict; it waits for no other item.

Owns where it begins and how it ends; the steps between are `phases.pipelined`'s.
"""

from __future__ import annotations

import traceback
from dataclasses import replace

from driver.agents.attempt import is_unproven, of_trouble, save
from driver.domain.results import REVIEW, Attempt, ItemOutcome, Verdict
from driver.domain.reviews import ReviewWord, settled_by
from driver.execution.cancellation import InterruptedWaveError
from driver.limits.admission import CEILING, BackendClosedError, GateClosedError
from driver.pipeline_run.engine import follow
from driver.pipeline_run.phase_prompt import check_prompts
from driver.pipeline_run.resume import published, recover
from driver.pipeline_run.resume_point import ResumePoint, begin_at, begin_proven, carry_over
from driver.pipeline_run.resume_state import ResumeState
from driver.policy.judgement import Judgement, of_ignored, review_missing
from driver.run_state.attempt_history import AttemptHistory, outcome_of, settle
from driver.run_state.context import Placed, Planned, Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.repository_context import Workspace
from state_store.documents.errors import TidegateError


def walk(planned: Planned, wave: Wave, trail: AttemptHistory, memory: ResumeState) -> ItemOutcome:
    """One item, brought to a verdict. Never raises for anything that is the item's own matter.

    `trail` is filled on the way; `memory` is what an earlier run left of this piece of work.
    """
    try:
        return _walk(planned, wave, trail, memory)
    except LeasedElsewhereError as lost:
        wave.recorder.say(f"{planned.slug}: {Verdict.LEASED_ELSEWHERE}: {lost}")
        return outcome_of(planned, Verdict.LEASED_ELSEWHERE, str(lost), trail)
    except (GateClosedError, InterruptedWaveError) as stopped:
        verdict, reason = stopped_verdict(stopped), str(stopped)
    except (TidegateError, OSError) as trouble:
        found = of_trouble(trouble, wave)
        verdict, reason = found.verdict, found.reason
    except Exception as bug:  # noqa: BLE001 - one item's bug must not take the others' work along
        wave.recorder.say(f"{planned.slug}: {''.join(traceback.format_exception(bug))}")
        verdict, reason = Verdict.UNDECIDED, f"internal error: {bug!r}"
    return settle(planned, wave, outcome_of(planned, verdict, reason, trail))


def _walk(planned: Planned, wave: Wave, trail: AttemptHistory, memory: ResumeState) -> ItemOutcome:
    if (missing := _missing_review(planned, wave)) is not None:
        return settle(planned, wave, outcome_of(planned, missing.verdict, missing.reason, trail))
    wave.gates.check()
    wave.recorder.taken(wave.subject(planned))
    trail.reviews.extend(memory.reviews)
    wave.recorder.recall(planned.slug, trail.reviews)
    start = _start(planned, wave, trail, memory)
    if isinstance(start, ItemOutcome):
        return start
    place = wave.ground_of(planned).workspace(planned.slug, planned.home.work_dir, planned.owned)
    try:
        if (ignored := of_ignored(place.ignored())) is not None:
            nothing = outcome_of(planned, ignored.verdict, ignored.reason, AttemptHistory())
            return settle(planned, wave, nothing)
        if start.work is not None:
            _bring_back(planned, place, wave, start.work)
            trail.attempts.append(start.work)
        return follow(Placed(planned, place, wave), trail, start)
    finally:
        _leave(planned, place, wave)


def _start(
    planned: Planned, wave: Wave, trail: AttemptHistory, memory: ResumeState
) -> ResumePoint | ItemOutcome:
    """Where an earlier run has left the item; its outcome where nothing is to be done any more."""
    if wave.is_stepwise(planned):
        if (known := published(planned, wave, memory)) is not None:
            return replace(known, reviews=tuple(trail.reviews), phases=memory.phases)
        check_prompts(planned, wave)
        start = begin_at(planned, wave, memory)
    else:
        earned = recover(planned, wave, memory)
        if earned is not None and _is_done(planned, wave, earned, trail):
            return replace(earned, reviews=tuple(trail.reviews))
        start = begin_proven(planned, earned, memory)
    if start.work is None and memory.attempts > planned.policy.repair_cap:
        reason = f"all {memory.attempts} attempts were used up before the wave was interrupted"
        return settle(planned, wave, outcome_of(planned, Verdict.FAILED, reason, trail))
    if start.work is None:
        wave.spending.check()
        _check_reviewers_price(planned, wave)
        wave.baselines.begin(planned, wave)
    carry_over(planned, wave, memory)
    if start.phases:
        trail.phases.extend(start.phases)
        wave.recorder.recall_phases(planned.slug, start.phases)
    return start


def _bring_back(planned: Planned, place: Workspace, wave: Wave, work: Attempt) -> None:
    """Put an earlier run's work where it may be worked on further."""
    if work.tree is not None:
        place.put(work.tree)
        save(planned, place, wave, work.tree)


def _missing_review(planned: Planned, wave: Wave) -> Judgement | None:
    if not wave.wants_review(planned):
        return None
    reviewer = wave.reviewer_of(planned)
    fault = reviewer.gates.fault if reviewer else None
    own = reviewer is not None and reviewer.gates is not wave.gates
    closed = str(BackendClosedError(fault)) if fault and own else ""
    return review_missing(in_place=planned.home.top is None, closed=closed)


def _check_reviewers_price(planned: Planned, wave: Wave) -> None:
    """Raise GateClosedError where the review of the work would be refused for its price."""
    reviewer = wave.reviewer_of(planned)
    if reviewer is not None and wave.wants_review(planned):
        wave.spending.require_price(
            reviewer.driver, planned.slug, phase=REVIEW, model=reviewer.model
        )


def _is_done(planned: Planned, wave: Wave, earned: ItemOutcome, trail: AttemptHistory) -> bool:
    """Whether what an earlier run earned needs nobody any more."""
    if earned.shipped_as or earned.verdict is not Verdict.VERIFIED:
        return True
    known = settled_by(trail.reviews, earned.tree)
    approved = known is not None and known.word is ReviewWord.APPROVED
    return approved or not wave.wants_review(planned)


def _leave(planned: Planned, place: Workspace, wave: Wave) -> None:
    # Files of another user, say of a container, may stay: a pity, but no fault of the work.
    try:
        place.close()
    except TidegateError as stays:
        wave.recorder.say(f"{planned.slug}: {stays}")


def abandoned(planned: Planned, wave: Wave, trail: AttemptHistory) -> ItemOutcome:
    """The outcome of an item whose backend still works although the wave was stopped."""
    reason = f"{wave.gates.stop.cause}; its backend did not come back in time"
    begun = wave.recorder.started(planned.slug)
    known = [*trail.attempts]
    so_far = AttemptHistory(known, [*trail.reviews], [*trail.phases])
    if known and is_unproven(known[-1]):
        known[-1] = replace(known[-1], verdict=Verdict.HALTED, reason=reason)
    elif begun is None or begun[1] <= max((one.number for one in known), default=0):
        return outcome_of(planned, Verdict.HALTED, reason, so_far)
    else:
        known.append(Attempt(begun[1], begun[0], Verdict.HALTED, reason))
    return settle(planned, wave, outcome_of(planned, Verdict.HALTED, reason, so_far))


def stopped_verdict(stopped: GateClosedError | InterruptedWaveError) -> Verdict:
    """The verdict of an item that a gate or a signal did not let go on."""
    if isinstance(stopped, GateClosedError) and stopped.gate == CEILING:
        return Verdict.OVER_BUDGET
    return Verdict.HALTED
