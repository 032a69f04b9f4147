"""One item through the steps of its pipeline; the classic order is one of them.

What a step leaves is a tree, and what is written down of it (`line_books`) is what a run that was
killed goes on from. Whatever changed the tree, it is proven before anything rests on it: before the
next agent behind a gate, before a review, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from driver.gates import STOPPED_BY_USER, GateClosedError
from driver.outcome import Attempt, ItemOutcome, Verdict
from driver.phases.build import is_unproven, save, worked
from driver.phases.line import Line
from driver.phases.line_review import approved, review_step
from driver.phases.phase_prompt import phase_prompt
from driver.phases.phase_records import Started, call_of
from driver.phases.reading import read_only
from driver.phases.setting_up import set_up
from driver.phases.taking_up import Start
from driver.pipeline import course
from driver.pipeline.confirm import QUIT, RUN
from driver.pipeline.definition import AGENT, GATE, PUBLISH, REVIEW, SETUP, Phase
from driver.pipeline.phase_receipt import (
    BUILDER,
    COMPLETED,
    SKIPPED,
    STALLED,
    TESTER,
    WORKER,
)
from driver.trail import Trail, outcome_of, settle
from driver.verdicts import Judgement
from driver.wave_context import Placed

NOTHING_DONE = "nothing was done: no step before this one has left any work"


def follow(at: Placed, trail: Trail, start: Start) -> ItemOutcome:
    """The item's outcome. Raises what keeps an item from going on, as an attempt does."""
    line = Line(at, trail, start.attempts)
    ended = _walk(line, start.step)
    outcome = replace(
        outcome_of(at.planned, ended.verdict, ended.reason, trail),
        approved_tree=line.approved_tree,
        after_approval=line.after_approval,
        publish=line.publish,
    )
    last = trail.attempts[-1] if trail.attempts else None
    if last is None or (ended.verdict, ended.reason) != (last.verdict, last.reason):
        return settle(at.planned, at.wave, outcome)
    return outcome


def _walk(line: Line, first: int) -> Judgement:
    """The verdict after the last step, or that of the step which ended it."""
    steps = line.pipeline.steps
    line.gates = [phase for phase in steps[:first] if phase.kind == GATE]
    if first and steps[0].kind == SETUP and (ended := set_up(line.at, steps[0])[1]):
        return ended  # the place is a new one
    for phase in steps[first:]:
        if course.is_finished(phase, line.trail.phases, line.tree()):
            continue
        if not _is_wanted(line, phase):
            continue
        if phase.kind not in (SETUP, AGENT) and not line.trail.attempts:
            return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        ended = line.unclean(phase) or _STEPS[phase.kind](line, phase)
        if ended is not None:
            return ended
    if not line.trail.attempts:
        return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
    return line.green() or _owed(line) or approved(line)


def _owed(line: Line) -> Judgement | None:
    """Work is not believed without a gate that a person has passed over."""
    if not line.passed_over:
        return None
    why = f"gate {line.passed_over[0].name} was skipped, and has to let the work pass"
    return Judgement(Verdict.UNDECIDED, why)


def _is_wanted(line: Line, phase: Phase) -> bool:
    """Whether a person, where one is asked, lets the step begin. Raises GateClosedError."""
    if (ask := line.wave.options.ask) is None:
        return True
    line.wave.gates.check()  # nobody is asked about what may not begin any more
    answer = ask(line.slug, phase.name)
    if answer == QUIT:
        why = GateClosedError(STOPPED_BY_USER, "stopped by user")
        line.wave.gates.stop.close(why, line.wave.gates.halt_grace_s)
        line.wave.gates.check()
    if answer != RUN:
        line.record(phase, Started().receipt(phase, TESTER, SKIPPED, reason="skipped by user"))
        line.publish = line.publish and phase.kind != PUBLISH
        line.passed_over += [phase] if phase.kind == GATE else []
    return answer == RUN


def _set_up(line: Line, phase: Phase) -> Judgement | None:
    line.wave.gates.check()
    done, ended = set_up(line.at, phase)
    line.record(phase, done)
    return ended


def _ask_agent(line: Line, phase: Phase) -> Judgement | None:
    if not line.trail.attempts:
        return (
            _implement(line, phase) if phase.edits else Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        )
    if line.gates and (ended := line.green()) is not None:
        return ended
    return _read(line, phase) if phase.reads_only else _further(line, phase)


def _implement(line: Line, phase: Phase) -> Judgement | None:
    prompt = phase_prompt(line.at.planned, line.at.place, line.wave, phase)
    line.work(phase, phase.name, prompt, BUILDER)
    return line.mended()


def _further(line: Line, phase: Phase) -> Judgement | None:
    """An agent after the first: what it adds belongs to the work, and may be bounded."""
    planned, place, before = line.at.planned, line.at.place, line.last
    place.forget_commits()
    prompt = phase_prompt(planned, place, line.wave, phase, before)
    call = replace(call_of(line.at, phase, phase.name, 1, prompt), attempts=line.number)
    started = Started(before.tree, prompt, line.wave.performer(phase).driver)
    done = worked(planned, place, line.wave, call)
    paths = course.changed_between(before.changes, done.changes)
    ended, problem = None, course.overstepped(phase, paths)
    if problem and (is_unproven(done) or done.verdict is Verdict.NO_CHANGE):
        ended = Judgement(Verdict.REFUSED, problem)
    elif not is_unproven(done):
        ended = Judgement(done.verdict, f"phase {phase.name}: {done.reason}")
    else:
        _take(line, before, done)
    status, why = (STALLED, ended.reason) if ended else (COMPLETED, "")
    receipt = started.receipt(phase, WORKER, status, work=done, call=call, reason=why)
    if ended:
        save(planned, place, line.wave, before.tree)
        receipt = replace(receipt, output=before.tree)
    line.record(phase, receipt, line.last, number=1)
    return ended


def _take(line: Line, before: Attempt, done: Attempt) -> None:
    """The item's work is what a further agent has made of it."""
    if done.tree == before.tree:
        return
    line.open = True
    line.trail.attempts[-1] = replace(
        before,
        tree=done.tree,
        changes=done.changes,
        verdict=done.verdict,
        reason=done.reason,
        test=None,
    )


def _read(line: Line, phase: Phase) -> Judgement | None:
    done, ended = read_only(line.at, phase, line.last, line.number)
    if paths := line.strayed():  # or the next agent would pass for who wrote them
        why = f"phase {phase.name} may only read, and these changed: {', '.join(paths[:20])}"
        done, ended = replace(done, status=STALLED, reason=why), Judgement(Verdict.REFUSED, why)
    line.record(phase, done, line.last, number=1)
    return ended


def _gate(line: Line, phase: Phase) -> Judgement | None:
    line.gates.append(phase)
    if phase.commands:
        line.open = True
    if line.open:
        return line.green()
    known = Started(line.tree()).receipt(phase, TESTER, COMPLETED, reason="proven already")
    line.record(phase, known, line.last)
    return None


def _publish(line: Line, phase: Phase) -> Judgement | None:
    """Nothing yet: all items of a wave are shipped together, when each has its verdict."""
    del line, phase
    return None


_STEPS: Mapping[str, Callable[[Line, Phase], Judgement | None]] = {
    SETUP: _set_up,
    AGENT: _ask_agent,
    GATE: _gate,
    REVIEW: review_step,
    PUBLISH: _publish,
}
