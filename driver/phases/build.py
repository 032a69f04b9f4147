"""One attempt at an item: dispatch an agent, see what it changed, prove it, judge it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from driver import verdicts, wave_bridge
from driver.agent_driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    ROLE_WORKER,
    WorkerResult,
)
from driver.backends.usage import NOTHING_SPENT, added
from driver.belief import of_no_change
from driver.ground import Observed, Place
from driver.outcome import (
    BUILD,
    MODE_NESTED,
    REPAIR,
    REPAIRABLE,
    Attempt,
    Change,
    Evidence,
    TestRun,
    Verdict,
)
from driver.phases.disclosure import disclosed
from driver.phases.prove import Asked, prove
from driver.phases.watched import Strays, watched
from driver.phases.weigh import Weighed, weigh
from driver.prompts import build_prompt
from driver.protected import refusal
from driver.provider_fault import FaultKind, ProviderFault
from driver.recorded import Recorded, RecordedFile
from driver.saved_work import WORK, Origin, headed
from driver.text import without_remedy
from driver.tripwire import Stray, accusation
from driver.verdicts import Judgement
from driver.wave_bridge import Call
from driver.wave_context import Performer, Planned, Wave
from state_store.errors import TidegateError
from state_store.files import write_bytes_atomic

UNPROVEN = "not tested yet"
_ENDED_BADLY = (FAILURE_AGENT, FAILURE_TIMED_OUT, FAILURE_COULD_NOT_RUN)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A dispatch that is over, and what its backend says of it."""

    call: Call
    result: WorkerResult
    duration_s: float


Judged = tuple[Judgement, TestRun | None, Evidence]
Judge = Callable[[Planned, Place, Wave, Dispatched, Observed, Strays], Judged]


def build(planned: Planned, place: Place, wave: Wave, *, number: int = 1) -> Attempt:
    """The first attempt; a line that was interrupted goes on counting with `number`."""
    return attempt(planned, place, wave, number=number, prompt=first_prompt(planned, wave))


def first_prompt(planned: Planned, wave: Wave) -> str:
    """What the agent is told first; a backend that sees no files has the rules in its own words."""
    with_rules = wave.driver.probe_capabilities().worker_filesystem_access
    return build_prompt(planned.item, with_rules=with_rules)


def attempt(planned: Planned, place: Place, wave: Wave, *, number: int, prompt: str) -> Attempt:
    """Dispatch with `prompt` and judge. Raises GateClosedError or InterruptedWaveError before
    anything is spent; once an agent ran, every trouble is part of the answer."""
    phase = BUILD if number == 1 else REPAIR
    agent = Performer(wave.driver, wave.gates)
    call = Call(number, phase, prompt, agent, planned.item.model)
    done = _attempted(planned, place, wave, call, _judge)
    reviewed_next = done.verdict is Verdict.VERIFIED and wave.wants_review(planned)
    final = not (reviewed_next or may_repair(done, planned.policy.repair_cap))
    wave.recorder.judged(wave.subject(planned), done, final=final)
    return done


def worked(planned: Planned, place: Place, wave: Wave, call: Call) -> Attempt:
    """The same without a test and unrecorded: work that nothing is to be said against yet is
    undecided, with the reason UNPROVEN."""
    return _attempted(planned, place, wave, call, _unproven)


def is_unproven(work: Attempt) -> bool:
    """Whether the work waits for its test."""
    return work.verdict is Verdict.UNDECIDED and work.reason == UNPROVEN


def _attempted(planned: Planned, place: Place, wave: Wave, call: Call, judge: Judge) -> Attempt:
    wave.gates.check_money()
    call.performer.gates.check_backend()
    with watched(planned, wave) as strays:
        sent = dispatched(planned, wave, call, partial(wave_bridge.dispatch, planned, place, wave))
        seen, test, found, blamed = Observed(()), None, Evidence(), tuple[Stray, ...]()
        try:
            seen = place.observe()
            save(planned, place, wave, seen.tree)
            _record(planned, place, wave, sent, seen)
            judgement, test, found = judge(planned, place, wave, sent, seen, strays)
            blamed = strays()
        except TidegateError as error:
            judgement = Judgement(Verdict.UNDECIDED, str(error))
        except OSError as trouble:  # folders without rights, too deep for a path, a full disk
            judgement = Judgement(Verdict.UNDECIDED, f"its files could not be handled: {trouble}")
    judgement, final = weighed_with(wave, judgement, blamed)
    return replace(_attempt(sent, seen, judgement), test=test, evidence=found, final=final)


def weighed_with(
    wave: Wave, judgement: Judgement, blamed: Sequence[Stray]
) -> tuple[Judgement, bool]:
    """The judgement with why the wave stops and what is held against the item, if so; whether it
    is the last."""
    if judgement.verdict is Verdict.HALTED and (cause := wave.gates.stop.cause):
        judgement = replace(judgement, reason=without_remedy(str(cause)))
    if blamed:
        judgement = verdicts.of_strays(judgement, accusation(blamed))
    return judgement, any(stray.grave for stray in blamed)


def may_repair(last: Attempt, repair_cap: int) -> bool:
    """Another round is allowed for the work's own faults only, at most `repair_cap` times."""
    return last.verdict in REPAIRABLE and last.number <= repair_cap and not last.final


def work_patch(planned: Planned, wave: Wave) -> Path:
    """Where an item's work is kept as a patch against the base."""
    return wave.scratch_path(planned.slug) / WORK


def dispatched(
    planned: Planned, wave: Wave, call: Call, send: Callable[[Call], WorkerResult]
) -> Dispatched:
    """The dispatch that counts: the first that came to its end, or the last there may be."""
    started, used = time.monotonic(), NOTHING_SPENT
    for left in range(call.retries, -1, -1):
        result = _dispatched_once(planned, wave, call, send)
        used = result.usage = added(used, result.usage)
        if not left or not _may_end_better(result):
            break
        again = f"{call.told or call.phase} did not come to its end ({result.error}); once more"
        wave.recorder.say(f"{planned.slug}: {again}")
        wave.gates.check_money()
        call.performer.gates.check_backend()
    return Dispatched(call, result, time.monotonic() - started)


def _may_end_better(result: WorkerResult) -> bool:
    """Another try is worth it for a process or its provider only, never for what the work is."""
    lasting = result.fault is not None and result.fault.lasting
    foreign = (result.error or "").startswith("out-of-scope:")
    return not result.ok and result.failure in _ENDED_BADLY and not lasting and not foreign


def _dispatched_once(
    planned: Planned, wave: Wave, call: Call, send: Callable[[Call], WorkerResult]
) -> WorkerResult:
    performer, model = call.performer, call.model
    with wave.spending.dispatch(
        performer.driver,
        planned.slug,
        phase=call.phase,
        number=call.number,
        model=model,
        backend=performer.gates,
    ) as one:
        subject = wave.subject(planned)
        wave.recorder.dispatched(subject, call.phase, call.number, model, call.attempts)
        result = one.run(partial(send, call))
    if not _of_its_own_model(performer, model, result.fault):
        performer.gates.met(result.fault)
    wave.recorder.left_running(planned.slug, "the agent", result.survivors)
    return result


def _of_its_own_model(performer: Performer, model: str | None, fault: ProviderFault | None) -> bool:
    """A model that only this item asks for is not known: the others fare better."""
    if fault is None or fault.kind is not FaultKind.UNKNOWN_MODEL or not model:
        return False
    return model != performer.driver.resolve_model(ROLE_WORKER)


def save(planned: Planned, place: Place, wave: Wave, tree: str | None, name: str = WORK) -> None:
    """Keep the work as a patch in the item's folder, and none where nothing differs."""
    # Before the test, so that no end of this process, however sudden, takes the work along.
    save_patch(planned, wave, place.patch(tree), name)


def save_patch(planned: Planned, wave: Wave, patch: bytes, name: str = WORK) -> None:
    """The same for a patch that is there already."""
    path = wave.scratch(planned.slug) / name
    if patch:
        origin = Origin(wave.ground_of(planned).base, planned.home.top)
        write_bytes_atomic(path, headed(patch, origin))
    else:
        path.unlink(missing_ok=True)


def _judge(
    planned: Planned,
    place: Place,
    wave: Wave,
    sent: Dispatched,
    seen: Observed,
    strays: Strays,
) -> Judged:
    if (objection := _objection(planned, wave, sent, seen, strays)) is not None:
        return objection
    number = sent.call.number
    test = prove(planned, place, seen.tree, wave, Asked(f"test-{number}"))
    wave.recorder.tested(planned.slug, test)
    judgement, found = weigh(planned, place, wave, Weighed(number, seen.changes, test))
    return judgement, test, found


def _unproven(
    planned: Planned,
    place: Place,
    wave: Wave,
    sent: Dispatched,
    seen: Observed,
    strays: Strays,
) -> Judged:
    del place
    objection = _objection(planned, wave, sent, seen, strays)
    return objection or (Judgement(Verdict.UNDECIDED, UNPROVEN), None, Evidence())


def _objection(
    planned: Planned, wave: Wave, sent: Dispatched, seen: Observed, strays: Strays
) -> Judged | None:
    """What there is to say against the work before any test; None for nothing."""
    touched = refusal(wave.protection(planned).touched(seen.changes, planned.owned))
    changes = verdicts.of_changes(
        seen.changes,
        planned.owned,
        head_moved=seen.head_moved,
        git_left=seen.git_left,
        links_outside=seen.links_outside,
        protected="; ".join(filter(None, (verdicts.unfiltered(seen.unfiltered), touched))),
    )
    # Foreign files are named even when the agent crashed as well; an empty diff is its own news
    # only when the agent says that it worked.
    if changes is not None and changes.verdict is Verdict.REFUSED:
        return changes, None, Evidence()
    secrets = disclosed(wave.ground_of(planned), seen.changes, planned.item, wave.settings)
    if barred := verdicts.of_ignored(seen.ignored) or verdicts.of_secrets(secrets):
        return barred, None, Evidence()
    if strays():  # before anything is run that such an agent has written
        return Judgement(Verdict.REFUSED), None, Evidence()
    if (failed := verdicts.of_dispatch(sent.result)) is not None:
        return failed, None, Evidence()
    if changes is not None:
        found = wave.baselines.of(planned, wave)
        return of_no_change(changes, found.baseline, planned.item.baseline), None, found
    return None


def _attempt(sent: Dispatched, seen: Observed, judgement: Judgement) -> Attempt:
    return Attempt(
        number=sent.call.number,
        phase=sent.call.phase,
        verdict=judgement.verdict,
        reason=judgement.reason,
        worker_id=sent.result.worker_id,
        usage=sent.result.usage,
        model=sent.result.model,
        duration_s=sent.duration_s,
        tree=seen.tree,
        changes=seen.changes,
        survivors=sent.result.survivors,
    )


def _record(planned: Planned, place: Place, wave: Wave, sent: Dispatched, seen: Observed) -> None:
    if wave.options.recording is None:
        return
    said = sent.result
    wave.options.recording.write(
        Recorded(
            item=planned.slug,
            phase=sent.call.phase,
            number=sent.call.number,
            prompt=sent.call.prompt,
            ok=said.ok,
            error=said.error,
            text=said.text,
            model=said.model,
            usage=said.usage,
            duration_s=sent.duration_s,
            files=tuple(_file(place, c) for c in seen.changes if c.mode != MODE_NESTED),
            failure=said.failure,
        )
    )


def _file(place: Place, change: Change) -> RecordedFile:
    return RecordedFile(change.path, change.mode, place.contents(change))
