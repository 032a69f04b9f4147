"""One attempt at an item: dispatch an agent, see what it changed, prove it, judge it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from driver.agents import dispatch as dispatching
from driver.agents.dispatch import Call
from driver.agents.guarded import Strays, watched
from driver.agents.secret_check import check_secrets
from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    ROLE_WORKER,
    Usage,
    WorkerResult,
)
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.recorded import Recorded, RecordedFile, prompt_sha256
from driver.checkout_guard.guard import CheckoutChange, attribution
from driver.domain.results import (
    MODE_NESTED,
    REPAIRABLE,
    Attempt,
    Change,
    Evidence,
    Verdict,
)
from driver.execution.cancellation import InterruptedWaveError
from driver.limits.admission import GateClosedError
from driver.limits.usage_sums import sum_usage
from driver.policy import judgement as verdicts
from driver.policy.acceptance import of_no_change
from driver.policy.judgement import Judgement
from driver.policy.protected_paths import refusal
from driver.run_state.context import AssignedBackend, Planned, Wave
from driver.terminal.safe_text import without_remedy
from driver.workspace.repository_context import Observed, Workspace
from driver.workspace.root import WorkspaceError
from driver.workspace.saved_patch import WORK, Origin, headed
from state_store.documents.errors import TidegateError
from state_store.documents.files import write_bytes_atomic

UNPROVEN = "not tested yet"
_ENDED_BADLY = (FAILURE_AGENT, FAILURE_TIMED_OUT, FAILURE_COULD_NOT_RUN)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A dispatch that is over, and what its backend says of it."""

    call: Call
    result: WorkerResult
    duration_s: float

    def recorded(self, slug: str) -> Recorded:
        """As a recording has it, without what it changed."""
        return Recorded.of(
            self.result,
            self.duration_s,
            item=slug,
            phase=self.call.heard,
            number=self.call.number,
            prompt=self.call.prompt,
        )


def worked(planned: Planned, place: Workspace, wave: Wave, call: Call) -> Attempt:
    """One dispatch and what came of it, unrecorded. Work that nothing is to be said against before
    its test is undecided, with the reason UNPROVEN.

    Raises GateClosedError or InterruptedWaveError before anything is spent; once an agent ran,
    every trouble is part of the answer.
    """
    wave.spending.check(call.performer.gates)
    with watched(planned, wave) as strays:
        sent = dispatched(planned, wave, call, partial(dispatching.dispatch, planned, place, wave))
        seen, found, blamed = Observed(()), Evidence(), tuple[CheckoutChange, ...]()
        judgement = Judgement(Verdict.UNDECIDED, UNPROVEN)
        try:
            seen = place.observe()
            save(planned, place, wave, seen.tree)
            _record(planned, place, wave, sent, seen)
            if (objection := _objection(planned, wave, sent, seen, strays)) is not None:
                judgement, found = objection
                blamed = strays()
        except (TidegateError, OSError) as trouble:
            judgement = of_trouble(trouble, wave)
    judgement, final = assessed_with(wave, judgement, blamed)
    return replace(_attempt(sent, seen, judgement), evidence=found, final=final)


def is_unproven(work: Attempt) -> bool:
    """Whether the work waits for its test."""
    return work.verdict is Verdict.UNDECIDED and work.reason == UNPROVEN


def assessed_with(
    wave: Wave, judgement: Judgement, blamed: Sequence[CheckoutChange]
) -> tuple[Judgement, bool]:
    """The judgement with why the wave stops and what is held against the item, if so; whether it
    is the last."""
    if judgement.verdict is Verdict.HALTED and (cause := wave.gates.stop.cause):
        judgement = replace(judgement, reason=without_remedy(str(cause)))
    if blamed:
        judgement = verdicts.of_checkout_changes(judgement, attribution(blamed))
    return judgement, any(stray.grave for stray in blamed)


def of_trouble(trouble: TidegateError | OSError, wave: Wave) -> Judgement:
    """The verdict of an item that trouble keeps from one; a set-up that we ended is none."""
    cause = wave.gates.stop.cause
    if cause is not None and isinstance(trouble, WorkspaceError):
        return Judgement(Verdict.HALTED, without_remedy(str(cause)))
    # Folders without rights, too deep for a path or taken away by a set-up, a full disk.
    if isinstance(trouble, OSError):
        return Judgement(Verdict.UNDECIDED, f"its files could not be handled: {trouble}")
    return Judgement(Verdict.UNDECIDED, str(trouble))


def may_repair(last: Attempt, repair_cap: int) -> bool:
    """Another round is allowed for the work's own faults only, at most `repair_cap` times."""
    return last.verdict in REPAIRABLE and last.number <= repair_cap and not last.final


def work_patch(planned: Planned, wave: Wave) -> Path:
    """Where an item's work is kept as a patch against the base."""
    return wave.scratch_path(planned.slug) / WORK


def dispatched(
    planned: Planned, wave: Wave, call: Call, send: Callable[[Call], WorkerResult]
) -> Dispatched:
    """The dispatch that counts: the first that came to its end, or the last there may be; its use
    is what is known of all of them."""
    started, used = time.monotonic(), list[Usage]()
    result = _dispatched_once(planned, wave, call, send)
    used.append(result.usage)
    for _ in range(call.retries):
        if not _may_end_better(result):
            break
        again = f"{call.heard} did not come to its end ({result.error}); once more"
        wave.recorder.say(f"{planned.slug}: {again}")
        try:
            wave.spending.check(call.performer.gates)
            result = _dispatched_once(planned, wave, call, send)
        except (GateClosedError, InterruptedWaveError) as stopped:
            # Not raised: the use of the tries before would be told by nobody.
            why = f"{result.error}; not tried again: {stopped}"
            result = replace(result, failure=FAILURE_CANCELLED, error=why)
            break
        used.append(result.usage)
    result.usage = sum_usage(used)
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


def _of_its_own_model(
    performer: AssignedBackend, model: str | None, fault: ProviderFault | None
) -> bool:
    """A model that only this item asks for is not known: the others fare better."""
    if fault is None or fault.kind is not FaultKind.UNKNOWN_MODEL or not model:
        return False
    return model != performer.driver.resolve_model(ROLE_WORKER)


def save(
    planned: Planned, place: Workspace, wave: Wave, tree: str | None, name: str = WORK
) -> None:
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


def _objection(
    planned: Planned, wave: Wave, sent: Dispatched, seen: Observed, strays: Strays
) -> tuple[Judgement, Evidence] | None:
    """What there is to say against the work before any test; None for nothing."""
    found = against(planned, wave, seen)
    # Foreign files are named even when the agent crashed as well; an empty diff is its own news
    # only when the agent says that it worked.
    if found is not None and found.verdict is Verdict.REFUSED:
        return found, Evidence()
    if strays():  # before anything is run that such an agent has written
        return Judgement(Verdict.REFUSED), Evidence()
    if (failed := verdicts.of_dispatch(sent.result)) is not None:
        return failed, Evidence()
    if found is not None:
        on_base = wave.baselines.of(planned, wave)
        return of_no_change(found, on_base.baseline, planned.item.baseline), on_base
    return None


def against(planned: Planned, wave: Wave, seen: Observed) -> Judgement | None:
    """What there is to say against work as it is, of this run or an earlier one: REFUSED, or that
    there is none."""
    touched = refusal(wave.protection(planned).touched(seen.changes, planned.owned))
    changes = verdicts.of_changes(
        seen.changes,
        planned.owned,
        head_moved=seen.head_moved,
        git_left=seen.git_left,
        links_outside=seen.links_outside,
        protected="; ".join(filter(None, (verdicts.unfiltered(seen.unfiltered), touched))),
    )
    if changes is not None and changes.verdict is Verdict.REFUSED:
        return changes
    secrets = check_secrets(wave.repository_of(planned), seen.changes, planned.item, wave.settings)
    return verdicts.of_ignored(seen.ignored) or verdicts.of_secrets(secrets) or changes


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
        prompt_hash=prompt_sha256(sent.call.prompt),
    )


def _record(
    planned: Planned, place: Workspace, wave: Wave, sent: Dispatched, seen: Observed
) -> None:
    if wave.options.recording is None:
        return
    files = tuple(_file(place, c) for c in seen.changes if c.mode != MODE_NESTED)
    wave.options.recording.write(replace(sent.recorded(planned.slug), files=files))


def _file(place: Workspace, change: Change) -> RecordedFile:
    return RecordedFile(change.path, change.mode, place.contents(change))
