"""Decides which step of a pipeline is next, and if an approval still holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.ownership import comparison_key
from driver.domain.phase_receipt import COMPLETED, SKIPPED, PhaseReceipt
from driver.domain.results import Change
from driver.pipeline.definition import AGENT, REVIEW, SETUP, Phase, Pipeline
from driver.policy.protected_paths import matches

MAX_NAMED = 20


def next_step(pipeline: Pipeline, receipts: Sequence[PhaseReceipt]) -> int:
    """The index of the first step that is not done; the number of steps if all are done. A skipped
    gate, review or shipment is not done."""
    spared = (AGENT, SETUP)
    done = {
        one.phase
        for one in receipts
        if one.status == COMPLETED or (one.status == SKIPPED and one.kind in spared)
    }
    steps = pipeline.steps
    return next((n for n, phase in enumerate(steps) if phase.name not in done), len(steps))


def is_finished(phase: Phase, receipts: Sequence[PhaseReceipt], tree: str | None) -> bool:
    """True if an earlier run's agent has done this phase on the current tree. It is not asked again
    then, even if an earlier step is not done."""
    return phase.kind == AGENT and any(
        one.recalled and one.status == COMPLETED and (one.phase, one.output) == (phase.name, tree)
        for one in receipts
    )


def before(pipeline: Pipeline, name: str) -> int | None:
    """The index of the step named `name`; None without it."""
    return next((n for n, phase in enumerate(pipeline.steps) if phase.name == name), None)


def keeps_reviews(pipeline: Pipeline, begun_at: str | None) -> bool:
    """True if earlier reviews still count for a run that begins at the phase `begun_at`. They do
    not count if this phase is the review or is before it."""
    step = before(pipeline, begun_at) if begun_at is not None else None
    return step is None or all(phase.kind != REVIEW for phase in pipeline.steps[step:])


def last_tree(receipts: Sequence[PhaseReceipt]) -> str | None:
    """The output tree of the last phase that has one."""
    return next((one.output for one in reversed(receipts) if one.output), None)


def changed_between(earlier: Sequence[Change], later: Sequence[Change]) -> tuple[str, ...]:
    """The paths that differ between two states, each given as its changes of one base."""
    was = {change.path: (change.mode, change.blob) for change in earlier}
    now = {change.path: (change.mode, change.blob) for change in later}
    return tuple(sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path)))


def beyond(paths: Sequence[str], writes: Sequence[str]) -> tuple[str, ...]:
    """The `paths` that match no pattern of `writes`."""
    patterns = [comparison_key(pattern) for pattern in writes]
    return tuple(p for p in paths if not any(matches(comparison_key(p), one) for one in patterns))


def overstepped(phase: Phase, paths: Sequence[str]) -> str:
    """The sentence about a phase that changed foreign paths; "" if it did not."""
    foreign = beyond(paths, phase.writes) if phase.writes else ()
    if not foreign:
        return ""
    return f"phase {phase.name}: changed outside its writes: {_listed(foreign)}"


def later_writes(pipeline: Pipeline) -> tuple[str, ...]:
    """The patterns that phases after the review may change without another review."""
    kinds = [phase.kind for phase in pipeline.steps]
    after = pipeline.steps[kinds.index(REVIEW) + 1 :] if REVIEW in kinds else ()
    return tuple(pattern for phase in after if phase.edits for pattern in phase.writes)


def approval_gone(pipeline: Pipeline, paths: Sequence[str]) -> str:
    """The reason why an approval does not cover a tree that differs in `paths`; "" if it does."""
    foreign = beyond(paths, later_writes(pipeline))
    if not foreign:
        return ""
    return f"changed after the approval, so not approved: {_listed(foreign)}"


def _listed(paths: Sequence[str]) -> str:
    rest = len(paths) - MAX_NAMED
    return ", ".join(paths[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
