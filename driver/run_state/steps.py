"""The steps of an item: each as events of the store and as fields of its journal entry. Pure.

`recorder` writes them; docs/state.md and docs/formats.md name events and fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from driver.backend_api.driver import Usage, in_micro_usd
from driver.domain.phase_receipt import COMPLETED, TESTER, PhaseReceipt
from driver.domain.results import BUILD, REPAIR, REVIEW, Attempt, ItemOutcome, RunKind, Verdict
from driver.domain.reviews import Review, ReviewWord
from driver.filesystem.kept_output import file_to_read
from driver.runners.failures import first_failure
from driver.terminal.safe_text import describe_verdict
from state_store.database import events
from state_store.values.lazy_dataclass import dataclass

Facts = Mapping[str, Any]


class OnError(Enum):
    """The handling of a step that cannot be written down. A lost lease is always raised."""

    RAISE = auto()  # the step may not happen then
    RAISE_OF_STORE = auto()  # it counts for nothing without the store; the journal may lack it
    REPORT = auto()  # it has happened, and the wave's report says what is missing


@dataclass(frozen=True, slots=True)
class Trace:
    """An event about one agent, which is the `number`th of its phase."""

    kind: str
    phase: str
    number: int
    facts: Facts


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to an item.

    `events` are types and facts in the wave's stream. `entry` is the journal's word and the fields
    that say where the item stands now; None leaves the entry as it is. The entry also keeps each
    `review` and `receipt`. `message` is shown to people.
    """

    events: tuple[tuple[str, Facts], ...] = ()
    trace: Trace | None = None
    entry: tuple[str, Facts] | None = None
    review: Review | None = None
    receipt: PhaseReceipt | None = None
    message: str = ""
    on_error: OnError = OnError.REPORT


def agent_started(
    phase: str, number: int, backend: str, model: str | None, attempts: int | None
) -> Step:
    """An agent is about to be asked; `attempts` is how many there were at the item's work where
    that is another number."""
    facts = {"phase": phase, "backend": backend, "model": model}
    # A later agent of a pipeline adds to an attempt; its phase tells when it is over.
    begins = phase in (BUILD, REPAIR)
    attempt = number if attempts is None else attempts
    return Step(
        ((events.ATTEMPT_STARTED, {"number": number, "phase": phase}),) if begins else (),
        Trace(events.AGENT_DISPATCHED, phase, number, facts),
        ("dispatched", {"attempt": attempt, "settled": False}),
        message=f"{phase} started (attempt {number})",
        on_error=OnError.RAISE,
    )


def review_started(number: int, tree: str | None, model: str | None) -> Step:
    """A reviewer is about to be asked. The entry of the work that it reads stays as it is."""
    return Step(
        ((events.REVIEW_STARTED, {"round": number, "tree": tree or ""}),),
        Trace(events.AGENT_DISPATCHED, REVIEW, number, {"phase": REVIEW, "model": model}),
        message=f"review started (round {number})",
        on_error=OnError.RAISE,
    )


def judged(attempt: Attempt, receipt: PhaseReceipt, *, final: bool) -> Step:
    """The item's work has its verdict; `final` if no further round follows it."""
    good = attempt.verdict is Verdict.VERIFIED
    facts = {
        "number": attempt.number,
        "verdict": str(attempt.verdict),
        "reason": attempt.reason or None,
        "tree": attempt.tree,
        "evidence": attempt.evidence_json(),
    }
    cost = {"model": attempt.model, **_used(attempt.usage, attempt.duration_s)}
    ended = {"verdict": str(attempt.verdict), "error": attempt.reason or None}
    # Work that waits for a person is kept, and proven again once a person has decided.
    kept = attempt.waits or _could_not_be_judged(attempt, receipt)
    over = final and attempt.verdict is not Verdict.HALTED and not kept
    kind = events.AGENT_COMPLETED if good else events.AGENT_FAILED
    return Step(
        ((events.ATTEMPT_JUDGED, facts), (events.PHASE_FINISHED, receipt.to_json())),
        Trace(kind, attempt.phase, attempt.number, {**cost, **ended}),
        (
            _phase_of(attempt),
            {**_of_attempt(attempt), "settled": over, "waits": attempt.waits},
        ),
        receipt=receipt,
        message=_with_failure(attempt),
        on_error=OnError.RAISE_OF_STORE,
    )


def _with_failure(attempt: Attempt) -> str:
    """The verdict for people, with the first failure of a red test and the file of its output."""
    message, run = describe_verdict(attempt.verdict, attempt.reason), attempt.test
    if attempt.verdict is not Verdict.FAILED or run is None or run.kind is not RunKind.RED:
        return message
    shown = first_failure(run.output)
    message = f"{message}: {shown}" if shown and shown not in message else message
    if not run.output_file:
        return message
    return f"{message}; its output: {file_to_read(run.output_file)}"


def reviewed(review: Review, receipt: PhaseReceipt, outcome: ItemOutcome, *, final: bool) -> Step:
    """A review has its word, and with it the item stands as `outcome`; `final` if neither a repair
    nor another review follows, in a resumed run either."""
    done = review.word != ReviewWord.UNDECIDED
    kind = events.AGENT_COMPLETED if done else events.AGENT_FAILED
    cost = {"backend": review.backend, "model": review.model}
    used = _used(review.usage, review.duration_s)
    ended = {"verdict": str(review.word), "error": review.reason or None}
    trace = Trace(kind, REVIEW, review.number, {**cost, **used, **ended})
    return Step(
        ((events.REVIEW_JUDGED, review.to_json()), (events.PHASE_FINISHED, receipt.to_json())),
        trace if review.worker_id is not None else None,  # else no agent was asked
        ("reviewed", {**_of_outcome(outcome), "settled": final}),
        review,
        receipt,
        f"review {review.number}: {describe_verdict(review.word, review.message)}",
        OnError.RAISE_OF_STORE,
    )


def phase_finished(
    receipt: PhaseReceipt, work: Attempt | None, number: int | None, message: str
) -> Step:
    """A phase is over that gives no verdict on the item's `work`; `number` is that of its dispatch,
    if an agent was asked that neither builds nor reviews."""
    kind = events.AGENT_COMPLETED if receipt.status == COMPLETED else events.AGENT_FAILED
    engine = receipt.engine
    facts = {
        "backend": engine.name if engine else None,
        "model": engine.model if engine else None,
        **_used(receipt.usage, receipt.duration_ms / 1000),
        "verdict": receipt.status,
        "error": receipt.reason or None,
    }
    stands = {"proven": False, "settled": False}
    return Step(
        ((events.PHASE_FINISHED, receipt.to_json()),),
        Trace(kind, receipt.phase, number, facts) if number is not None else None,
        ("phase", {**_of_attempt(work), **stands}) if work else None,
        receipt=receipt,
        message=message,
    )


def settled(outcome: ItemOutcome) -> Step:
    """An item's verdict changed after its last attempt, or it never had one."""
    fields = _of_outcome(outcome)
    stopped = outcome.verdict in (Verdict.HALTED, Verdict.OVER_BUDGET)
    # Proven work that could not be reviewed, or is not wanted now, is not built a second time.
    waits = outcome.verdict in (Verdict.UNDECIDED, Verdict.WITHDRAWN) and fields["proven"]
    # Without an attempt, the entry of an earlier run is all that is known.
    is_news = bool(outcome.attempts) or outcome.verdict is Verdict.FAILED
    facts = {"verdict": str(outcome.verdict), "reason": outcome.reason}
    return Step(
        ((events.ITEM_SETTLED, facts),),
        entry=("failed", {**fields, "settled": not (stopped or waits)}) if is_news else None,
        message=describe_verdict(outcome.verdict, outcome.reason),
    )


def shipping(outcome: ItemOutcome, commit: str, branch: str, tip: str, target: str | None) -> Step:
    """The item's commit is about to be published with the others up to `tip`: on `branch`, or on to
    `target`, and then on `branch` only where they do not get there."""
    where = {"branch": branch, "tip": tip, "target": target, "settled": True, "commit": commit}
    return Step(
        ((events.ITEM_SHIPPING, {"commit": commit, "branch": target or branch}),),
        entry=("shipping", {**_of_outcome(outcome), **where}),
        on_error=OnError.RAISE,
    )


def shipped(outcome: ItemOutcome, commit: str, branch: str | None, tip: str) -> Step:
    """The item's commit is where it was meant to go."""
    where = {"commit": commit, "branch": branch, "tip": tip, "shipped": True, "settled": True}
    return Step(
        ((events.ITEM_SHIPPED, {"commit": commit}),),
        entry=("verified", {**_of_outcome(outcome), **where}),
    )


def _used(usage: Usage, duration_s: float) -> dict[str, Any]:
    return {
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "tokens": usage.total_tokens,
        "cost_usd": in_micro_usd(usage.cost_usd),
        "duration_s": round(duration_s, 3),
    }


def _phase_of(attempt: Attempt) -> str:
    """The word that an entry has for an attempt that is judged."""
    if attempt.verdict is Verdict.VERIFIED:
        return "verified" if attempt.number == 1 else "repaired"
    return "failed" if attempt.number == 1 else "repair_failed"


def _could_not_be_judged(attempt: Attempt, receipt: PhaseReceipt) -> bool:
    """True if an agent's work is whole, but its proof has given no answer: it is proven again
    before another agent is paid. After a signal other work may help."""
    killed = attempt.test is not None and attempt.test.kind is RunKind.KILLED
    undecided = attempt.verdict is Verdict.UNDECIDED and attempt.tree is not None
    return undecided and receipt.role == TESTER and not (attempt.final or killed)


def _counted(last: Attempt) -> int:
    """The attempts that a later run has to count; one that was halted is not the agent's fault."""
    return last.number - (last.verdict is Verdict.HALTED)


def _of_attempt(attempt: Attempt) -> dict[str, Any]:
    """An entry's fields about an attempt."""
    return {
        "verified": attempt.verdict is Verdict.VERIFIED,
        "verdict": str(attempt.verdict),
        "testExit": attempt.test.exit_code if attempt.test else None,
        "repairs": attempt.number - 1,
        "attempt": _counted(attempt),
        "error": attempt.reason or None,
        "tree": attempt.tree,
        "filesWritten": [change.path for change in attempt.changes],
        "evidence": attempt.evidence_json(),
    }


def _of_outcome(outcome: ItemOutcome) -> dict[str, Any]:
    """An entry's fields about where an item stands."""
    test = outcome.last_test
    last = outcome.attempts[-1] if outcome.attempts else None
    return {
        "verified": outcome.verdict is Verdict.VERIFIED,
        "verdict": str(outcome.verdict),
        "testExit": test.exit_code if test else None,
        "repairs": outcome.repairs,
        "attempt": _counted(last) if last else 0,
        "error": outcome.reason or None,
        "tree": outcome.tree,
        "approvedTree": outcome.approved_tree,
        "afterApproval": list(outcome.after_approval),
        "proven": last is not None and last.verdict is Verdict.VERIFIED,
        "filesWritten": [change.path for change in outcome.changes],
        "evidence": last.evidence_json() if last else None,
        "together": [run.to_json() for run in outcome.batch_runs],
    }
