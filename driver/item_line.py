"""The way of one item from its place to its verdict; it waits for no other item."""

from __future__ import annotations

import traceback
from dataclasses import replace

from driver.gates import CEILING, BackendClosedError, GateClosedError
from driver.ground import Place
from driver.leasing import LeasedElsewhereError
from driver.outcome import Attempt, ItemOutcome, Verdict
from driver.phases.build import build, may_repair, save
from driver.phases.phase_prompt import check_prompts
from driver.phases.pipelined import follow
from driver.phases.recovery import Remembered, published, recover
from driver.phases.repair import address, repair
from driver.phases.review import review
from driver.phases.taking_up import begin_at, carry_over
from driver.review_verdict import judge
from driver.reviews import Review, ReviewWord, settled_by
from driver.saved_work import REVIEWED
from driver.stop import InterruptedWaveError
from driver.trail import Trail, outcome_of, settle
from driver.verdicts import Judgement, of_ignored, review_missing
from driver.wave_context import Placed, Planned, Wave
from state_store.errors import TidegateError


def walk(planned: Planned, wave: Wave, trail: Trail, memory: Remembered) -> ItemOutcome:
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
    except TidegateError as error:
        verdict, reason = Verdict.UNDECIDED, str(error)
    except OSError as trouble:  # a set-up or another program took its files away
        verdict, reason = Verdict.UNDECIDED, f"its workspace cannot be used: {trouble}"
    except Exception as bug:  # noqa: BLE001 - one item's bug must not take the others' work along
        wave.recorder.say(f"{planned.slug}: {''.join(traceback.format_exception(bug))}")
        verdict, reason = Verdict.UNDECIDED, f"internal error: {bug!r}"
    return settle(planned, wave, outcome_of(planned, verdict, reason, trail))


def _walk(planned: Planned, wave: Wave, trail: Trail, memory: Remembered) -> ItemOutcome:
    if (missing := _missing_review(planned, wave)) is not None:
        return settle(planned, wave, outcome_of(planned, missing.verdict, missing.reason, trail))
    wave.gates.check()
    wave.recorder.taken(wave.subject(planned))
    trail.reviews.extend(memory.reviews)
    wave.recorder.recall(planned.slug, trail.reviews)
    if wave.is_stepwise(planned):
        return _stepwise(planned, wave, trail, memory)
    earned = recover(planned, wave, memory)
    if earned is not None and _is_done(planned, wave, earned, trail):
        return replace(earned, reviews=tuple(trail.reviews))
    if earned is None and memory.attempts > planned.policy.repair_cap:
        reason = f"all {memory.attempts} attempts were used up before the wave was interrupted"
        return settle(planned, wave, outcome_of(planned, Verdict.FAILED, reason, trail))
    if earned is None:
        wave.gates.check_dispatch()
        wave.baselines.begin(planned, wave)
    place = _placed(planned, wave)
    try:
        if (ignored := of_ignored(place.ignored())) is not None:
            nothing = outcome_of(planned, ignored.verdict, ignored.reason, Trail())
            return settle(planned, wave, nothing)
        if earned is None:
            trail.attempts.append(build(planned, place, wave, number=memory.attempts + 1))
        else:
            trail.attempts.append(_taken_up(planned, place, wave, earned))
        return _to_its_end(planned, place, wave, trail)
    finally:
        _leave(planned, place, wave)


def _placed(planned: Planned, wave: Wave) -> Place:
    return wave.ground_of(planned).place(planned.slug, planned.home.work_dir, planned.owned)


def _stepwise(planned: Planned, wave: Wave, trail: Trail, memory: Remembered) -> ItemOutcome:
    """Through the steps of its pipeline, from where an earlier run has left it."""
    if (known := published(planned, wave, memory)) is not None:
        return replace(known, reviews=tuple(trail.reviews), phases=memory.phases)
    check_prompts(planned, wave)
    start = begin_at(planned, wave, memory)
    if start.work is None and memory.attempts > planned.policy.repair_cap:
        reason = f"all {memory.attempts} attempts were used up before the wave was interrupted"
        return settle(planned, wave, outcome_of(planned, Verdict.FAILED, reason, trail))
    carry_over(planned, wave, memory)
    trail.phases.extend(start.phases)
    wave.recorder.recall_phases(planned.slug, start.phases)
    place = _placed(planned, wave)
    try:
        if (ignored := of_ignored(place.ignored())) is not None:
            nothing = outcome_of(planned, ignored.verdict, ignored.reason, Trail())
            return settle(planned, wave, nothing)
        if start.work is not None and start.work.tree is not None:
            place.put(start.work.tree)
            save(planned, place, wave, start.work.tree)
            trail.attempts.append(start.work)
        return follow(Placed(planned, place, wave), trail, start)
    finally:
        _leave(planned, place, wave)


def _missing_review(planned: Planned, wave: Wave) -> Judgement | None:
    if not wave.wants_review(planned):
        return None
    reviewer = wave.reviewer_of(planned)
    fault = reviewer.gates.fault if reviewer else None
    own = reviewer is not None and reviewer.gates is not wave.gates
    closed = str(BackendClosedError(fault)) if fault and own else ""
    return review_missing(in_place=planned.home.top is None, closed=closed)


def _is_done(planned: Planned, wave: Wave, earned: ItemOutcome, trail: Trail) -> bool:
    """Whether what an earlier run earned needs nobody any more."""
    if earned.shipped_as or earned.verdict is not Verdict.VERIFIED:
        return True
    known = settled_by(trail.reviews, earned.tree)
    approved = known is not None and known.word is ReviewWord.APPROVED
    return approved or not wave.wants_review(planned)


def _taken_up(planned: Planned, place: Place, wave: Wave, earned: ItemOutcome) -> Attempt:
    """Put an earlier run's work, which was proven again, where it may be worked on further."""
    [again] = earned.attempts
    if again.tree is not None:
        place.put(again.tree)
        save(planned, place, wave, again.tree)
    return again


def _to_its_end(planned: Planned, place: Place, wave: Wave, trail: Trail) -> ItemOutcome:
    """Repaired and reviewed until nothing more is to be done, or nobody may do more."""
    cap, attempts = planned.policy.repair_cap, trail.attempts
    while True:
        while may_repair(attempts[-1], cap):
            attempts.append(repair(planned, place, wave, attempts[-1]))
        last = attempts[-1]
        if not _is_green(last) or not wave.wants_review(planned):
            return outcome_of(planned, last.verdict, last.reason, trail)
        found = settled_by(trail.reviews, last.tree) or _asked(planned, place, wave, trail)
        judgement = judge(found, gate_green=_is_green(last), number=last.number, repair_cap=cap)
        if judgement is not None:
            reason = judgement.reason or last.reason
            return outcome_of(planned, judgement.verdict, reason, trail)
        save(planned, place, wave, found.tree, REVIEWED)
        wave.gates.check_dispatch()
        wave.baselines.begin(planned, wave)
        attempts.append(address(planned, place, wave, last, found))


def _is_green(work: Attempt) -> bool:
    return work.verdict is Verdict.VERIFIED


def _asked(planned: Planned, place: Place, wave: Wave, trail: Trail) -> Review:
    """A new review of the last attempt, written down with where the item stands after it."""
    last, cap = trail.attempts[-1], planned.policy.repair_cap
    found = review(planned, place, wave, last, tuple(trail.reviews))
    trail.reviews.append(found)
    wave.gates.stop.check()  # a reviewer that was ended by us has said nothing
    judgement = judge(found, gate_green=_is_green(last), number=last.number, repair_cap=cap)
    stands = judgement or Judgement(Verdict.FAILED, f"a reviewer asks for changes: {found.said}")
    outcome = outcome_of(planned, stands.verdict, stands.reason or last.reason, trail)
    if judgement is None:
        save(planned, place, wave, found.tree, REVIEWED)
    final = judgement is not None and judgement.verdict is not Verdict.UNDECIDED
    wave.recorder.reviewed(wave.subject(planned), found, outcome, final)
    return found


def _leave(planned: Planned, place: Place, wave: Wave) -> None:
    # Files of another user, say of a container, may stay: a pity, but no fault of the work.
    try:
        place.close()
    except TidegateError as stays:
        wave.recorder.say(f"{planned.slug}: {stays}")


def abandoned(planned: Planned, wave: Wave, trail: Trail) -> ItemOutcome:
    """The outcome of an item whose backend still works although the wave was stopped."""
    reason = f"{wave.gates.stop.cause}; its backend did not come back in time"
    begun = wave.recorder.started(planned.slug)
    known = [*trail.attempts]
    so_far = Trail(known, [*trail.reviews], [*trail.phases])
    if begun is None or begun[1] <= max((one.number for one in known), default=0):
        return outcome_of(planned, Verdict.HALTED, reason, so_far)
    known.append(Attempt(begun[1], begun[0], Verdict.HALTED, reason))
    return settle(planned, wave, outcome_of(planned, Verdict.HALTED, reason, so_far))


def stopped_verdict(stopped: GateClosedError | InterruptedWaveError) -> Verdict:
    """The verdict of an item that a gate or a signal did not let go on."""
    if isinstance(stopped, GateClosedError) and stopped.gate == CEILING:
        return Verdict.OVER_BUDGET
    return Verdict.HALTED
