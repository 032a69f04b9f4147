"""One item through the steps of its pipeline; the classic order is one of them.

What a step leaves is a tree, and what is written down of it (`way_books`) is what a run that was
killed goes on from. Whatever changed the tree, it is proven before anything rests on it: before the
next agent behind a gate, before a review, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from driver.agents.attempt import is_unproven, save, worked
from driver.domain.phase_receipt import (
    BUILDER,
    COMPLETED,
    SKIPPED,
    STALLED,
    TESTER,
    WORKER,
)
from driver.domain.results import Attempt, ItemOutcome, Verdict
from driver.limits.admission import STOPPED_BY_USER, GateClosedError
from driver.pipeline import position as course
from driver.pipeline.definition import AGENT, GATE, PUBLISH, REVIEW, SETUP, Phase
from driver.pipeline_run.item_work import PipelineRun
from driver.pipeline_run.phase_prompt import phase_prompt
from driver.pipeline_run.read_only_agent import read_only
from driver.pipeline_run.resume_point import ResumePoint
from driver.pipeline_run.review_loop import approved, review_step
from driver.pipeline_run.setup_step import set_up
from driver.pipeline_run.step_log import Started, call_of
from driver.policy.judgement import Judgement
from driver.run_state.attempt_history import AttemptHistory, outcome_of, settle
from driver.run_state.context import Placed
from driver.terminal.progress import QUIT, RUN

NOTHING_DONE = "nothing was done: no step before this one has left any work"


def follow(at: Placed, trail: AttemptHistory, start: ResumePoint) -> ItemOutcome:
    """The item's outcome. Raises what keeps an item from going on, as an attempt does."""
    way = PipelineRun(at, trail, start.attempts)
    ended = _walk(way, start.step)
    outcome = replace(
        outcome_of(at.planned, ended.verdict, ended.reason, trail),
        approved_tree=way.approved_tree,
        after_approval=way.after_approval,
        publish=way.publish,
    )
    last = trail.attempts[-1] if trail.attempts else None
    if last is None or (ended.verdict, ended.reason) != (last.verdict, last.reason):
        return settle(at.planned, at.wave, outcome)
    return outcome


def _walk(way: PipelineRun, first: int) -> Judgement:
    """The verdict after the last step, or that of the step which ended it."""
    steps = way.pipeline.steps
    way.gates = [phase for phase in steps[:first] if phase.kind == GATE]
    if first and steps[0].kind == SETUP and (ended := set_up(way.at, steps[0])[1]):
        return ended  # the place is a new one
    for phase in steps[first:]:
        if course.is_finished(phase, way.trail.phases, way.tree()):
            continue
        if not _is_wanted(way, phase):
            continue
        if phase.kind not in (SETUP, AGENT) and not way.trail.attempts:
            return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        ended = way.unclean(phase) or _STEPS[phase.kind](way, phase)
        if ended is not None:
            return ended
    if not way.trail.attempts:
        return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
    return way.green() or _owed(way) or approved(way)


def _owed(way: PipelineRun) -> Judgement | None:
    """Work is not believed without a gate that a person has passed over."""
    if not way.passed_over:
        return None
    why = f"gate {way.passed_over[0].name} was skipped, and has to let the work pass"
    return Judgement(Verdict.UNDECIDED, why)


def _is_wanted(way: PipelineRun, phase: Phase) -> bool:
    """Whether a person, where one is asked, lets the step begin. Raises GateClosedError."""
    if (ask := way.wave.options.ask) is None:
        return True
    way.wave.gates.check()  # nobody is asked about what may not begin any more
    answer = ask(way.slug, phase.name)
    if answer == QUIT:
        why = GateClosedError(STOPPED_BY_USER, "stopped by user")
        way.wave.gates.stop.close(why, way.wave.gates.halt_grace_s)
        way.wave.gates.check()
    if answer != RUN:
        way.record(Started().receipt(phase, TESTER, SKIPPED, reason="skipped by user"))
        way.publish = way.publish and phase.kind != PUBLISH
        way.passed_over += [phase] if phase.kind == GATE else []
    return answer == RUN


def _set_up(way: PipelineRun, phase: Phase) -> Judgement | None:
    way.wave.gates.check()
    done, ended = set_up(way.at, phase)
    way.record(done)
    return ended


def _ask_agent(way: PipelineRun, phase: Phase) -> Judgement | None:
    if not way.trail.attempts:
        return _implement(way, phase) if phase.edits else Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
    if way.gates and (ended := way.green()) is not None:
        return ended
    return _read(way, phase) if phase.reads_only else _further(way, phase)


def _implement(way: PipelineRun, phase: Phase) -> Judgement | None:
    prompt = phase_prompt(way.at.planned, way.at.place, way.wave, phase)
    way.work(phase, phase.name, prompt, BUILDER)
    return way.mended()


def _further(way: PipelineRun, phase: Phase) -> Judgement | None:
    """An agent after the first: what it adds belongs to the work, and may be bounded."""
    planned, place, before = way.at.planned, way.at.place, way.last
    place.forget_commits()
    prompt = phase_prompt(planned, place, way.wave, phase, before)
    call = replace(call_of(way.at, phase, phase.name, 1, prompt), attempts=way.number)
    started = Started(before.tree, prompt, way.wave.performer(phase).driver)
    done = worked(planned, place, way.wave, call)
    paths = course.changed_between(before.changes, done.changes)
    ended, problem = None, course.overstepped(phase, paths)
    if problem and (is_unproven(done) or done.verdict is Verdict.NO_CHANGE):
        ended = Judgement(Verdict.REFUSED, problem)
    elif not is_unproven(done):
        ended = Judgement(done.verdict, f"phase {phase.name}: {done.reason}")
    else:
        _take(way, before, done)
    status, why = (STALLED, ended.reason) if ended else (COMPLETED, "")
    receipt = started.receipt(phase, WORKER, status, work=done, call=call, reason=why)
    if ended:
        save(planned, place, way.wave, before.tree)
        receipt = replace(receipt, output=before.tree)
    way.record(receipt, way.last, number=1)
    return ended


def _take(way: PipelineRun, before: Attempt, done: Attempt) -> None:
    """The item's work is what a further agent has made of it."""
    if done.tree == before.tree:
        return
    way.open = True
    way.trail.attempts[-1] = replace(
        before,
        tree=done.tree,
        changes=done.changes,
        verdict=done.verdict,
        reason=done.reason,
        test=None,
    )


def _read(way: PipelineRun, phase: Phase) -> Judgement | None:
    done, ended = read_only(way.at, phase, way.last, way.number)
    if paths := way.strayed():  # or the next agent would pass for who wrote them
        why = f"phase {phase.name} may only read, and these changed: {', '.join(paths[:20])}"
        done, ended = replace(done, status=STALLED, reason=why), Judgement(Verdict.REFUSED, why)
    way.record(done, way.last, number=1)
    return ended


def _gate(way: PipelineRun, phase: Phase) -> Judgement | None:
    way.gates.append(phase)
    if phase.commands:
        way.open = True
    if way.open:
        return way.green()
    known = Started(way.tree()).receipt(phase, TESTER, COMPLETED, reason="proven already")
    way.record(known, way.last)
    return None


def _publish(way: PipelineRun, phase: Phase) -> Judgement | None:
    """Nothing yet: all items of a wave are shipped together, when each has its verdict."""
    del way, phase
    return None


_STEPS: Mapping[str, Callable[[PipelineRun, Phase], Judgement | None]] = {
    SETUP: _set_up,
    AGENT: _ask_agent,
    GATE: _gate,
    REVIEW: review_step,
    PUBLISH: _publish,
}
