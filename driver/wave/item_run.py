"""Runs an item from its resume state to its verdict. It waits for no other item. The steps in
between are those of its pipeline (`pipeline_run.engine`)."""

from __future__ import annotations

import traceback
from dataclasses import replace

from driver.agents.attempt import is_unproven, of_trouble, save
from driver.domain.results import REVIEW, Attempt, ItemOutcome, Verdict
from driver.execution.cancellation import InterruptedWaveError
from driver.filesystem.redacted_files import redact_folder
from driver.limits.admission import CEILING, BackendClosedError, GateClosedError
from driver.pipeline_run.engine import run_pipeline
from driver.pipeline_run.phase_prompt import check_prompts
from driver.pipeline_run.resume import ResumePoint, begin_at, carry_over, published
from driver.pipeline_run.resume_state import ResumeState
from driver.policy.judgement import Judgement, of_ignored, review_missing
from driver.run_state.context import ItemRun
from driver.run_state.leases import LeasedElsewhereError
from state_store.documents.errors import TidegateError
from state_store.views.item_progress import SET_UP


def run_item(item: ItemRun, state: ResumeState) -> ItemOutcome:
    """Bring one item to its verdict. Every error of the item becomes its verdict. `state` is the
    resume state of the item's work."""
    wave = item.wave
    try:
        return _run(item, state)
    except LeasedElsewhereError as lost:
        item.say(f"{Verdict.LEASED_ELSEWHERE}: {lost}")
        wave.recorder.notes.ended(item.slug, Verdict.LEASED_ELSEWHERE)
        return item.outcome(Verdict.LEASED_ELSEWHERE, str(lost))
    except (GateClosedError, InterruptedWaveError) as stopped:
        verdict, reason = stopped_verdict(stopped), str(stopped)
    except (TidegateError, OSError) as trouble:
        found = of_trouble(trouble, wave)
        verdict, reason = found.verdict, found.reason
    except Exception as bug:  # noqa: BLE001 - one item's bug must not take the others' work along
        item.say("".join(traceback.format_exception(bug)))
        verdict, reason = Verdict.UNDECIDED, f"internal error: {bug!r}"
    finally:
        redact_folder(item.scratch_path)  # what agents and tests wrote there by themselves
    return item.settle(item.outcome(verdict, reason))


def _run(item: ItemRun, state: ResumeState) -> ItemOutcome:
    wave = item.wave
    if (missing := _missing_review(item)) is not None:
        return item.settle(item.outcome(missing.verdict, missing.reason))
    wave.gates.check()
    wave.recorder.acquire(item.key, state.reviews)
    item.reviews.extend(state.reviews)
    wave.recorder.notes.enter(item.slug, SET_UP)
    start = _start(item, state)
    if isinstance(start, ItemOutcome):
        return start
    with item.in_workspace() as workspace:
        if (ignored := of_ignored(workspace.ignored())) is not None:
            nothing = item.outcome(ignored.verdict, ignored.reason)
            return item.settle(replace(nothing, reviews=(), phases=()))
        if start.work is None:
            if reason := wave.readiness.of(item):
                return item.settle(item.outcome(Verdict.UNDECIDED, reason))
            wave.baselines.begin(item)  # in the checkout that the question has left
        else:
            if start.work.tree is not None:
                workspace.put(start.work.tree)
                save(item, start.work.tree)
            item.attempts.append(start.work)
        return run_pipeline(item, start)


def _start(item: ItemRun, state: ResumeState) -> ResumePoint | ItemOutcome:
    """The step to start with, or the outcome if nothing is left to do."""
    if (known := published(item, state)) is not None:
        return known
    item.wave.recorder.given_up(item.key)
    check_prompts(item)
    start = begin_at(item, state)
    if start.work is None:
        if state.attempts > item.planned.policy.repair_cap:
            reason = f"all {state.attempts} attempts were used up before the wave was interrupted"
            return item.settle(item.outcome(Verdict.FAILED, reason))
        item.wave.spending.check()
        _check_reviewers_price(item)
        item.wave.readiness.begin(item)
    carry_over(item, state)
    item.phases.extend(start.phases)
    item.wave.recorder.resumed(item.key, start.phases)
    return start


def _missing_review(item: ItemRun) -> Judgement | None:
    if not item.wants_review:
        return None
    reviewer = item.reviewer
    fault = reviewer.gates.fault if reviewer else None
    own = reviewer is not None and reviewer.gates is not item.wave.gates
    closed = str(BackendClosedError(fault)) if fault and own else ""
    return review_missing(in_place=item.planned.home.top is None, closed=closed)


def _check_reviewers_price(item: ItemRun) -> None:
    """Raise GateClosedError if the price of the review would be refused."""
    reviewer = item.reviewer
    if reviewer is not None and item.wants_review:
        item.wave.spending.require_price(
            reviewer.driver, item.slug, phase=REVIEW, model=reviewer.model
        )


def abandoned(item: ItemRun) -> ItemOutcome:
    """The outcome of an item whose backend still works although the wave was stopped."""
    wave = item.wave
    reason = f"{wave.gates.stop.cause}; its backend did not end in time"
    begun = item.started
    known = [*item.attempts]  # a copy, because the abandoned thread may still add to its own list
    if known and is_unproven(known[-1]):
        known[-1] = replace(known[-1], verdict=Verdict.HALTED, reason=reason)
    elif begun is None or begun[1] <= max((one.number for one in known), default=0):
        return item.outcome(Verdict.HALTED, reason)
    else:
        known.append(Attempt(begun[1], begun[0], Verdict.HALTED, reason))
    so_far = ItemRun(item.planned, wave, known, [*item.reviews], [*item.phases])
    return item.settle(so_far.outcome(Verdict.HALTED, reason))


def stopped_verdict(stopped: GateClosedError | InterruptedWaveError) -> Verdict:
    """The verdict of an item that a closed gate or a signal stopped."""
    if isinstance(stopped, GateClosedError) and stopped.gate == CEILING:
        return Verdict.OVER_BUDGET
    return Verdict.HALTED
