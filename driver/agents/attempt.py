"""Makes an attempt at an item: asks a builder, looks at its changes, and judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.agents.agent_request import AgentRequest
from driver.agents.dispatch import Dispatched, dispatch
from driver.agents.neighbours import observed
from driver.agents.secret_check import check_secrets
from driver.backend_api.driver import FAILURE_AGENT, WorkerResult
from driver.backends.recorded import RecordedFile, prompt_sha256
from driver.checkout_guard.evidence import shown
from driver.checkout_guard.guard import CheckoutChange, attribution, warning
from driver.domain.results import (
    MODE_NESTED,
    REPAIRABLE,
    Attempt,
    Change,
    Evidence,
    Verdict,
)
from driver.pipeline.position import changed_between
from driver.policy import judgement as verdicts
from driver.policy.acceptance import of_no_change
from driver.policy.judgement import Judgement
from driver.policy.protected_paths import refusal
from driver.run_state.context import ItemRun, Wave
from driver.terminal.safe_text import without_remedy
from driver.workspace.repository_context import Observed, Workspace
from driver.workspace.saved_patch import WORK, Origin, with_origin
from state_store.documents.errors import TidegateError
from state_store.documents.files import write_bytes_atomic
from state_store.values.lazy_dataclass import dataclass, field, replace

UNPROVEN = "not tested yet"


def attempt(item: ItemRun, request: AgentRequest) -> Attempt:
    """Ask a builder and look at its changes. Nothing is journaled.

    Work without an objection is UNDECIDED with the reason UNPROVEN until its test. Raises
    GateClosedError or InterruptedWaveError before it costs anything; once an agent ran, every error
    becomes part of the answer.
    """
    seen, found, held = Observed(()), Evidence(), HeldAgainst()
    judgement = Judgement(Verdict.UNDECIDED, UNPROVEN)
    with dispatch(item, request) as answer:
        try:
            seen = observed(item)
            save(item, seen.tree)
            for note in seen.notes:
                item.say(note)
            if item.wave.options.recording is not None:
                answer.record(item, files=_recorded_files(item.workspace, seen.changes))
            # Before Tidegate runs anything that was written by an agent which wrote elsewhere too.
            held = held_against(item, answer.checkout_changes(), seen.changes)
            if (objection := _objection(item, answer, seen, held)) is not None:
                judgement, found = objection
        except (TidegateError, OSError) as trouble:
            judgement = of_trouble(trouble, item.wave)
    judgement = assessed_with(item.wave, judgement, held)
    return Attempt(
        number=request.number,
        phase=request.phase,
        verdict=judgement.verdict,
        reason=judgement.reason,
        worker_id=answer.result.worker_id,
        usage=answer.result.usage,
        model=answer.result.model,
        duration_s=answer.duration_s,
        tree=seen.tree,
        changes=seen.changes,
        survivors=answer.result.survivors,
        evidence=found,
        final=held.is_final or seen.is_replaced or answer.final,
        notes=(*seen.notes, *held.notes),
        prompt_hash=prompt_sha256(request.prompt),
    )


def is_unproven(work: Attempt) -> bool:
    """True if the work waits for its test."""
    return work.verdict is Verdict.UNDECIDED and work.reason == UNPROVEN


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """The changes in the user's checkout that keep an item back, and the rest. `evidence` shows by
    name which of them the item made itself."""

    changes: tuple[CheckoutChange, ...] = ()
    rest: tuple[CheckoutChange, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note about the rest."""
        return (f"not held against it: {warning(self.rest)}",) if self.rest else ()

    @property
    def is_final(self) -> bool:
        """True if no further round may run."""
        return any(change.holds_back for change in self.changes)


def held_against(
    item: ItemRun, changed: Sequence[CheckoutChange], work: Sequence[Change]
) -> HeldAgainst:
    """Separate the changes that hold the item back from those that may be the user's own edits. A
    change holds it back if it `holds_back`, or if evidence shows that the item made it."""
    evidence: Mapping[str, str] = {}
    if (context := item.repository) is not None:
        contents, top = item.workspace.contents, context.repository.top
        evidence = shown(changed, top, work, contents, context.folder)
    held = tuple(one for one in changed if one.holds_back or one.name in evidence)
    return HeldAgainst(held, tuple(one for one in changed if one not in held), evidence)


def assessed_with(wave: Wave, judgement: Judgement, held: HeldAgainst) -> Judgement:
    """The judgement, with the cause of a stop and the attribution of changes in the checkout."""
    if judgement.verdict is Verdict.HALTED and (cause := wave.gates.stop.cause):
        judgement = replace(judgement, reason=without_remedy(str(cause)))
    if held.changes:
        words = attribution(held.changes)
        judgement = verdicts.of_checkout_changes(judgement, words, held.evidence)
    return judgement


def of_trouble(trouble: TidegateError | OSError, wave: Wave) -> Judgement:
    """The verdict after an error. Errors after a stop are HALTED: Tidegate itself ends set-ups and
    removes the places of the wave, also of items that do not end in time."""
    cause = wave.gates.stop.cause
    if cause is not None:
        return Judgement(Verdict.HALTED, without_remedy(str(cause)))
    # Folders without rights, too deep for a path or removed by a set-up, a full disk.
    if isinstance(trouble, OSError):
        return Judgement(Verdict.UNDECIDED, f"its files could not be handled: {trouble}")
    return Judgement(Verdict.UNDECIDED, str(trouble))


def may_repair(last: Attempt, repair_cap: int) -> bool:
    """True if another round is allowed: only for faults of the work, at most `repair_cap` times."""
    return last.verdict in REPAIRABLE and last.number <= repair_cap and not last.final


def work_patch(item: ItemRun) -> Path:
    """The path of the item's work, saved as a patch against the base."""
    return item.scratch_path / WORK


def save(item: ItemRun, tree: str | None, name: str = WORK) -> None:
    """Save the work as a patch in the item's folder; without changes there is no patch."""
    # Before the test, so that a sudden end of this process loses no work.
    save_patch(item, item.workspace.patch(tree), name)


def save_patch(item: ItemRun, patch: bytes, name: str = WORK) -> None:
    """Save a patch that already exists in the item's folder."""
    path = item.scratch / name
    if patch:
        origin = Origin(item.context.base, item.planned.home.top)
        write_bytes_atomic(path, with_origin(patch, origin))
    else:
        path.unlink(missing_ok=True)


def _objection(
    item: ItemRun, answer: Dispatched, seen: Observed, held: HeldAgainst
) -> tuple[Judgement, Evidence] | None:
    """The judgement against the work before any test; None if there is no objection."""
    found = against(item, seen)
    if found is not None and found.verdict is Verdict.NO_CHANGE and held.rest:
        found = replace(found, reason=f"{found.reason}; {warning(held.rest)}")
    # Foreign files are named even if the agent crashed as well. An empty diff counts only if the
    # agent succeeded.
    if found is not None and found.verdict is Verdict.REFUSED:
        return found, Evidence()
    if held.changes:
        return Judgement(Verdict.NO_CHANGE), Evidence()  # `assessed_with` has the verdict
    if (failed := verdicts.of_dispatch(_result_of(item, answer, seen))) is not None:
        return failed, Evidence()
    if found is not None and not seen.git_traces:  # else its work may be in a commit or stash
        on_base = item.wave.baselines.of(item)
        return of_no_change(found, on_base.baseline, item.spec.baseline), on_base
    return None if found is None else (found, Evidence())


def _result_of(item: ItemRun, answer: Dispatched, seen: Observed) -> WorkerResult:
    """The dispatch's result. An agent that did nothing by its own account, but changed a file, has
    failed; one that changed nothing is noted at its backend's gates."""
    result = answer.result
    if (fault := result.fault) is None or not fault.did_nothing:
        return result
    before = item.attempts[-1].changes if item.attempts else ()
    if changed_between(before, seen.changes):
        return replace(result, failure=FAILURE_AGENT)
    answer.request.backend.gates.did_nothing(item.slug, fault)
    return result


def against(item: ItemRun, seen: Observed) -> Judgement | None:
    """The objection to work of this run or an earlier run: REFUSED or NO_CHANGE; None for no
    objection."""
    touched = refusal(item.protection.protected_changes(seen.changes, item.planned.owned))
    changes = verdicts.of_changes(
        seen.changes,
        item.planned.owned,
        is_replaced=seen.is_replaced,
        git_traces=seen.git_traces,
        links_outside=seen.links_outside,
        protected="; ".join(filter(None, (verdicts.unfiltered(seen.unfiltered), touched))),
    )
    if changes is not None and changes.verdict is Verdict.REFUSED:
        return changes
    secrets = check_secrets(item.repository, seen.changes, item.spec, item.wave.settings)
    return verdicts.of_ignored(seen.ignored) or verdicts.of_secrets(secrets) or changes


def _recorded_files(workspace: Workspace, changes: Sequence[Change]) -> tuple[RecordedFile, ...]:
    """The changed files for a recording. A nested repository cannot be recorded."""
    changed = (change for change in changes if change.mode != MODE_NESTED)
    return tuple(RecordedFile(c.path, c.mode, workspace.contents(c)) for c in changed)
