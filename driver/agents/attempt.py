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
from driver.run_state.context import AssignedBackend, ItemRun, Wave
from driver.terminal.safe_text import without_remedy
from driver.workspace.repository_context import Observed, Workspace
from driver.workspace.root import WorkspaceError
from driver.workspace.saved_patch import WORK, Origin, with_origin
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


def worked(item: ItemRun, call: Call) -> Attempt:
    """One dispatch and what came of it, unrecorded. Work that nothing is to be said against before
    its test is undecided, with the reason UNPROVEN.

    Raises GateClosedError or InterruptedWaveError before anything is spent; once an agent ran,
    every trouble is part of the answer.
    """
    wave = item.wave
    item.wave.spending.check(call.performer.gates)
    with watched(item) as strays:
        sent = dispatched(item, call, partial(dispatching.dispatch, item))
        seen, found, blamed = Observed(()), Evidence(), tuple[CheckoutChange, ...]()
        judgement = Judgement(Verdict.UNDECIDED, UNPROVEN)
        try:
            seen = item.workspace.observe()
            save(item, seen.tree)
            _record(item, sent, seen)
            if (objection := _objection(item, sent, seen, strays)) is not None:
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
    return judgement, any(stray.can_execute_code for stray in blamed)


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


def work_patch(item: ItemRun) -> Path:
    """Where an item's work is kept as a patch against the base."""
    return item.scratch_path / WORK


def dispatched(item: ItemRun, call: Call, send: Callable[[Call], WorkerResult]) -> Dispatched:
    """The dispatch that counts: the first that came to its end, or the last there may be; its use
    is what is known of all of them."""
    started, used = time.monotonic(), list[Usage]()
    result = _dispatched_once(item, call, send)
    used.append(result.usage)
    for _ in range(call.retries):
        if not _may_end_better(result):
            break
        item.say(f"{call.heard} did not come to its end ({result.error}); once more")
        try:
            item.wave.spending.check(call.performer.gates)
            result = _dispatched_once(item, call, send)
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
    item: ItemRun, call: Call, send: Callable[[Call], WorkerResult]
) -> WorkerResult:
    performer, model, wave = call.performer, call.model, item.wave
    with wave.spending.dispatch(
        performer.driver,
        item.slug,
        phase=call.phase,
        number=call.number,
        model=model,
        backend=performer.gates,
    ) as one:
        wave.recorder.dispatched(item.key, call.phase, call.number, model, call.attempts)
        result = one.run(partial(send, call))
    if not _of_its_own_model(performer, model, result.fault):
        performer.gates.met(result.fault)
    wave.recorder.left_running(item.slug, "the agent", result.survivors)
    return result


def _of_its_own_model(
    performer: AssignedBackend, model: str | None, fault: ProviderFault | None
) -> bool:
    """A model that only this item asks for is not known: the others fare better."""
    if fault is None or fault.kind is not FaultKind.UNKNOWN_MODEL or not model:
        return False
    return model != performer.driver.resolve_model(ROLE_WORKER)


def save(item: ItemRun, tree: str | None, name: str = WORK) -> None:
    """Keep the work as a patch in the item's folder, and none where nothing differs."""
    # Before the test, so that no end of this process, however sudden, takes the work along.
    save_patch(item, item.workspace.patch(tree), name)


def save_patch(item: ItemRun, patch: bytes, name: str = WORK) -> None:
    """The same for a patch that is there already."""
    path = item.scratch / name
    if patch:
        origin = Origin(item.context.base, item.planned.home.top)
        write_bytes_atomic(path, with_origin(patch, origin))
    else:
        path.unlink(missing_ok=True)


def _objection(
    item: ItemRun, sent: Dispatched, seen: Observed, strays: Strays
) -> tuple[Judgement, Evidence] | None:
    """What there is to say against the work before any test; None for nothing."""
    found = against(item, seen)
    # Foreign files are named even when the agent crashed as well; an empty diff is its own news
    # only when the agent says that it worked.
    if found is not None and found.verdict is Verdict.REFUSED:
        return found, Evidence()
    if strays():  # before anything is run that such an agent has written
        return Judgement(Verdict.REFUSED), Evidence()
    if (failed := verdicts.of_dispatch(sent.result)) is not None:
        return failed, Evidence()
    if found is not None:
        on_base = item.wave.baselines.of(item)
        return of_no_change(found, on_base.baseline, item.spec.baseline), on_base
    return None


def against(item: ItemRun, seen: Observed) -> Judgement | None:
    """What there is to say against work as it is, of this run or an earlier one: REFUSED, or that
    there is none."""
    touched = refusal(item.protection.touched(seen.changes, item.planned.owned))
    changes = verdicts.of_changes(
        seen.changes,
        item.planned.owned,
        head_moved=seen.head_moved,
        git_left=seen.git_left,
        links_outside=seen.links_outside,
        protected="; ".join(filter(None, (verdicts.unfiltered(seen.unfiltered), touched))),
    )
    if changes is not None and changes.verdict is Verdict.REFUSED:
        return changes
    secrets = check_secrets(item.repository, seen.changes, item.spec, item.wave.settings)
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


def _record(item: ItemRun, sent: Dispatched, seen: Observed) -> None:
    recording = item.wave.options.recording
    if recording is None:
        return
    files = tuple(_file(item.workspace, c) for c in seen.changes if c.mode != MODE_NESTED)
    recording.write(replace(sent.recorded(item.slug), files=files))


def _file(place: Workspace, change: Change) -> RecordedFile:
    return RecordedFile(change.path, change.mode, place.contents(change))
