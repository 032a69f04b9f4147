"""Runs the steps of an item's pipeline; the classic order is an ordinary one.

A step leaves a tree and a receipt (`step_log`), from which a later run resumes. Whatever changed
the tree, it is proven before anything rests on it: before the next agent behind a gate, before a
review, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from driver.agents.agent_request import build_request
from driver.agents.attempt import attempt, is_unproven, save
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
from driver.pipeline import position
from driver.pipeline.definition import AGENT, GATE, PUBLISH, REVIEW, SETUP, Phase
from driver.pipeline_run.item_work import PipelineRun
from driver.pipeline_run.phase_prompt import phase_prompt
from driver.pipeline_run.read_only_agent import read_only
from driver.pipeline_run.resume import ResumePoint
from driver.pipeline_run.review_loop import approved, review_step
from driver.pipeline_run.setup_step import set_up
from driver.pipeline_run.step_log import Started
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.terminal.progress import QUIT, RUN

NOTHING_DONE = "nothing was done: no step before this one has left any work"


def run_pipeline(item: ItemRun, start: ResumePoint) -> ItemOutcome:
    """Run the steps from `start` on. Raises what keeps the item from going on."""
    run = PipelineRun(item, start.attempts, start.again)
    ended = _run_steps(run, start.step)
    outcome = replace(
        item.outcome(ended.verdict, ended.reason),
        approved_tree=run.approved_tree,
        after_approval=run.after_approval,
        publish=run.publish,
    )
    last = item.attempts[-1] if item.attempts else None
    if last is None or (ended.verdict, ended.reason) != (last.verdict, last.reason):
        return item.settle(outcome)
    return outcome


def _run_steps(run: PipelineRun, first: int) -> Judgement:
    """The verdict after the last step, or that of the step which ended it."""
    steps = run.pipeline.steps
    run.gates = [phase for phase in steps[:first] if phase.kind == GATE]
    if first and steps[0].kind == SETUP and (ended := set_up(run.item, steps[0])[1]):
        return ended  # the workspace is a new one
    for phase in steps[first:]:
        if position.is_finished(phase, run.item.phases, run.tree()):
            continue
        if not _is_wanted(run, phase):
            continue
        if phase.kind not in (SETUP, AGENT) and not run.item.attempts:
            return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        ended = run.unclean(phase) or _STEPS[phase.kind](run, phase)
        if ended is not None:
            return ended
    if not run.item.attempts:
        return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
    return run.green() or _skipped_gate(run) or approved(run)


def _skipped_gate(run: PipelineRun) -> Judgement | None:
    """The judgement of work whose gate the user has skipped; None if there is no such gate."""
    if not run.skipped_gates:
        return None
    why = f"gate {run.skipped_gates[0].name} was skipped, and has to let the work pass"
    return Judgement(Verdict.UNDECIDED, why)


def _is_wanted(run: PipelineRun, phase: Phase) -> bool:
    """True if the user, where asked, lets the step begin. Raises GateClosedError."""
    if (ask := run.wave.options.ask) is None:
        return True
    run.wave.gates.check()  # nobody is asked about what may not begin any more
    answer = ask(run.slug, phase.name)
    if answer == QUIT:
        why = GateClosedError(STOPPED_BY_USER, "stopped by user")
        run.wave.gates.stop.close(why, run.wave.gates.halt_grace_s)
        run.wave.gates.check()
    if answer != RUN:
        run.record(Started().receipt(phase, TESTER, SKIPPED, reason="skipped by user"))
        run.publish = run.publish and phase.kind != PUBLISH
        run.skipped_gates += [phase] if phase.kind == GATE else []
    return answer == RUN


def _set_up(run: PipelineRun, phase: Phase) -> Judgement | None:
    run.wave.gates.check()
    done, ended = set_up(run.item, phase)
    run.record(done)
    return ended


def _ask_agent(run: PipelineRun, phase: Phase) -> Judgement | None:
    if not run.item.attempts:
        if not phase.edits:
            return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        run.work(phase, phase.name, phase_prompt(run.item, phase), BUILDER)
        return run.mended()
    if run.gates and (ended := run.green()) is not None:
        return ended
    return _read(run, phase) if phase.reads_only else _further(run, phase)


def _further(run: PipelineRun, phase: Phase) -> Judgement | None:
    """An agent after the first: what it adds belongs to the work, and may be bounded."""
    item, before = run.item, run.last
    item.workspace.forget_commits()
    prompt = phase_prompt(item, phase, before)
    request = replace(build_request(item, phase, phase.name, 1, prompt), attempts=run.number)
    started = Started(before.tree, prompt, request.backend.driver)
    done = attempt(item, request)
    paths = position.changed_between(before.changes, done.changes)
    ended, problem = None, position.overstepped(phase, paths)
    if problem and (is_unproven(done) or done.verdict is Verdict.NO_CHANGE):
        ended = Judgement(Verdict.REFUSED, problem)
    elif not is_unproven(done):
        ended = Judgement(done.verdict, f"phase {phase.name}: {done.reason}")
    else:
        _take(run, before, done)
    status, why = (STALLED, ended.reason) if ended else (COMPLETED, "")
    receipt = started.receipt(phase, WORKER, status, work=done, request=request, reason=why)
    if ended:
        save(item, before.tree)
        receipt = replace(receipt, output=before.tree)
    run.record(receipt, run.last, number=1)
    return ended


def _take(run: PipelineRun, before: Attempt, done: Attempt) -> None:
    """The item's work is what a further agent has made of it."""
    if done.tree == before.tree:
        return
    run.open = True
    run.item.attempts[-1] = replace(
        before,
        tree=done.tree,
        changes=done.changes,
        verdict=done.verdict,
        reason=done.reason,
        test=None,
    )


def _read(run: PipelineRun, phase: Phase) -> Judgement | None:
    done, ended = read_only(run.item, phase, run.last, run.number)
    if paths := run.changed_since():  # or the next agent would pass for who wrote them
        why = f"phase {phase.name} may only read, and these changed: {', '.join(paths[:20])}"
        done, ended = replace(done, status=STALLED, reason=why), Judgement(Verdict.REFUSED, why)
    run.record(done, run.last, number=1)
    return ended


def _gate(run: PipelineRun, phase: Phase) -> Judgement | None:
    run.gates.append(phase)
    if phase.commands:
        run.open = True
    if run.open:
        return run.green()
    known = Started(run.tree()).receipt(phase, TESTER, COMPLETED, reason="proven already")
    run.record(known, run.last)
    return None


def _publish(run: PipelineRun, phase: Phase) -> Judgement | None:
    """Nothing yet: all items of a wave are shipped together, when each has its verdict."""
    del run, phase
    return None


_STEPS: Mapping[str, Callable[[PipelineRun, Phase], Judgement | None]] = {
    SETUP: _set_up,
    AGENT: _ask_agent,
    GATE: _gate,
    REVIEW: review_step,
    PUBLISH: _publish,
}
